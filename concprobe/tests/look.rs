//! `trace` and `attach` on programs that know what they did, in the real kernel: times against the kernel's own
//! account, counts exactly, locks and who waits at them by name.

mod support;

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{concprobe, number, output, parse, program, stderr, wait_until};

/// What a look at a program yielded, and what the program printed.
struct Seen {
    trace: Value,
    printed: String,
    status: Option<i32>,
}

/// Looks at one of the programs beside this file.
fn look(options: &str, name: &str, arguments: &str) -> Seen {
    let mut command = concprobe(&format!("trace --json {options} --"));
    command.arg(program(name)).args(arguments.split_whitespace());
    seen(&mut command)
}

/// Looks at any command.
fn look_at(options: &str, command: &[&str]) -> Seen {
    seen(concprobe(&format!("trace --json {options} --")).args(command))
}

fn seen(command: &mut Command) -> Seen {
    let output = output(command);
    let trace = parse(&output);
    assert_eq!(number(&trace, "/lost"), 0, "{command:?}: {}", trace["losses"]);
    assert_eq!(trace["self_check"]["passed"], true, "{command:?}: {}", trace["self_check"]);
    let seen = Seen { printed: stderr(&output), status: output.status.code(), trace };
    assert!(seen.longest_ns() <= number(&seen.trace, "/wall_ns"), "nothing is longer than the look");
    seen
}

impl Seen {
    fn count(&self, name: &str) -> u64 {
        number(&self.trace, &format!("/counts/{name}"))
    }

    fn rows(&self, list: &str) -> &Vec<Value> {
        self.trace[list].as_array().unwrap()
    }

    fn calls(&self, name: &str, compat: bool) -> u64 {
        let same = |call: &&Value| call["name"] == name && call["compat"] == compat;
        self.rows("calls").iter().filter(same).map(|call| call["calls"].as_u64().unwrap()).sum()
    }

    /// The row of a thread, by its id.
    fn thread(&self, tid: u64) -> &Value {
        self.rows("threads").iter().find(|row| row["tid"] == tid).unwrap_or_else(|| panic!("no thread {tid}"))
    }

    fn lock(&self, name: &str) -> &Value {
        let named = |lock: &&Value| lock["name"].as_str().unwrap().starts_with(name);
        self.rows("locks")
            .iter()
            .find(named)
            .unwrap_or_else(|| panic!("no lock {name}: {}", self.trace["locks"]))
    }

    fn sleep(&self, call: &str) -> &Value {
        self.rows("sleeps").iter().find(|sleep| sleep["call"] == call).unwrap_or_else(|| panic!("no {call}"))
    }

    /// The longest sleep of all.
    fn longest_ns(&self) -> u64 {
        let all = self.rows("locks").iter().chain(self.rows("sleeps"));
        all.filter_map(|place| place["blocked"]["max_ns"].as_u64()).max().unwrap_or(0)
    }

    /// Says nothing of locks, hand-overs, creation or polling. That other programs took the CPUs may be said.
    fn assert_no_alarm(&self) {
        let verdict = self.verdict();
        for alarm in ["The mutex", "The rwlock", "At the ", "A thread for each task", " polls: "] {
            assert!(!verdict.contains(alarm), "{verdict}");
        }
    }

    fn verdict(&self) -> String {
        self.rows("verdict").iter().map(|sentence| sentence.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }
}

/// A process that is ended when dropped.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn of(name: &str, arguments: &str) -> Self {
        Self::start(Command::new(program(name)).args(arguments.split_whitespace()))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it has that many threads and the first of them sleeps.
    fn settled(self, threads: usize) -> Self {
        let pid = self.pid();
        wait_until("the program has its threads, asleep", || {
            let listed = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            listed == threads && stat.contains(") S ")
        });
        self
    }

    fn attach(&self, options: &str) -> Seen {
        seen(&mut concprobe(&format!("attach --json --pid {} {options}", self.pid())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `name=value` on a line that a program printed.
fn figure(line: &str, name: &str) -> u64 {
    let words = line.split_whitespace().filter_map(|word| word.split_once('='));
    let (_, value) =
        words.into_iter().find(|(key, _)| *key == name).unwrap_or_else(|| panic!("{name}: {line}"));
    value.parse().unwrap()
}

fn close(ours: u64, theirs: u64, percent: u64, slack: u64) -> bool {
    ours.abs_diff(theirs) * 100 <= theirs * percent + slack * 100
}

// ---------------------------------------------------------------- time

#[test]
fn on_cpu_and_run_queue_are_those_of_the_kernel_s_own_account() {
    let _alone = support::alone();
    for (name, arguments) in [("preempt", "4 600"), ("preempt", "6 400 0"), ("burnsleep", "100 2000 2000")] {
        let seen = look("", name, arguments);
        let lines: Vec<&str> = seen.printed.lines().filter(|line| line.starts_with("tid=")).collect();
        assert!(!lines.is_empty(), "{}", seen.printed);
        for line in lines {
            let row = seen.thread(figure(line, "tid"));
            let part = |part: &str| number(row, &format!("/parts/{part}"));
            // The account stops before the thread's last steps, which may wait for a CPU too.
            let slack = 30_000_000;
            assert!(close(part("on_cpu_ns"), figure(line, "run_ns"), 5, 2_000_000), "{line}: {row}");
            assert!(close(part("run_queue_ns"), figure(line, "wait_ns"), 5, slack), "{line}: {row}");
            let switches = |kind: &str| number(row, &format!("/counts/{kind}_switches"));
            assert!(switches("voluntary").abs_diff(figure(line, "vcs")) <= 2, "{line}: {row}");
            assert!(switches("involuntary").abs_diff(figure(line, "ivcs")) <= 6, "{line}: {row}");
        }
    }
}

#[test]
fn each_of_two_thousand_moves_and_sleeps_is_counted() {
    let _alone = support::alone();
    let seen = look("", "migrate", "2000");
    let sleeps = seen.sleep("clock_nanosleep");
    assert_eq!(number(sleeps, "/slept"), 2_000);
    // Where the kernel did not report a switch, a move may hide behind the next one.
    let hidden = number(&seen.trace, "/blurs/missed_switch_in");
    let moves = figure(&seen.printed, "moves");
    assert!(moves.abs_diff(seen.count("migrations")) <= 1 + hidden, "{moves}: {}", seen.trace["counts"]);
}

#[test]
fn a_sleep_that_has_no_end_is_clipped_to_the_look_and_marked() {
    let _alone = support::alone();
    let sleeper = Process::start(Command::new("sleep").arg("60")).settled(1);
    let seen = sleeper.attach("--duration 500ms");
    let row = seen.thread(sleeper.pid().into());
    let wall = number(&seen.trace, "/wall_ns");
    assert!(close(number(row, "/parts/blocked_ns"), wall, 5, 0), "{row}");
    assert_eq!(number(row, "/parts/on_cpu_ns"), 0);
    assert_eq!(row["open"]["part"], "blocked");
    assert_eq!(row["open"]["since_before"], true);
    assert_eq!(row["existed_before"], true);
    assert_eq!(row["name"], "sleep");
    let sleep = seen.sleep("clock_nanosleep");
    assert_eq!((number(sleep, "/slept"), number(sleep, "/open")), (0, 1));
    assert!(seen.verdict().starts_with("Nothing to fix"), "{}", seen.verdict());
}

// ---------------------------------------------------------------- threads and processes

#[test]
fn threads_that_were_there_before_are_listed_though_they_do_nothing() {
    let _alone = support::alone();
    let idle = Process::of("exitblk", "600 20000").settled(601);
    let seen = idle.attach("--duration 300ms");
    assert_eq!(seen.rows("threads").len(), 601);
    for row in seen.rows("threads") {
        assert_eq!(row["existed_before"], true, "{row}");
        assert_eq!(row["name"], "exitblk");
        assert_eq!(number(row, "/parts/on_cpu_ns"), 0, "{row}");
        assert_eq!(row["parts"]["blocked_ns"], row["parts"]["wall_ns"], "{row}");
    }
    let word = &seen.rows("locks")[0];
    assert_eq!((number(word, "/open"), number(word, "/threads"), number(word, "/slept")), (600, 600, 0));
    assert_eq!(word["idle"], true);
    assert!(seen.verdict().starts_with("Nothing to fix"), "{}", seen.verdict());
}

#[test]
fn every_thread_is_counted_however_short_its_life_and_whichever_id_it_has() {
    let _alone = support::alone();
    // The last wraps the ids where there are 32,768 of them.
    for (arguments, threads) in [("1000 1", 1_000), ("12000 4000", 12_000), ("40000 64", 40_000)] {
        let seen = look("", "spawn", arguments);
        assert_eq!(seen.status, Some(0));
        assert_eq!(seen.count("threads_created"), threads, "{arguments}");
        let of_rows: u64 = seen.rows("threads").iter().map(|row| row["threads"].as_u64().unwrap()).sum();
        assert_eq!(of_rows, threads + 1, "{arguments}: the dead are in some row");
        assert_eq!(number(&seen.trace, "/creation/life/count"), threads + 1, "{arguments}: all have ended");
        assert_eq!(number(seen.sleep("clock_nanosleep"), "/slept"), threads, "{arguments}");
        assert!(seen.rows("threads").iter().all(|row| row["running"] == false));
        assert!(number(&seen.trace, "/memory/driver_peak_bytes") < 200 << 20);
    }
}

#[test]
fn calls_are_counted_exactly_over_threads_and_processes() {
    let _alone = support::alone();
    for (arguments, calls) in [("1 8 250000", 2_000_000), ("16 1 62500", 1_000_000)] {
        let seen = look("--syscalls --no-stacks", "sysloop", arguments);
        assert_eq!(seen.calls("getppid", false), calls, "{arguments}");
    }
    let seen = look("--syscalls", "spawn", "1000 1");
    assert_eq!(seen.calls("getppid", false), 1_000);
    assert_eq!(seen.calls("clone3", false), 1_000, "it returns twice, and is entered once");
    assert!(seen.rows("calls").iter().all(|call| !call["name"].as_str().unwrap().starts_with("nr ")));
}

#[test]
fn what_a_command_starts_is_followed_unless_told_otherwise() {
    let _alone = support::alone();
    let script = format!("{} 2 2 1000; true", program("sysloop").display());
    let shell = ["sh", "-c", &script];
    let seen = look_at("--syscalls", &shell);
    // The shell itself asks once.
    assert_eq!(seen.calls("getppid", false), 4_001);
    let with_calls = |process: &&Value| number(process, "/counts/syscalls") >= 2_000;
    assert_eq!(seen.rows("processes").iter().filter(with_calls).count(), 2);
    assert_eq!(look_at("--syscalls --no-follow", &shell).calls("getppid", false), 1);
    let seen = look_at("", &["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; exit 0"]);
    assert_eq!((seen.count("processes_created"), seen.count("threads_created")), (10, 0));
    let of_true = |process: &&Value| process["name"] == "true" && process["running"] == false;
    assert_eq!(seen.rows("processes").iter().filter(of_true).count(), 10);
}

#[test]
fn a_process_goes_on_when_its_first_thread_has_ended() {
    let _alone = support::alone();
    let seen = look("--syscalls", "leader", "500");
    assert_eq!(seen.status, Some(3));
    assert_eq!(seen.calls("getppid", false), 10);
    assert!(number(&seen.trace, "/wall_ns") >= 500_000_000);
}

#[test]
fn a_thread_that_executes_takes_the_first_one_s_place() {
    let _alone = support::alone();
    let seen = look_at("", &[program("thexec").to_str().unwrap(), "sleep", "0.3"]);
    let sleeper = seen.rows("threads").iter().find(|row| row["name"] == "sleep").unwrap();
    assert_eq!(sleeper["tid"], seen.trace["pid"]);
    assert_eq!(seen.rows("threads").iter().map(|row| row["threads"].as_u64().unwrap()).sum::<u64>(), 6);
    assert_eq!(seen.rows("processes").len(), 1);
    assert_eq!(seen.rows("processes")[0]["name"], "sleep");
}

#[test]
fn ids_are_the_caller_s_in_a_pid_namespace() {
    let _alone = support::alone();
    let concprobe = env!("CARGO_BIN_EXE_concprobe");
    let waits = program("libcwaits");
    let mut command = Command::new("unshare");
    command.args(["-pf", "--mount-proc", concprobe, "trace", "--json", "--"]).arg(&waits);
    let seen = seen(&mut command);
    assert_eq!(seen.rows("threads").len(), 7);
    for row in seen.rows("threads") {
        assert!(row["tid"].as_u64().unwrap() < 100, "{row}");
        assert!(row["host_tid"].as_u64().unwrap() > 100, "{row}");
    }
    seen.lock("m (libcwaits");
    let script = format!(
        "{} 8 20000 & pid=$!; while [ $(ls /proc/$pid/task | wc -l) != 9 ]; do :; done; \
         {concprobe} attach --json --pid $pid --duration 200ms; kill $pid",
        program("exitblk").display()
    );
    let seen = self::seen(Command::new("unshare").args(["-pf", "--mount-proc", "sh", "-c", &script]));
    assert_eq!(seen.rows("threads").len(), 9);
    assert!(seen.rows("threads").iter().all(|row| row["tid"].as_u64().unwrap() < 100));
}

// ---------------------------------------------------------------- calls

#[test]
fn a_call_that_is_refused_or_never_returns_or_is_of_32_bits_has_its_name() {
    let _alone = support::alone();
    assert_eq!(look("--syscalls", "seccomp", "").calls("getppid", false), 1_000);
    let seen = look("--syscalls", "compat", "1000");
    assert_eq!((seen.calls("getpid", true), seen.calls("futex", true)), (1_000, 1_000));
    assert_eq!((seen.calls("writev", false), seen.calls("mq_open", false)), (0, 0));
    let seen = look_at("--syscalls", &["sh", "-c", "exit 0"]);
    assert!(
        seen.rows("threads").iter().all(|row| row["open"].is_null()),
        "exit_group is not left in progress"
    );
}

#[test]
fn each_form_of_futex_is_told() {
    let _alone = support::alone();
    let seen = look("--syscalls", "futexops", "");
    assert_eq!((seen.count("futex_waits"), seen.count("futex_wakes")), (7, 6));
    assert_eq!((seen.count("futex_wait_timed_out"), seen.count("futex_wait_again")), (5, 1));
    assert_eq!(seen.count("futex_wait_slept"), 5);
    for call in ["futex_waitv", "futex_wake", "futex_wait"] {
        assert_eq!(seen.calls(call, false), 1, "{call}");
    }
    let slept: u64 = seen.rows("locks").iter().map(|lock| number(lock, "/blocked/sum_ns")).sum();
    assert!((99_000_000..150_000_000).contains(&slept), "five waits of 20 ms: {slept}");
}

#[test]
fn a_wait_that_found_the_value_changed_is_no_sleep() {
    let _alone = support::alone();
    let seen = look("--futex-calls", "eagain", "100000");
    assert_eq!((seen.count("futex_waits"), seen.count("futex_wait_again")), (100_000, 100_000));
    assert_eq!(seen.count("futex_wait_slept"), 0);
    let word = &seen.rows("locks")[0];
    assert_eq!(
        (number(word, "/waits"), number(word, "/again"), number(word, "/slept")),
        (100_000, 100_000, 0)
    );
    assert!(word["blocked"]["p50_ns"].is_null(), "percentiles of nothing are nothing");
}

#[test]
fn a_wait_that_signals_cut_short_counts_each_time_and_its_whole_length() {
    let _alone = support::alone();
    let seen = look("--futex-calls", "eintr", "");
    let interrupted = figure(&seen.printed, "eintr");
    assert_eq!(seen.count("futex_wait_interrupted"), interrupted);
    let word = &seen.rows("locks")[0];
    assert_eq!(word["operation"], "WAIT_BITSET");
    assert!((900_000_000..1_100_000_000).contains(&number(word, "/blocked/sum_ns")), "{word}");
}

#[test]
fn polling_is_told_from_work() {
    let _alone = support::alone();
    let seen = look("--syscalls --no-stacks", "poll", "100000");
    assert_eq!(number(&seen.trace, "/polling/0/in_vain"), 200_000);
    assert!(seen.verdict().contains("poll polls: 200,000 of its"), "{}", seen.verdict());
    let seen = look("--syscalls --no-stacks", "sysloop", "1 1 200000");
    assert_eq!(seen.rows("polling").len(), 0, "calls that yield something are no polls");
}

// ---------------------------------------------------------------- locks

#[test]
fn the_kind_of_each_wait_of_the_c_library_is_right() {
    let _alone = support::alone();
    for options in ["", "--attach classic", "--futex-calls"] {
        let seen = look(options, "libcwaits", "");
        for (word, kind) in [
            ("m (libcwaits", "mutex"),
            ("c+", "condition"),
            ("s (libcwaits", "semaphore"),
            ("b+", "barrier"),
            ("rw", "rwlock"),
        ] {
            let lock = seen.lock(word);
            assert_eq!(lock["kind"], kind, "{options}: {lock}");
            assert_eq!((number(lock, "/slept"), number(lock, "/threads")), (1, 1), "{options}: {word}");
            assert!(
                (45_000_000..100_000_000).contains(&number(lock, "/blocked/sum_ns")),
                "{options}: {lock}"
            );
            assert_eq!(lock["wakers"][0]["thread"], "libcwaits", "{options}: {lock}");
        }
        assert!(seen.rows("locks").iter().any(|lock| lock["kind"] == "join"), "{options}");
        seen.assert_no_alarm();
    }
    // Without the names of functions, the operation and the value that is waited for still tell most.
    let seen = look("--no-stacks", "libcwaits", "");
    for kind in ["mutex", "condition", "join"] {
        assert!(
            seen.rows("locks").iter().any(|lock| lock["kind"] == kind),
            "{kind}: {}",
            seen.trace["locks"]
        );
    }
}

#[test]
fn the_lock_that_costs_is_first_with_who_waits_and_who_had_it() {
    let _alone = support::alone();
    for options in ["", "--attach classic"] {
        let seen = look(options, "till", "3");
        let lock = &seen.rows("locks")[0];
        assert!(lock["name"].as_str().unwrap().starts_with("till (till+"), "{options}: {lock}");
        // Where other work had the CPUs, a clerk may have been served without waiting.
        let waited = |thread: &&Value| {
            thread["tid"] != seen.trace["pid"] && number(thread, "/counts/futex_wait_slept") > 0
        };
        let clerks = seen.rows("threads").iter().filter(waited).count() as u64;
        assert!(clerks >= 2, "{options}: {}", seen.trace["threads"]);
        assert_eq!((lock["kind"].as_str(), number(lock, "/threads")), (Some("mutex"), clerks), "{options}");
        let frames = |stack: &Value| stack["frames"].to_string();
        assert!(frames(&lock["waiters"][0]).contains("serve_customer (till)"), "{options}: {lock}");
        assert!(frames(&lock["wakers"][0]).contains("serve_customer (till)"), "{options}: {lock}");
        assert_eq!(lock["wakers"][0]["thread"], "till");
        let shares: f64 =
            lock["wakers"].as_array().unwrap().iter().map(|waker| waker["share"].as_f64().unwrap()).sum();
        assert!((0.99..=1.01).contains(&shares), "{options}: {shares}");
        let verdict = seen.verdict();
        assert!(verdict.contains("The mutex till (till+"), "{options}: {verdict}");
        assert!(verdict.contains("mostly in serve_customer (till)"), "{options}: {verdict}");
    }
}

#[test]
fn each_hand_over_on_one_cpu_is_a_sleep_or_a_switch() {
    let _alone = support::alone();
    let seen = look("", "till", "1 20000");
    let slept = number(seen.lock("there"), "/slept") + number(seen.lock("back"), "/slept");
    let switches = seen.count("voluntary_switches") + seen.count("involuntary_switches");
    assert!(slept <= 40_000, "{slept}");
    assert!(switches >= 20_000, "{switches}");
    let of_rows: u64 = seen.rows("locks").iter().map(|lock| number(lock, "/slept")).sum();
    assert_eq!(of_rows, seen.count("futex_wait_slept"));
}

#[test]
fn a_lock_that_nobody_else_wants_is_no_cost() {
    let _alone = support::alone();
    let seen = look("", "till", "1");
    seen.assert_no_alarm();
    assert!(seen.rows("locks").iter().all(|lock| lock["kind"] != "mutex"), "{}", seen.trace["locks"]);
}

#[test]
fn the_calls_of_lock_functions_are_counted_in_a_slice() {
    let _alone = support::alone();
    let seen = look("--count-calls=30s", "till", "1 200000");
    let calls = |function: &str| seen.trace["lock_calls"]["calls"][function].as_u64().unwrap_or(0);
    // When the slice begins is not known, but each round has two of both.
    let (waits, posts) = (calls("sem_wait"), calls("sem_post"));
    assert!(waits >= 1_000 && waits.abs_diff(posts) <= 4, "{}", seen.trace["lock_calls"]);
    assert_eq!(calls("pthread_rwlock_rdlock"), 0);
    assert!(number(&seen.trace, "/lock_calls/cost_ns") > 0);
}

#[test]
fn what_finds_no_room_is_said() {
    let _alone = support::alone();
    let seen = look("--max-locks 3", "libcwaits", "");
    let beyond = seen.sleep("beyond the table of places");
    let listed: u64 =
        seen.rows("locks").iter().chain(seen.rows("sleeps")).map(|row| number(row, "/slept")).sum();
    assert_eq!(listed, seen.count("voluntary_switches"), "{beyond}");
    assert!(seen.trace["not_visible"].to_string().contains("--max-locks"), "{}", seen.trace["not_visible"]);
}

#[test]
fn a_command_that_ends_at_once_is_seen_whole_each_time() {
    let _alone = support::alone();
    for _ in 0..20 {
        let seen = look_at("--syscalls", &["true"]);
        assert_eq!(seen.rows("processes").len(), 1);
        assert_eq!(seen.calls("execve", false), 0, "the call that began it had been entered before");
        assert!(seen.count("syscalls") > 10);
    }
}

// ---------------------------------------------------------------- what the kernel allows

/// The command of a shell in a mount namespace of its own.
fn unshared(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).env("CONCPROBE", env!("CARGO_BIN_EXE_concprobe"));
    command
}

#[test]
fn without_tracefs_or_without_btf_the_other_way_serves() {
    let _alone = support::alone();
    for script in [
        "umount -a -t tracefs; umount -a -t debugfs; exec $CONCPROBE trace --json -- true",
        "mount -t tmpfs none /sys/kernel/btf; exec $CONCPROBE trace --json --no-stacks -- true",
    ] {
        let seen = seen(&mut unshared(script));
        assert_eq!(seen.status, Some(0), "{script}: {}", seen.printed);
        assert_eq!(seen.rows("processes").len(), 1, "{script}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_not_run_and_one_line_says_why() {
    let ran = std::env::temp_dir().join(format!("concprobe-ran-{}", std::process::id()));
    let ran = ran.to_str().unwrap();
    let concprobe = env!("CARGO_BIN_EXE_concprobe");
    for (wrapper, message) in [
        (vec!["setpriv", "--reuid", "65534", "--clear-groups"], "CAP_BPF"),
        (
            vec![
                "unshare",
                "-m",
                "sh",
                "-c",
                "umount -a -t tracefs; mount -t tmpfs none /sys/kernel/btf; exec \"$@\"",
                "sh",
            ],
            "tracefs",
        ),
    ] {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).args([concprobe, "trace", "--", "touch", ran]);
        let output = output(&mut command);
        assert_eq!(output.status.code(), Some(2), "{wrapper:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{wrapper:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{wrapper:?}");
        assert!(!std::path::Path::new(ran).exists(), "{wrapper:?}");
    }
}

#[test]
fn a_look_ends_with_its_process() {
    let _alone = support::alone();
    let sleeper = Process::start(Command::new("sleep").arg("3"));
    let start = Instant::now();
    let seen = sleeper.attach("");
    assert!(start.elapsed() < Duration::from_secs(20), "it ends by itself");
    assert_eq!(seen.status, Some(0));
    assert!(seen.rows("threads").iter().all(|row| row["running"] == false), "{}", seen.trace["threads"]);
}
