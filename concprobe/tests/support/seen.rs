//! Looks at programs, and what these yielded.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::{concprobe, number, output, parse, program, stderr, wait_until};

/// Both ways to attach.
pub const WAYS: [&str; 2] = ["--attach btf", "--attach classic"];

/// What a look at a program yielded, and what the program printed.
#[derive(Debug)]
pub struct Seen {
    pub trace: Value,
    pub printed: String,
    pub status: Option<i32>,
}

/// Looks at one of the programs beside the tests; nothing may be lost.
pub fn trace(options: &str, name: &str, arguments: &str) -> Seen {
    let mut command = concprobe(&format!("trace --json {options} --"));
    command.arg(program(name)).args(arguments.split_whitespace());
    seen(&mut command)
}

/// Looks at any command.
pub fn trace_command(options: &str, command: &[&str]) -> Seen {
    seen(concprobe(&format!("trace --json {options} --")).args(command))
}

/// A look that is whole and consistent.
pub fn seen(command: &mut Command) -> Seen {
    let output = output(command);
    let seen = Seen { trace: parse(&output), printed: stderr(&output), status: output.status.code() };
    assert_eq!(number(&seen.trace, "/lost"), 0, "{command:?}: {}", seen.trace["losses"]);
    assert_eq!(seen.trace["self_check"]["passed"], true, "{command:?}: {}", seen.trace["self_check"]);
    seen.assert_within_the_look();
    seen
}

impl Seen {
    pub fn rows(&self, list: &str) -> &Vec<Value> {
        self.trace[list].as_array().unwrap_or_else(|| panic!("no list {list}"))
    }

    pub fn count(&self, name: &str) -> u64 {
        number(&self.trace, &format!("/counts/{name}"))
    }

    /// 64-bit calls of that name.
    pub fn calls(&self, name: &str) -> u64 {
        let same = |call: &&Value| call["name"] == name && call["compat"] == false;
        self.rows("calls").iter().filter(same).map(|call| number(call, "/calls")).sum()
    }

    /// Rows of a list that have this text there.
    pub fn rows_with(&self, list: &str, key: &str, text: &str) -> Vec<&Value> {
        self.rows(list).iter().filter(|row| row[key] == text).collect()
    }

    /// The one row of threads of that name.
    pub fn thread(&self, name: &str) -> &Value {
        let rows = self.rows_with("threads", "name", name);
        assert_eq!(rows.len(), 1, "threads named {name}: {}", self.trace["threads"]);
        rows[0]
    }

    /// Futex words of a symbol, or of a file.
    pub fn locks(&self, name: &str) -> Vec<&Value> {
        let of = |lock: &&Value| lock["name"].as_str().unwrap().starts_with(name);
        self.rows("locks").iter().filter(of).collect()
    }

    /// Sleeps at the words of a symbol, or of a file.
    pub fn slept_at(&self, name: &str) -> u64 {
        self.locks(name).iter().map(|lock| number(lock, "/slept")).sum()
    }

    pub fn verdict(&self) -> String {
        self.rows("verdict").iter().map(|sentence| sentence.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }

    /// Says nothing of locks, hand-overs, creation or polling. That other programs took the CPUs may be said.
    pub fn assert_no_accusation(&self) {
        let verdict = self.verdict();
        for alarm in ["The mutex", "The rwlock", "At the ", "A thread for each task", " polls: "] {
            assert!(!verdict.contains(alarm), "{verdict}");
        }
    }

    /// No interval is longer than the look, no thread has more than its life, none is the idle task.
    fn assert_within_the_look(&self) {
        let wall = number(&self.trace, "/wall_ns");
        for place in self.rows("locks").iter().chain(self.rows("sleeps")) {
            for part in ["blocked", "run_queue"] {
                assert!(place[part]["max_ns"].as_u64().unwrap_or(0) <= wall, "{place}");
            }
            assert!(number(place, "/open_ns") <= wall * number(place, "/open"), "{place}");
        }
        for row in self.rows("threads") {
            assert!(number(row, "/parts/wall_ns") <= wall * number(row, "/threads"), "{row}");
            assert_ne!(row["host_tid"], 0, "{row}");
        }
    }
}

/// Frames as one text.
pub fn frames(stack: &Value) -> String {
    let frames = stack["frames"].as_array().unwrap_or_else(|| panic!("no frames: {stack}"));
    frames.iter().map(|frame| frame.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The sum of the shares in a list of stacks or of wakers.
pub fn shares(list: &Value) -> f64 {
    list.as_array().unwrap().iter().map(|row| row["share"].as_f64().unwrap()).sum()
}

/// `name=value` in what a program printed.
pub fn figure(text: &str, name: &str) -> u64 {
    let words = text.split_whitespace().filter_map(|word| word.split_once('='));
    let (_, value) =
        words.into_iter().find(|(key, _)| *key == name).unwrap_or_else(|| panic!("{name}: {text}"));
    value.parse().unwrap()
}

/// A process that is ended when dropped, with those that it made.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).process_group(0).spawn().unwrap())
    }

    /// One of the programs beside the tests.
    pub fn of(name: &str, arguments: &str) -> Self {
        Self::start(Command::new(program(name)).args(arguments.split_whitespace()))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it has that many threads, all of them in that state (`S` asleep, `R` runnable).
    pub fn settled(self, threads: usize, state: char) -> Self {
        let pid = self.pid();
        wait_until(&format!("{threads} threads of {pid} in state {state}"), || {
            let Ok(listed) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
            let states: Vec<bool> = listed
                .flatten()
                .map(|thread| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default())
                .map(|stat| stat.contains(&format!(") {state} ")))
                .collect();
            states.len() == threads && states.iter().all(|there| *there)
        });
        self
    }

    pub fn attach(&self, options: &str) -> Seen {
        seen(&mut concprobe(&format!("attach --json --pid {} {options}", self.pid())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: a plain system call; the group is its own, and is there until it was waited for.
        unsafe { libc::kill(-self.0.id().cast_signed(), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}
