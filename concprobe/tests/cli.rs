//! The command line as a user meets it: bad input, missing privileges, pipes, signals, full disks.

mod support;

use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use support::{Folder, concprobe, number, output, parse, result, stderr, wait_until};

/// A short run that needs no privileges.
const QUICK: &str = "run sem-fast --no-bpf --ops 10000 --warmup 1ms";

#[test]
fn what_cannot_be_run_is_said_in_one_message_with_status_2() {
    for (arguments, message) in [
        ("run sem-fats", "there is no workload 'sem-fats': did you mean sem-fast?"),
        ("run xyzzy", "there is no workload 'xyzzy' (`concprobe list` shows all"),
        ("run sem-fast --ops 0", "invalid value '0' for '--ops <N>'"),
        ("run sem-fast --ops -5", "invalid digit"),
        ("run sem-fast --duration 0s", "must be longer than nothing"),
        ("run sem-fast --duration -1s", "a duration is not negative"),
        ("run sem-fast --duration 100h", "must not be longer than a day"),
        ("run sem-fast --duration 5", "write 500us, 20ms, 2s, 1m"),
        ("run sem-fast --ops 5 --duration 1s", "cannot be used with"),
        ("run sem-fast --threads 0", "invalid value '0' for '--threads <N>'"),
        ("run sem-fast --threads 4000000000 --no-bpf", "cannot run 4000000000 threads here"),
        ("run sem-fast --pin 8190", "cannot pin to CPU 8190: this process may use"),
        ("run sem-fast --pin 0-4294967295", "CPU list"),
        ("run sem-fast --pin one", "CPU list"),
        ("run sem-fast --between threads", "unexpected argument '--between'"),
        ("run sem-pingpong --between dogs", "possible values: processes, threads"),
        ("run sem-pingpong --threads 3", "played by exactly 2"),
        ("run sem-fast --no-bpf --depth switches", "cannot be used with"),
        ("run sem-fast --depth switches --syscalls", "--depth switches does not look at"),
        (
            "run sem-fast -o /nonexistent/result.json",
            "cannot write the result to /nonexistent/result.json: No such file",
        ),
        ("run sem-fast --no-bpf -o /", "cannot write the result to /: Is a directory"),
        ("run", "requires a subcommand"),
        ("walk", "unrecognized subcommand 'walk'"),
    ] {
        let output = output(&mut concprobe(arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(message), "{arguments}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn help_and_list_name_every_workload() {
    for arguments in ["list", "run --help"] {
        let output = output(&mut concprobe(arguments));
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        for workload in concprobe::workload::TABLE {
            assert!(text.contains(workload.name), "{arguments}: {text}");
        }
    }
    let help = output(&mut concprobe("--help"));
    assert!(String::from_utf8(help.stdout).unwrap().contains("Examples:"));
}

#[test]
fn nothing_in_a_pipe_is_an_escape_code_or_progress() {
    let _alone = support::alone();
    let quick = output(&mut concprobe("run sem-pingpong --ops 2000"));
    assert_eq!(quick.status.code(), Some(0), "{}", stderr(&quick));
    assert!(!quick.stdout.contains(&0x1b) && !quick.stderr.contains(&0x1b));
    assert_eq!(stderr(&quick), "");
    let text = String::from_utf8(quick.stdout).unwrap();
    let position = |heading: &str| text.find(heading).unwrap_or_else(|| panic!("no {heading}: {text}"));
    assert!(position("Verdict") < position("Ops by class"), "the verdict comes first");
    assert!(position("Ops by class") < position("Where the time went"));
    assert!(position("Evidence from the kernel") < position("Latency of an op"));
    position("self-check passed");
}

#[test]
fn the_json_alone_is_on_stdout_and_has_the_keys_of_the_contract() {
    let _alone = support::alone();
    let run = result("run sem-pingpong --ops 2000 --pin 0");
    for key in [
        "schema",
        "workload",
        "parameters",
        "environment",
        "ops",
        "threads",
        "locks",
        "lost",
        "losses",
        "verdict",
        "warnings",
        "unavailable",
        "probe_cost_ns_per_event",
    ] {
        assert!(run.get(key).is_some(), "no {key}");
    }
    for class in ["fast", "kernel", "preempted", "slept", "created"] {
        for key in ["count", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "histogram"] {
            assert!(run["classes"][class].get(key).is_some(), "no classes.{class}.{key}");
        }
    }
    for key in [
        "wall_ns",
        "on_cpu_ns",
        "user_ns",
        "kernel_ns",
        "blocked_ns",
        "run_queue_ns",
        "creation_ns",
        "unaccounted_ns",
    ] {
        assert!(run["parts"][key].is_i64() || run["parts"][key].is_u64(), "parts.{key} is no integer");
    }
    for key in [
        "syscalls",
        "futex_waits",
        "futex_wakes",
        "futex_wait_slept",
        "futex_wait_again",
        "voluntary_switches",
        "involuntary_switches",
        "threads_created",
        "processes_created",
        "migrations",
    ] {
        number(&run, &format!("/counts/{key}"));
    }
    assert_eq!(run["schema"], "concprobe/1");
    assert_eq!(run["self_check"]["passed"], true);
    assert!(run["self_check"]["detail"].is_string());
    assert!(run["classes"]["fast"]["min_ns"].is_null(), "percentiles of nothing are null");
}

#[test]
fn a_saved_result_is_the_printed_one_and_replaces_an_older_one_whole() {
    let folder = Folder::new("cli-saved");
    let file = folder.file("result.json");
    fs::write(&file, "x".repeat(1 << 20)).unwrap();
    let run = output(concprobe(QUICK).args(["--json", "-o", &file]));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(fs::read(&file).unwrap(), run.stdout);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn a_full_disk_costs_the_file_but_not_the_result() {
    let run = output(concprobe(QUICK).args(["-o", "/dev/full"]));
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("could not be saved to /dev/full: No space left"), "{}", stderr(&run));
    assert!(String::from_utf8(run.stdout).unwrap().contains("Verdict"), "the result was printed");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = output(concprobe(QUICK).stdout(full));
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("cannot write to stdout: No space left"), "{}", stderr(&run));
}

#[test]
fn a_run_that_fails_leaves_the_older_result_alone_and_no_empty_one() {
    let folder = Folder::new("cli-failed");
    let (older, fresh) = (folder.file("older.json"), folder.file("fresh.json"));
    fs::write(&older, "older").unwrap();
    for file in [&older, &fresh] {
        let run =
            output(concprobe("run sem-fast --attach btf").args(["-o", file]).env("LC_ALL", "C").hide_btf());
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    }
    assert_eq!(fs::read_to_string(&older).unwrap(), "older");
    assert!(!fs::exists(&fresh).unwrap());
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let mut run = concprobe(QUICK).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(run.stdout.take());
    let mut errors = String::new();
    run.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(errors, "");
}

/// Runs the program as a user without any privilege, or under another condition.
trait Condition {
    fn unprivileged(&mut self) -> Command;
    fn hide_btf(&mut self) -> &mut Command;
}

impl Condition for Command {
    fn unprivileged(&mut self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups", "--"]);
        command.arg(self.get_program()).args(self.get_args());
        command
    }

    fn hide_btf(&mut self) -> &mut Command {
        let inner: Vec<_> = self.get_args().map(ToOwned::to_owned).collect();
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\""]);
        command.arg(self.get_program()).args(inner);
        *self = command;
        self
    }
}

/// The program and its folders must be reachable for others: a copy in a world-readable place.
fn reachable_copy() -> Folder {
    let folder = Folder(std::env::temp_dir().join(format!("concprobe-test-{}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_concprobe"), folder.file("concprobe")).unwrap();
    folder
}

#[test]
fn without_privileges_the_missing_capability_and_the_command_are_named() {
    let folder = reachable_copy();
    let program = folder.file("concprobe");
    let run = |arguments: &str| {
        output(&mut Command::new(&program).args(arguments.split_whitespace()).unprivileged())
    };
    let refused = run("run sem-fast --ops 1000");
    assert_eq!(refused.status.code(), Some(2));
    let message = stderr(&refused);
    for part in ["CAP_BPF", "CAP_PERFMON", &format!("sudo {program} run sem-fast --ops 1000"), "--no-bpf"] {
        assert!(message.contains(part), "no {part}: {message}");
    }
    assert!(refused.stdout.is_empty());

    let estimate = run("run sem-pingpong --ops 2000 --pin 0 --no-bpf --json");
    assert_eq!(estimate.status.code(), Some(0), "{}", stderr(&estimate));
    let estimate = parse(&estimate);
    assert_eq!(estimate["estimate"], true);
    assert_eq!(number(&estimate, "/ops"), 2_000);
    assert_eq!(number(&estimate, "/latency/count"), 2_000);
    for (pointer, key) in [
        ("/classes/slept", "classes.slept"),
        ("/counts/futex_waits", "counts.futex_waits"),
        ("/lost", "lost"),
        ("/creation", "creation"),
    ] {
        assert!(estimate.pointer(pointer).unwrap().is_null(), "{pointer}");
        assert!(estimate["unavailable"][key].is_string(), "no reason for {key}");
    }
    // On one CPU each turn is a switch, and getrusage counts them.
    let switches =
        number(&estimate, "/counts/voluntary_switches") + number(&estimate, "/counts/involuntary_switches");
    assert!(switches >= 1_900, "{switches}");

    let doctor = run("doctor");
    assert_eq!(doctor.status.code(), Some(2));
    assert!(String::from_utf8(doctor.stdout).unwrap().contains("setcap cap_bpf,cap_perfmon=ep"));
}

#[test]
fn doctor_says_yes_here_and_no_where_neither_way_to_attach_is_there() {
    let doctor = output(&mut concprobe("doctor --json"));
    assert_eq!(doctor.status.code(), Some(0));
    let checks = parse(&doctor);
    let checks = checks["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["required"] == false || check["state"] != "unmet"), "{checks:?}");
    let hidden = output(Command::new("unshare").args([
        "-m",
        "sh",
        "-c",
        "mount -t tmpfs none /sys/kernel/btf; umount -a -t tracefs; umount -q /sys/kernel/debug; exec \"$0\" doctor",
        env!("CARGO_BIN_EXE_concprobe"),
    ]));
    assert_eq!(hidden.status.code(), Some(2), "{}", String::from_utf8_lossy(&hidden.stdout));
    assert!(String::from_utf8(hidden.stdout).unwrap().contains("mount -t tracefs"));
}

#[test]
fn without_btf_the_classic_tracepoints_serve() {
    let _alone = support::alone();
    let run = output(concprobe("run thread-create --ops 200 --json").hide_btf());
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let run = parse(&run);
    assert_eq!(run["attached_by"], "classic");
    assert_eq!(number(&run, "/counts/threads_created"), 200);
}

fn signal(process: u32, number: i32) {
    let pid = i32::try_from(process).unwrap();
    // SAFETY: a plain system call on a process that this test started and has not reaped.
    assert_eq!(unsafe { libc::kill(pid, number) }, 0);
}

#[test]
fn a_signal_ends_the_run_and_keeps_what_was_measured() {
    let _alone = support::alone();
    for (number_of_signal, workload) in
        [(libc::SIGINT, "sem-pingpong"), (libc::SIGTERM, "thread-create"), (libc::SIGHUP, "sem-fast")]
    {
        let folder = Folder::new(workload);
        let file = folder.file("result.json");
        let mut command = concprobe(&format!("run {workload} --duration 60s --warmup 1ms --repeat 1"));
        let run = command.args(["-o", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = run.id();
        wait_until("the workload's process at work", || {
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
                .is_ok_and(|children| cpu_ticks(children.split_whitespace().next()) >= 30)
        });
        signal(pid, number_of_signal);
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + number_of_signal), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("PARTIAL, interrupted by signal {number_of_signal}")), "{text}");
        let saved: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(saved["interrupted_by"], number_of_signal);
        assert_eq!(saved["self_check"]["passed"], true, "{}", saved["self_check"]);
        assert_eq!(number(&saved, "/ops"), support::classed(&saved));
    }
}

/// User and system time of a process with those of its ended and living members, clock ticks.
fn cpu_ticks(pid: Option<&str>) -> u64 {
    let of = |pid: &str| -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        [11, 12].iter().filter_map(|index| fields.get(*index)?.parse::<u64>().ok()).sum()
    };
    let Some(pid) = pid else { return 0 };
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    of(pid) + children.split_whitespace().map(of).sum::<u64>()
}

#[test]
fn signals_that_come_together_are_one_wish_and_keep_what_was_measured() {
    let run = concprobe("run sem-fast --duration 60s --warmup 1ms --repeat 1 --no-bpf --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = run.id();
    wait_until("the workload's process at work", || {
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
            .is_ok_and(|children| cpu_ticks(children.split_whitespace().next()) >= 30)
    });
    // Two different ones, which the kernel does not merge.
    signal(pid, libc::SIGINT);
    signal(pid, libc::SIGTERM);
    let output = run.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(130 | 143)), "{:?}: {}", output.status, stderr(&output));
    assert_eq!(parse(&output)["self_check"]["passed"], true);
}

#[test]
fn a_pool_drops_what_it_has_not_begun_when_the_time_is_over() {
    let run = result("run pool-io --workers 1 --wait 20ms --duration 300ms --repeat 1 --warmup 0s");
    // It hands in 1,024 tasks at a time.
    assert!(number(&run, "/ops") < 512, "{}", run["ops"]);
}

#[test]
fn a_workload_that_hangs_is_ended_and_named() {
    let run = concprobe("run sem-pingpong --duration 60s --no-bpf --patience 300ms --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = run.id();
    let child = || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().next().map(ToOwned::to_owned)
    };
    wait_until("the workload's process at work", || cpu_ticks(child().as_deref()) > 5);
    let members = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child().unwrap())).unwrap();
    for member in members.split_whitespace() {
        // SAFETY: a plain system call on a descendant of a process that this test started.
        assert_eq!(unsafe { libc::kill(member.parse().unwrap(), libc::SIGSTOP) }, 0);
    }
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("the workload hangs: no op in 300ms, during "), "{message}");
}

#[test]
fn a_list_of_values_is_swept() {
    let _alone = support::alone();
    let run = output(&mut concprobe("run pool --workers 1,3 --ops 2000 --warmup 1ms --json"));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let sweep = parse(&run);
    assert_eq!(sweep["schema"], "concprobe-sweep/1");
    let workers: Vec<&str> = sweep["sweep"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["parameters"]["workers"].as_str().unwrap())
        .collect();
    assert_eq!(workers, ["1", "3"]);
    let screen = output(&mut concprobe("run pool --workers 1,3 --ops 2000 --warmup 1ms"));
    assert!(String::from_utf8(screen.stdout).unwrap().contains("best at --workers"));
}

#[test]
fn the_second_signal_does_not_wait() {
    let run = concprobe("run sem-pingpong --duration 60s --no-bpf")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = run.id();
    let child = || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().next().and_then(|pid| pid.parse::<i32>().ok())
    };
    wait_until("the workload's process", || child().is_some_and(|pid| cpu_ticks(Some(&pid.to_string())) > 5));
    let workload = child().unwrap();
    // A workload that is stopped cannot heed the first signal.
    // SAFETY: a plain system call on a descendant of a process that this test started.
    assert_eq!(unsafe { libc::kill(workload, libc::SIGSTOP) }, 0);
    signal(pid, libc::SIGINT);
    thread::sleep(Duration::from_millis(100));
    signal(pid, libc::SIGINT);
    let output = run.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(2 | 130)), "{:?}", output.status);
    assert!(!fs::exists(format!("/proc/{workload}")).unwrap(), "the workload's process is gone");
}
