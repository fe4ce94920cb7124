//! What `trace` and `attach` promise around the program that is looked at: it runs as if concprobe were not
//! there, its end and signals are concprobe's, the result is kept, and the two never mix. As root.

mod support;

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{MetadataExt as _, chown},
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{Folder, concprobe, not_under_sudo, number, output, parse, stderr, wait_until};

// ---------------------------------------------------------------- support

/// `trace` of a shell script, as nobody's caller.
fn trace(options: &str, script: &str) -> Command {
    let mut command = concprobe(&format!("trace {options} -- sh -c"));
    command.arg(script);
    not_under_sudo(&mut command);
    command
}

fn attach(pid: u32, options: &str) -> Command {
    concprobe(&format!("attach --pid {pid} {options}"))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8")
}

/// A process that a test started, ended with it.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }

    /// With both streams to be read at the end.
    fn piped(command: &mut Command) -> Self {
        Self::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn signal(&self, number: i32) {
        signal(self.pid(), number);
    }

    /// Its end and all that it wrote, which must come within that time.
    fn end(mut self, limit: Duration) -> Output {
        let (stdout, stderr) = (reader(self.0.stdout.take()), reader(self.0.stderr.take()));
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "{} still runs after {limit:?}", self.pid());
            thread::sleep(Duration::from_millis(2));
        };
        Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
    }
}

fn reader(stream: Option<impl Into<OwnedFd>>) -> thread::JoinHandle<Vec<u8>> {
    let stream: Option<OwnedFd> = stream.map(Into::into);
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(stream) = stream {
            File::from(stream).read_to_end(&mut text).unwrap();
        }
        text
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(pid: u32, number: i32) {
    let pid = i32::try_from(pid).unwrap();
    // SAFETY: a plain system call on a process of this test.
    assert_eq!(unsafe { libc::kill(pid, number) }, 0, "signal {number} to {pid}");
}

/// Name, state and parent of a process.
fn stat(pid: u32) -> Option<(String, char, u32)> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let (name, rest) = text.split_once('(')?.1.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((name.to_owned(), fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, state, _)| state != 'Z')
}

/// Below a process, one of that name.
fn descendant(ancestor: u32, name: &str) -> Option<u32> {
    let pids = fs::read_dir("/proc").unwrap();
    pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(|pid| {
        let mut at = *pid;
        stat(at).is_some_and(|(found, ..)| found == name) && {
            while at > 1 && at != ancestor {
                at = stat(at).map_or(0, |(_, _, parent)| parent);
            }
            at == ancestor
        }
    })
}

fn await_descendant(ancestor: u32, name: &str) -> u32 {
    wait_until(&format!("{name} below {ancestor}"), || descendant(ancestor, name).is_some());
    descendant(ancestor, name).unwrap()
}

/// A long time on a busy machine.
const LONG: Duration = Duration::from_secs(30);

// ---------------------------------------------------------------- from the first instruction on

#[test]
fn a_command_that_ends_at_once_is_seen_whole_every_time() {
    let _alone = support::alone();
    let mut seen: Option<Vec<(u64, u64)>> = None;
    for round in 0..100 {
        // cargo's own folders would be searched for libraries.
        let run = output(concprobe("trace --syscalls --json -- /bin/true").env_remove("LD_LIBRARY_PATH"));
        assert_eq!(run.status.code(), Some(0), "{round}: {}", stderr(&run));
        let run = parse(&run);
        assert_eq!(run["processes"].as_array().unwrap().len(), 1, "{round}: {}", run["processes"]);
        assert_eq!(run["processes"][0]["name"], "true", "{round}");
        assert_eq!(run["threads"].as_array().unwrap().len(), 1, "{round}: {}", run["threads"]);
        assert_eq!(run["exit"], serde_json::json!({"status": 0, "signal": null}), "{round}");
        assert_eq!(number(&run, "/lost"), 0, "{round}: {}", run["losses"]);
        assert_eq!(run["self_check"]["passed"], true, "{round}: {}", run["self_check"]);
        assert!(number(&run, "/parts/on_cpu_ns") > 0, "{round}");
        let calls = run["calls"].as_array().unwrap();
        let calls: Vec<_> =
            calls.iter().map(|call| (number(call, "/number"), number(call, "/calls"))).collect();
        let returned: u64 = calls.iter().map(|(_, calls)| calls).sum();
        // Its end is a call that does not return.
        assert_eq!(number(&run, "/counts/syscalls"), returned + 1, "{round}");
        assert_eq!(*seen.get_or_insert_with(|| calls.clone()), calls, "{round}: not as before");
    }
    // The dynamic linker opens its cache and the C library.
    let opened = seen.unwrap().iter().find(|(number, _)| *number == libc::SYS_openat as u64).copied();
    assert_eq!(opened.map(|(_, calls)| calls), Some(2));
}

#[test]
fn what_the_result_lacks_is_null_and_what_it_has_is_not_excused() {
    let _alone = support::alone();
    let looks = [
        output(&mut trace("--json", "true")),
        output(&mut trace("--json --syscalls --no-stacks", "true")),
        output(&mut trace("--json --count-calls=50ms", "sleep 0.1")),
        // The look is over before the command.
        output(&mut trace("--json --duration 100ms", "sleep 0.5")),
    ];
    for look in looks {
        assert_eq!(look.status.code(), Some(0), "{}", stderr(&look));
        let look = parse(&look);
        for (key, reason) in look["unavailable"].as_object().unwrap() {
            assert!(reason.as_str().is_some_and(|reason| !reason.is_empty()), "{key}");
            if key.contains("[]") {
                continue; // of rows, which there may be none of
            }
            let value = look.pointer(&format!("/{}", key.replace('.', "/")));
            assert!(value.is_some_and(Value::is_null), "{key} is {value:?}, but excused: {reason}");
        }
    }
}

#[test]
fn percentiles_of_nothing_are_null_and_of_one_sleep_are_that_sleep() {
    let _alone = support::alone();
    let run = parse(&output(&mut concprobe("trace --json -- sleep 0.3")));
    assert_eq!(run["locks"].as_array().unwrap().len(), 0);
    let sleeps = run["sleeps"].as_array().unwrap();
    let sleep = sleeps.iter().find(|sleep| sleep["call"] == "clock_nanosleep").expect("it slept");
    assert_eq!(number(sleep, "/slept"), 1);
    let longest = number(sleep, "/blocked/max_ns");
    assert!((300_000_000..400_000_000).contains(&longest), "{longest}");
    for key in ["min_ns", "p50_ns", "p99_ns", "sum_ns"] {
        assert_eq!(number(sleep, &format!("/blocked/{key}")), longest, "{key}");
    }
    for part in ["latency", "life"] {
        let part = &run["creation"][part];
        for key in ["min_ns", "p50_ns", "p99_ns", "max_ns"] {
            assert_eq!(part[key].is_null(), number(part, "/count") == 0, "{part}");
        }
    }
}

// ---------------------------------------------------------------- who it runs as

const WHO: &str = "id -u; id -g; id -G; echo $HOME; env | grep -c ^SUDO_";

#[test]
fn under_sudo_the_command_runs_as_the_caller_or_as_the_user_asked_for() {
    let folder = Folder::new("who");
    let whole = |lines: &str| lines.lines().take(5).map(str::to_owned).collect::<Vec<_>>();
    let nobody = ["65534", "65534", "65534", "/nonexistent", "0"];
    let file = folder.file("result.json");
    let sudo = |options: &str| {
        let mut command = trace(&format!("{options} -o {file}"), WHO);
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody");
        output(&mut command)
    };
    let run = sudo("");
    assert_eq!(whole(&stdout(&run)), nobody, "{}", stderr(&run));
    let run = output(&mut trace("--user nobody", WHO));
    assert_eq!(whole(&stdout(&run)), nobody, "{}", stderr(&run));
    let run = sudo("--user root");
    assert_eq!(whole(&stdout(&run))[..2], ["0", "0"], "root when asked for: {}", stderr(&run));
    let run = output(&mut trace("", WHO));
    assert_eq!(whole(&stdout(&run))[..2], ["0", "0"], "a root shell is root: {}", stderr(&run));
}

#[test]
fn who_cannot_be_found_runs_nothing() {
    let folder = Folder::new("no-user");
    let run = output(&mut trace("--user no-such-user", &format!("touch {}", folder.file("ran"))));
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("there is no user \"no-such-user\""), "{}", stderr(&run));
    let mut command = trace("", &format!("touch {}", folder.file("ran")));
    let run = output(command.env("SUDO_UID", "nonsense").env("SUDO_GID", "65534"));
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("SUDO_UID"), "{}", stderr(&run));
    assert!(!Path::new(&folder.file("ran")).exists(), "never silently as root");
}

/// Runs with a result file under an imitated sudo, and gives the file's owner.
fn owner_under_sudo(folder: &Folder, arguments: &str) -> (u32, u32) {
    let file = folder.file("result.json");
    let mut command = concprobe(&arguments.replace("FILE", &file));
    let run = output(command.env("SUDO_UID", "65534").env("SUDO_GID", "65533"));
    assert_eq!(run.status.code(), Some(0), "{arguments}: {}", stderr(&run));
    let metadata = fs::metadata(&file).unwrap();
    (metadata.uid(), metadata.gid())
}

#[test]
fn under_sudo_the_result_belongs_to_the_caller() {
    let sleep = Running::start(Command::new("sleep").arg("60"));
    for arguments in [
        "trace -o FILE -- true",
        "trace --user root -o FILE -- true",
        &format!("attach --pid {} --duration 50ms -o FILE", sleep.pid()),
        "run sem-fast --no-bpf --ops 10000 --warmup 1ms -o FILE",
    ] {
        assert_eq!(owner_under_sudo(&Folder::new("owner"), arguments), (65534, 65533), "{arguments}");
    }
    let mut command = concprobe("trace -o /dev/null -- true");
    let run = output(command.env("SUDO_UID", "65534").env("SUDO_GID", "65533"));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(fs::metadata("/dev/null").unwrap().uid(), 0, "what is no file is not given away");
}

#[test]
fn a_result_that_replaces_an_older_one_keeps_its_owner() {
    for owner in [(65534, 65533), (1, 2)] {
        let folder = Folder::new("older");
        fs::write(folder.file("result.json"), "older").unwrap();
        chown(folder.file("result.json"), Some(owner.0), Some(owner.1)).unwrap();
        assert_eq!(owner_under_sudo(&folder, "trace -o FILE -- true"), owner);
    }
}

#[test]
fn where_it_cannot_look_the_command_is_not_run() {
    let folder = Folder::new("unprivileged");
    let program = folder.file("concprobe");
    fs::copy(env!("CARGO_BIN_EXE_concprobe"), &program).unwrap();
    let ran = folder.file("ran");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "--", &program, "trace", "--", "touch", &ran]);
    let run = output(&mut command);
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    assert!(stderr(&run).contains("CAP_BPF"), "{}", stderr(&run));
    assert!(!Path::new(&ran).exists());
}

// ---------------------------------------------------------------- signals

/// (signal, the status of a command that it ends)
const ENDING: [(i32, i32); 3] = [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)];

#[test]
fn a_signal_ends_the_command_and_keeps_the_result() {
    for (number_of_signal, status) in ENDING {
        let folder = Folder::new(&format!("signal-{number_of_signal}"));
        let file = folder.file("result.json");
        let mut command = concprobe(&format!("trace -o {file} -- sleep 30"));
        not_under_sudo(&mut command);
        let run = Running::piped(&mut command);
        let sleep = await_descendant(run.pid(), "sleep");
        run.signal(number_of_signal);
        let run = run.end(LONG);
        assert_eq!(run.status.code(), Some(status), "{}", stderr(&run));
        assert_eq!(stderr(&run), "");
        assert!(stdout(&run).contains("Verdict"), "{}", stdout(&run));
        assert!(stdout(&run).contains(&format!("signal {number_of_signal}")), "{}", stdout(&run));
        let saved = folder.json("result.json");
        assert_eq!(saved["interrupted_by"], number_of_signal);
        assert_eq!(saved["exit"], serde_json::json!({"status": null, "signal": number_of_signal}));
        assert_eq!(saved["self_check"]["passed"], true, "{}", saved["self_check"]);
        assert_eq!(number(&saved, "/lost"), 0, "{}", saved["losses"]);
        assert_eq!(saved["processes"][0]["running"], false);
        assert!(!alive(sleep), "nothing is left of it");
    }
}

#[test]
fn a_signal_to_the_whole_group_reaches_the_command_once() {
    let folder = Folder::new("group");
    let file = folder.file("result.json");
    let script = "trap 'echo got' INT; echo ready; n=0; while [ $n -lt 10 ]; do sleep 0.05; n=$((n+1)); done";
    let mut run = trace(&format!("-o {file}"), script);
    run.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Running::start(&mut run);
    let mut lines = BufReader::new(run.0.stdout.take().unwrap());
    let mut text = String::new();
    lines.read_line(&mut text).unwrap();
    assert_eq!(text, "ready\n");
    // SAFETY: a plain system call on a group that this test made.
    assert_eq!(unsafe { libc::killpg(i32::try_from(run.pid()).unwrap(), libc::SIGINT) }, 0);
    lines.read_to_string(&mut text).unwrap();
    let end = run.end(LONG);
    assert_eq!(end.status.code(), Some(0), "the command's own status: {}", stderr(&end));
    assert_eq!(text.lines().filter(|line| *line == "got").count(), 1, "{text}");
    assert_eq!(folder.json("result.json")["interrupted_by"], libc::SIGINT);
}

#[test]
fn a_signal_to_the_group_before_the_command_has_begun_ends_it_all_the_same() {
    for milliseconds in (10..=260).step_by(10) {
        let seconds = format!("0.{milliseconds:03}");
        let mut command = Command::new("timeout");
        command.args(["--preserve-status", "-s", "INT", &seconds, env!("CARGO_BIN_EXE_concprobe")]);
        not_under_sudo(command.args(["trace", "--", "sleep", "20"]));
        let began = Instant::now();
        let run = output(&mut command);
        assert!(began.elapsed() < Duration::from_secs(15), "{seconds} s: it was not told");
        assert_eq!(run.status.code(), Some(130), "{seconds} s: {}", stderr(&run));
    }
}

#[test]
fn timeout_ends_it_and_the_result_is_there() {
    for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let folder = Folder::new(&format!("timeout-{name}"));
        let file = folder.file("result.json");
        let mut command = Command::new("timeout");
        command.args(["--preserve-status", "-s", name, "2", env!("CARGO_BIN_EXE_concprobe"), "trace"]);
        command.args(["-o", &file, "--", "sleep", "30"]);
        not_under_sudo(&mut command);
        let run = output(&mut command);
        assert_eq!(run.status.code(), Some(status), "{name}: {}", stderr(&run));
        assert!(stdout(&run).contains("Verdict"), "{name}: {}", stdout(&run));
        assert_eq!(folder.json("result.json")["exit"]["signal"], status - 128, "{name}");
    }
}

#[test]
fn a_second_ctrl_c_kills_a_command_that_does_not_heed_the_first() {
    let folder = Folder::new("second");
    let file = folder.file("result.json");
    let script = "trap '' INT; echo ready; while :; do sleep 0.05; done";
    let mut run = Running::piped(&mut trace(&format!("-o {file}"), script));
    let mut lines = BufReader::new(run.0.stdout.take().unwrap());
    let mut text = String::new();
    lines.read_line(&mut text).unwrap();
    let shell = await_descendant(run.pid(), "sh");
    run.signal(libc::SIGINT);
    thread::sleep(Duration::from_millis(300));
    assert!(alive(shell), "the first one is only passed on");
    run.signal(libc::SIGINT);
    let asked = Instant::now();
    wait_until("the command's end", || !alive(shell));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    let rest = thread::spawn(move || {
        let mut rest = String::new();
        lines.read_to_string(&mut rest).map(|_| rest)
    });
    let end = run.end(Duration::from_secs(10));
    assert_eq!(end.status.code(), Some(137), "{}", stderr(&end));
    assert!(rest.join().unwrap().unwrap().contains("Verdict"));
    let saved = folder.json("result.json");
    assert_eq!(saved["interrupted_by"], libc::SIGINT);
    assert_eq!(saved["exit"]["signal"], libc::SIGKILL);
}

#[test]
fn a_second_ctrl_c_leaves_nothing_of_the_command_behind() {
    let run = Running::piped(&mut trace("", "trap '' INT; sleep 40; true"));
    let sleep = await_descendant(run.pid(), "sleep");
    run.signal(libc::SIGINT);
    thread::sleep(Duration::from_millis(300));
    assert!(alive(sleep), "the first one is only passed on");
    run.signal(libc::SIGINT);
    let asked = Instant::now();
    wait_until("the end of what the command started", || !alive(sleep));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert_eq!(run.end(Duration::from_secs(10)).status.code(), Some(137));
}

#[test]
fn a_signal_that_the_command_handles_is_its_own_affair() {
    let folder = Folder::new("handled");
    let file = folder.file("result.json");
    let script = "trap 'kill $!; echo got; exit 3' TERM; sleep 30 & echo ready; wait";
    let run = Running::piped(&mut trace(&format!("-o {file}"), script));
    await_descendant(run.pid(), "sleep");
    run.signal(libc::SIGTERM);
    let run = run.end(LONG);
    assert_eq!(run.status.code(), Some(3), "{}", stderr(&run));
    assert!(stdout(&run).starts_with("ready\ngot\n"), "{}", stdout(&run));
    assert!(stdout(&run).contains("Verdict"));
    assert_eq!(folder.json("result.json")["exit"]["status"], 3);
}

#[test]
fn signals_that_are_messages_are_passed_on_and_end_nothing() {
    let script = "trap 'echo one' USR1; trap 'echo two' USR2; echo ready
        n=0; while [ $n -lt 20 ]; do sleep 0.05; n=$((n+1)); done";
    let mut run = Running::piped(&mut trace("", script));
    let mut lines = BufReader::new(run.0.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(next(), "ready\n");
    for (number_of_signal, answer) in
        [(libc::SIGUSR1, "one\n"), (libc::SIGUSR2, "two\n"), (libc::SIGUSR1, "one\n")]
    {
        run.signal(number_of_signal);
        assert_eq!(next(), answer);
    }
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(run.end(LONG).status.code(), Some(0));
    assert!(rest.contains("Verdict") && !rest.contains("ended by signal"), "{rest}");
}

#[test]
fn resizing_stopping_and_continuing_do_not_end_a_look() {
    let folder = Folder::new("stop");
    let file = folder.file("result.json");
    let mut command = concprobe(&format!("trace -o {file} -- sleep 1"));
    not_under_sudo(&mut command);
    let run = Running::piped(&mut command);
    await_descendant(run.pid(), "sleep");
    for (number_of_signal, state) in
        [(libc::SIGWINCH, None), (libc::SIGSTOP, Some('T')), (libc::SIGCONT, Some('S'))]
    {
        run.signal(number_of_signal);
        if let Some(expected) = state {
            wait_until("the state after a signal", || {
                stat(run.pid()).is_some_and(|(_, state, _)| {
                    state == expected || (expected == 'S' && matches!(state, 'R' | 'D'))
                })
            });
        }
    }
    let run = run.end(LONG);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(stderr(&run), "");
    let saved = folder.json("result.json");
    assert!(saved["interrupted_by"].is_null());
    assert_eq!(saved["self_check"]["passed"], true, "{}", saved["self_check"]);
    assert_eq!(number(&saved, "/lost"), 0, "{}", saved["losses"]);
    let blocked = number(&saved, "/parts/blocked_ns");
    assert!((1_000_000_000..1_100_000_000).contains(&blocked), "{blocked}");
}

#[test]
fn a_concprobe_that_is_killed_leaves_the_command_at_work() {
    let folder = Folder::new("killed");
    let done = folder.file("done");
    let mut command = trace("", &format!("echo ready; sleep 0.3; touch {done}"));
    let mut run = Running::piped(&mut command);
    let mut line = String::new();
    BufReader::new(run.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let shell = await_descendant(run.pid(), "sh");
    run.signal(libc::SIGKILL);
    assert_eq!(run.end(LONG).status.signal(), Some(libc::SIGKILL));
    wait_until("the command goes on", || Path::new(&done).exists());
    wait_until("the command's end", || !alive(shell));
}

// ---------------------------------------------------------------- exit status

#[test]
fn the_status_of_the_command_is_concprobe_s() {
    for (script, status, exit) in [
        ("exit 0", 0, serde_json::json!({"status": 0, "signal": null})),
        ("exit 42", 42, serde_json::json!({"status": 42, "signal": null})),
        ("exit 255", 255, serde_json::json!({"status": 255, "signal": null})),
        ("kill -9 $$", 137, serde_json::json!({"status": null, "signal": 9})),
        ("kill -SEGV $$", 139, serde_json::json!({"status": null, "signal": 11})),
    ] {
        let run = output(&mut trace("--json", script));
        assert_eq!(run.status.code(), Some(status), "{script}: {}", stderr(&run));
        assert_eq!(parse(&run)["exit"], exit, "{script}");
    }
}

#[test]
fn a_command_that_does_not_start_has_a_shell_s_status_and_a_reason() {
    let folder = Folder::new("not-started");
    let (result, text) = (folder.file("result.json"), folder.file("text"));
    fs::write(&text, "x").unwrap();
    for (command, status, reason) in [
        ("no-such-command-at-all", 127, "no such command"),
        ("/no/such/file", 127, "no such file"),
        (text.as_str(), 126, "Permission denied"),
    ] {
        let mut trace = concprobe(&format!("trace -o {result} --"));
        let run = output(trace.arg(command));
        assert_eq!(run.status.code(), Some(status), "{command}: {}", stderr(&run));
        assert!(stderr(&run).contains(reason), "{command}: {}", stderr(&run));
        assert!(!stderr(&run).contains("panicked"));
        assert!(run.stdout.is_empty());
        assert!(!Path::new(&result).exists(), "no empty result is left");
    }
}

#[test]
fn the_status_of_the_command_stands_where_the_result_finds_no_reader() {
    for (options, expected) in [("", 42), ("--json", 42)] {
        let mut run = Running::piped(&mut trace(options, "exec 1>&-; sleep 0.1; exit 42"));
        drop(run.0.stdout.take());
        let run = run.end(LONG);
        assert_eq!(run.status.code(), Some(expected), "{options}: broken pipe: {}", stderr(&run));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = output(trace(options, "exit 42").stdout(full));
        assert!(stderr(&run).contains("cannot write to stdout: No space left"), "{}", stderr(&run));
        assert_eq!(run.status.code(), Some(expected), "{options}: full disk: {}", stderr(&run));
    }
}

#[test]
fn a_look_that_is_over_first_waits_for_the_command_and_has_its_status() {
    let _alone = support::alone();
    let began = Instant::now();
    let run = output(&mut trace("--json --duration 200ms", "sleep 1; exit 5"));
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(run.status.code(), Some(5), "{}", stderr(&run));
    let run = parse(&run);
    let wall = number(&run, "/wall_ns");
    assert!((200_000_000..400_000_000).contains(&wall), "{wall}");
    assert_eq!(run["exit"]["status"], 5);
    let open = run["threads"].as_array().unwrap().iter().all(|thread| thread["open"]["part"] == "blocked");
    assert!(open, "clipped where the look ended: {}", run["threads"]);
}

// ---------------------------------------------------------------- what it inherits

/// What a process can see of how it was started.
const SEEN: &str = r#"
    exec > "$SEEN"
    grep -E '^(Sig(Blk|Ign|Cgt|Pnd)|ShdPnd|Uid|Gid|Groups|Umask|Cap|NoNewPrivs|Seccomp:|Cpus_allowed:)' /proc/self/status
    cat /proc/self/limits /proc/self/oom_score_adj /proc/self/cgroup
    cut -d ')' -f 2 /proc/$$/stat | cut -d ' ' -f 5,7,18,19
    tr '\0' ' ' < /proc/$$/cmdline; echo
    pwd
    tr '\0' '\n' < /proc/$$/environ
    for descriptor in /proc/$$/fd/*; do echo "${descriptor##*/}"; readlink $descriptor; done
    true
"#;

#[test]
fn the_command_sees_no_difference_to_a_bare_run() {
    let folder = Folder::new("seen");
    let seen = folder.file("seen");
    let wrappers: &[&[&str]] = &[
        &["env"],
        &["env", "--ignore-signal=PIPE", "--block-signal=USR1,ALRM", "ODD="],
        &["nohup"],
        &[
            "sh",
            "-c",
            "ulimit -S -n 200; ulimit -l 64; ulimit -S -c 0; umask 027; cd /; exec \"$@\" 7</dev/null 9</proc/version <&-",
            "sh",
        ],
    ];
    for wrapper in wrappers {
        let see = |inner: &[&str]| {
            let _ = fs::remove_file(&seen);
            let mut command = Command::new(wrapper[0]);
            command.args(&wrapper[1..]).args(inner).args(["sh", "-c", SEEN]).env("SEEN", &seen);
            not_under_sudo(&mut command);
            let run = output(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
            assert_eq!(run.status.code(), Some(0), "{wrapper:?} {inner:?}");
            fs::read_to_string(&seen).unwrap()
        };
        let bare = see(&[]);
        assert!(bare.contains("SigIgn:") && bare.contains("Max locked memory"), "{bare}");
        for options in
            [&["trace", "--"][..], &["trace", "--syscalls", "--no-stacks", "-o", "/dev/null", "--"]]
        {
            let through = see(&[&[env!("CARGO_BIN_EXE_concprobe")], options].concat());
            let only = |one: &str, other: &str| -> Vec<String> {
                one.lines()
                    .filter(|line| !other.lines().any(|known| known == *line))
                    .map(ToOwned::to_owned)
                    .collect()
            };
            let (more, less) = (only(&through, &bare), only(&bare, &through));
            assert!(through == bare, "{wrapper:?} {options:?}: {more:?} instead of {less:?}");
        }
    }
}

#[test]
fn the_command_reads_what_concprobe_was_given_to_read() {
    let mut run = Running::start(
        trace("", "cat; cat >&2 /dev/null; echo to-stderr >&2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    run.0.stdin.take().unwrap().write_all(b"line one\nline two").unwrap();
    let run = run.end(LONG);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(stdout(&run).starts_with("line one\nline two"), "{}", stdout(&run));
    assert_eq!(stderr(&run), "to-stderr\n");
}

// ---------------------------------------------------------------- processes that run already

#[test]
fn attach_ends_with_the_process_and_has_a_report() {
    let _alone = support::alone();
    // The result is due half a second after; a busy machine may need more, but not every time.
    let mut delays = Vec::new();
    while delays.len() < 5 {
        let folder = Folder::new("ends");
        let file = folder.file("result.json");
        let mut target =
            Running::start(Command::new("sh").args(["-c", "read line; exit 0"]).stdin(Stdio::piped()));
        let run = Running::piped(&mut attach(target.pid(), &format!("-o {file}")));
        // It runs at ease when the stacks' ring is mapped and the process is listed.
        wait_until("concprobe at rest", || is_at_rest(run.pid()));
        drop(target.0.stdin.take());
        target.0.wait().unwrap();
        let ended = Instant::now();
        let run = run.end(LONG);
        let delay = ended.elapsed();
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        assert!(stdout(&run).contains("Verdict"));
        let saved = folder.json("result.json");
        assert!(saved["command"].is_null() && saved["exit"].is_null());
        assert_eq!(number(&saved, "/pid"), u64::from(target.pid()));
        assert_eq!(saved["processes"][0]["running"], false);
        assert_eq!(saved["threads"][0]["existed_before"], true);
        assert_eq!(saved["self_check"]["passed"], true, "{}", saved["self_check"]);
        assert_eq!(number(&saved, "/lost"), 0, "{}", saved["losses"]);
        if delay <= Duration::from_millis(500) {
            return;
        }
        delays.push(delay);
    }
    panic!("never within half a second of the end: {delays:?}");
}

/// Whether concprobe has loaded everything and waits: its main thread sleeps in `epoll_wait` or, while another
/// thread does that, at a futex.
fn is_at_rest(pid: u32) -> bool {
    let has_programs = || {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors
            .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
            .any(|to| to.to_string_lossy().contains("bpf-prog"))
    };
    let waits = || {
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let call = call.split(' ').next().and_then(|call| call.parse().ok());
        call.is_some_and(|call| {
            [libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_futex].contains(&call)
        })
    };
    has_programs()
        && (0..5).all(|_| {
            thread::sleep(Duration::from_millis(10));
            waits()
        })
}

#[test]
fn a_signal_ends_attach_and_leaves_the_process_alone() {
    for (number_of_signal, status) in [(libc::SIGINT, 0), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let folder = Folder::new(&format!("attach-{number_of_signal}"));
        let file = folder.file("result.json");
        let target = Running::start(Command::new("sleep").arg("60"));
        let run = Running::piped(&mut attach(target.pid(), &format!("-o {file}")));
        wait_until("concprobe at rest", || is_at_rest(run.pid()));
        run.signal(number_of_signal);
        let run = run.end(LONG);
        assert_eq!(run.status.code(), Some(status), "{}", stderr(&run));
        assert!(stdout(&run).contains("Verdict"));
        let saved = folder.json("result.json");
        assert_eq!(saved["interrupted_by"], number_of_signal);
        assert_eq!(saved["threads"][0]["open"]["part"], "blocked");
        assert_eq!(saved["threads"][0]["open"]["since_before"], true);
        assert!(alive(target.pid()));
    }
}

#[test]
fn a_process_that_never_did_anything_is_told_asleep_with_a_warning() {
    let _alone = support::alone();
    let target = Running::start(Command::new("sleep").arg("60"));
    wait_until("asleep", || {
        stat(target.pid()).is_some_and(|(name, state, _)| name == "sleep" && state == 'S')
    });
    let run = parse(&output(&mut attach(target.pid(), "--duration 500ms --json")));
    let parts = |name: &str| number(&run, &format!("/threads/0/parts/{name}"));
    assert_eq!((parts("on_cpu_ns"), parts("run_queue_ns")), (0, 0));
    assert!(parts("blocked_ns") >= 500_000_000, "{}", parts("blocked_ns"));
    assert_eq!(parts("blocked_ns"), parts("wall_ns"));
    let verdict = run["verdict"][0].as_str().unwrap();
    assert!(verdict.starts_with("Nothing to fix here"), "{verdict}");
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("not one of its threads was switched"), "{warnings}");
    let sleep = &run["sleeps"][0];
    assert_eq!((&sleep["call"], number(sleep, "/open")), (&Value::from("clock_nanosleep"), 1), "{sleep}");
}

#[test]
fn what_cannot_be_attached_to_is_said_with_status_2() {
    let thread_of_this = thread_id_beside_the_main_one();
    let zombie = Running::start(&mut Command::new("true"));
    wait_until("a zombie", || stat(zombie.pid()).is_some_and(|(_, state, _)| state == 'Z'));
    let (zombie_pid, thread_pid) = (zombie.pid().to_string(), thread_of_this.to_string());
    let gone = {
        let mut gone = Running::start(&mut Command::new("true"));
        gone.0.wait().unwrap();
        gone.pid().to_string()
    };
    for (pid, reason) in [
        ("0", "positive number"),
        ("-1", "positive number"),
        ("99999999", "there is no process 99999999"),
        ("2147483647", "there is no process"),
        ("4294967297", "invalid value"),
        ("one", "invalid value"),
        ("2", "thread of the kernel"),
        (zombie_pid.as_str(), "has ended already"),
        (thread_pid.as_str(), "is a thread of process"),
        (gone.as_str(), "there is no process"),
    ] {
        let folder = Folder::new("bad-pid");
        let file = folder.file("result.json");
        let run = output(concprobe("attach").args(["--duration", "1s", "-o", &file, "--pid", pid]));
        assert_eq!(run.status.code(), Some(2), "{pid}: {}", stderr(&run));
        assert!(stderr(&run).contains(reason), "{pid}: {}", stderr(&run));
        assert!(!stderr(&run).contains("panicked"), "{pid}");
        assert!(run.stdout.is_empty(), "{pid}");
        assert!(!Path::new(&file).exists(), "{pid}: no empty result is left");
    }
}

/// Tests run in threads beside the main one.
fn thread_id_beside_the_main_one() -> i32 {
    // SAFETY: a plain system call.
    let own = unsafe { libc::gettid() };
    assert_ne!(u32::try_from(own).unwrap(), std::process::id());
    own
}

// ---------------------------------------------------------------- output

#[test]
fn the_result_and_the_command_s_output_do_not_mix() {
    let folder = Folder::new("apart");
    let file = folder.file("result.json");
    let script = "echo hello; echo {; echo aside >&2";
    let run = output(&mut trace("--json", script));
    assert_eq!(parse(&run)["exit"]["status"], 0, "stdout is JSON and nothing else");
    assert_eq!(
        stderr(&run).lines().filter(|line| !line.contains("warning")).collect::<Vec<_>>(),
        ["hello", "{", "aside"]
    );
    let run = output(&mut trace(&format!("-o {file}"), script));
    assert!(
        stdout(&run).starts_with("hello\n{\nsh -c echo"),
        "its output, and then the screen: {}",
        stdout(&run)
    );
    assert_eq!(stderr(&run), "aside\n");
    assert_eq!(folder.json("result.json")["exit"]["status"], 0);
    let run = output(&mut trace(&format!("--json -o {file}"), script));
    assert_eq!(fs::read(&file).unwrap(), run.stdout, "a saved result is the printed one");
    // A line without its end does not run into the screen.
    let run = output(&mut trace("", "printf unfinished"));
    assert!(stdout(&run).starts_with("unfinished"), "{}", stdout(&run));
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let mut run = Running::piped(&mut trace("", "echo one; exec 1>&-; sleep 0.1"));
    let mut line = String::new();
    BufReader::new(run.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    let run = run.end(LONG);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(stderr(&run), "");
    for arguments in ["trace --json -- true", "trace --help", "attach --help"] {
        let mut command = Command::new("bash");
        let program = env!("CARGO_BIN_EXE_concprobe");
        command
            .args(["-c", &format!("{program} {arguments} | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}")]);
        let run = output(&mut command);
        assert!(["0\n", "141\n"].contains(&stdout(&run).as_str()), "{arguments}: {}", stdout(&run));
        assert!(!stderr(&run).contains("panicked"), "{arguments}: {}", stderr(&run));
    }
}

#[test]
fn a_command_that_a_broken_pipe_ends_is_reported_so() {
    let folder = Folder::new("pipe");
    let file = folder.file("result.json");
    let mut run = Running::piped(&mut trace(&format!("-o {file}"), "while :; do echo line; done"));
    let mut line = String::new();
    BufReader::new(run.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let run = run.end(LONG);
    // Concprobe ignores SIGPIPE, the command must not.
    assert_eq!(folder.json("result.json")["exit"]["signal"], libc::SIGPIPE);
    assert_eq!(run.status.code(), Some(141), "{}", stderr(&run));
}

#[test]
fn a_full_disk_is_said_and_never_a_panic() {
    let folder = Folder::new("full");
    let file = folder.file("result.json");
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = output(trace(&format!("-o {file}"), "true").stdout(full()));
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    assert!(stderr(&run).contains("cannot write to stdout: No space left"), "{}", stderr(&run));
    assert_eq!(folder.json("result.json")["exit"]["status"], 0, "the file is there all the same");
    let run = output(&mut trace("-o /dev/full", "true"));
    assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
    assert!(stderr(&run).contains("could not be saved to /dev/full: No space left"), "{}", stderr(&run));
    assert!(stdout(&run).contains("Verdict"));
    let run = output(trace("", "true").stderr(full()));
    assert_eq!(run.status.code(), Some(0));
    let run = output(&mut trace("-o /nonexistent/result.json", &format!("touch {file}-ran")));
    assert_eq!(run.status.code(), Some(2));
    assert!(!Path::new(&format!("{file}-ran")).exists(), "found out before anything is run");
}

#[test]
fn nothing_in_a_pipe_is_an_escape_code_or_progress() {
    for arguments in ["trace -- sleep 0.2", "trace --syscalls -v -- sleep 0.2", "trace --count-calls -- true"]
    {
        let run = output(concprobe(arguments).env("TERM", "xterm-256color").env("CLICOLOR_FORCE", "1"));
        assert_eq!(run.status.code(), Some(0), "{arguments}: {}", stderr(&run));
        assert!(!run.stdout.contains(&0x1b) && !run.stderr.contains(&0x1b), "{arguments}");
        assert!(!run.stdout.contains(&b'\r'), "{arguments}");
        assert_eq!(stderr(&run), "", "{arguments}");
    }
    // On a terminal without colours there are none.
    let mut command = Command::new("script");
    let inner = format!("{} trace -- sleep 0.2", env!("CARGO_BIN_EXE_concprobe"));
    let run = output(command.args(["-qec", &inner, "/dev/null"]).env("NO_COLOR", "1").stdin(Stdio::null()));
    let text = String::from_utf8_lossy(&run.stdout);
    let colours = text.split("\x1b[").skip(1).filter(|rest| {
        rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';').starts_with('m')
    });
    assert_eq!(colours.count(), 0, "{text:?}");
    assert!(text.contains("Verdict"), "{text}");
}

/// Compiled once for a test.
fn names(folder: &Folder) -> String {
    let program = folder.file("names");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/names.c");
    let made = output(Command::new("cc").args(["-O2", "-pthread", "-o", &program, source]));
    assert!(made.status.success(), "{}", stderr(&made));
    program
}

/// The names of its threads, escaped as `ascii::escape_default` does, but for quotes.
const NAMES: [&str; 9] = [
    "",
    "\\x1b[31mred",
    "\\xff\\xfe\\xc3(",
    "a,b;c",
    "exactly15chars_",
    "main\\x1b[32m\\n",
    "new\\nline",
    "say \"hi\"",
    "tab\\there",
];

fn sorted_names(result: &Value) -> Vec<String> {
    let threads = result["threads"].as_array().unwrap();
    let mut names: Vec<String> =
        threads.iter().map(|thread| thread["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// No line is longer or shorter for a name, and no terminal is told anything.
fn assert_harmless(text: &str) {
    let odd: Vec<char> = text.chars().filter(|letter| letter.is_control() && *letter != '\n').collect();
    assert!(odd.is_empty(), "{odd:?} in {text:?}");
    assert!(!text.contains('\u{fffd}'), "{text}");
}

#[test]
fn hostile_names_are_shown_escaped() {
    let _alone = support::alone();
    let folder = Folder::new("names");
    let (program, file) = (names(&folder), folder.file("result.json"));
    let run = output(&mut concprobe(&format!("trace -v -o {file} -- {program}")));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let saved = folder.json("result.json");
    assert_eq!(sorted_names(&saved), NAMES);
    assert_eq!(saved["processes"][0]["name"], "main\\x1b[32m\\n");
    let text = stdout(&run);
    assert_harmless(&text);
    for name in NAMES {
        assert!(text.contains(name), "no {name:?}: {text}");
    }
}

#[test]
fn hostile_names_of_a_process_that_ran_already_are_the_same() {
    let _alone = support::alone();
    let folder = Folder::new("names-before");
    let mut target = Running::start(Command::new(names(&folder)).arg("60000").stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let file = folder.file("result.json");
    let run = output(&mut attach(target.pid(), &format!("-v --duration 200ms -o {file}")));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(sorted_names(&folder.json("result.json")), NAMES);
    assert_harmless(&stdout(&run));
}

#[test]
fn hostile_arguments_are_shown_harmless() {
    let hostile = "\x1b[31m\r\u{7}";
    let run = output(concprobe("trace -- true").arg(hostile));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_harmless(&stdout(&run));
    // A file of such a name is in the frames and in the name of a lock.
    let folder = Folder::new("hostile-file");
    let program = folder.file(&format!("names{hostile}"));
    fs::rename(names(&folder), &program).unwrap();
    let mut command = concprobe("trace -v --");
    let run = output(command.arg(&program));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_harmless(&stdout(&run));
}

#[test]
fn a_hostile_command_that_is_not_there_is_named_harmless() {
    let folder = Folder::new("hostile-missing");
    let hostile = "\x1b[31m\r\u{7}";
    for command in [format!("no-such{hostile}"), folder.file(hostile)] {
        let run = output(concprobe("trace --").arg(&command));
        assert_eq!(run.status.code(), Some(127));
        assert_harmless(&stderr(&run));
    }
}
