//! Threads, processes and calls in the real kernel: every one is in some row, under its own name, and those of others
//! are in none.

mod support;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use support::{
    concprobe, number, output, parse,
    seen::{Process, WAYS, figure, frames, trace, trace_command},
    stderr,
};

// ---------------------------------------------------------------- time

#[test]
fn spinning_threads_run_or_wait_for_a_cpu_and_are_never_blocked() {
    let _alone = support::alone();
    for options in ["", "--attach classic", "--syscalls"] {
        let seen = trace(options, "preempt", "4 1000");
        let lines: Vec<&str> = seen.printed.lines().filter(|line| line.starts_with("tid=")).collect();
        assert_eq!(lines.len(), 4, "{}", seen.printed);
        for line in lines {
            let tid = figure(line, "tid");
            let row = seen.rows("threads").iter().find(|row| row["tid"] == tid).expect("its row");
            let part = |part: &str| number(row, &format!("/parts/{part}"));
            let spinning = figure(line, "run_ns") + figure(line, "wait_ns");
            // After the spinning they print, one after the other.
            assert!(part("blocked_ns") * 20 <= part("wall_ns"), "{options} {line}: {row}");
            let ours = part("on_cpu_ns") + part("run_queue_ns");
            assert!(ours.abs_diff(spinning) * 20 <= spinning, "{options} {line}: {row}");
            let sum = ours + part("blocked_ns");
            assert!(sum.abs_diff(part("wall_ns")) * 100 <= part("wall_ns"), "{options} {line}: {row}");
        }
    }
}

#[test]
fn what_threads_do_when_the_look_ends_is_cut_there_and_marked() {
    let _alone = support::alone();
    for way in WAYS {
        let spinners = Process::of("preempt", "3 60000 1");
        support::wait_until("three spinning threads", || {
            let busy = |tid: &fs::DirEntry| {
                fs::read_to_string(tid.path().join("stat")).is_ok_and(|stat| stat.contains(") R "))
            };
            fs::read_dir(format!("/proc/{}/task", spinners.pid()))
                .is_ok_and(|threads| threads.flatten().filter(busy).count() == 3)
        });
        let seen = spinners.attach(&format!("{way} --duration 1s"));
        let wall = number(&seen.trace, "/wall_ns");
        assert_eq!(seen.rows("threads").len(), 4);
        let mut running = 0;
        for row in seen.rows("threads") {
            assert_eq!(row["existed_before"], true, "{way}: {row}");
            assert!(number(row, "/parts/wall_ns") * 100 >= wall * 90, "{way}: {wall} {row}");
            let part = row["open"]["part"].as_str().unwrap();
            if row["tid"] == spinners.pid() {
                assert_eq!((part, &row["open"]["since_before"]), ("blocked", &true.into()), "{way}: {row}");
                continue;
            }
            assert!(matches!(part, "on_cpu" | "run_queue"), "{way}: {row}");
            assert!(number(row, "/open/duration_ns") <= number(row, "/parts/wall_ns"), "{way}: {row}");
            assert_eq!(number(row, "/parts/blocked_ns"), 0, "{way}: {row}");
            running += number(row, "/parts/on_cpu_ns");
        }
        assert!(running * 100 <= wall * 103, "{way}: three threads on one CPU ran for {running} of {wall}");
    }
}

#[test]
fn a_sleep_that_began_before_the_look_counts_from_its_start_only() {
    let _alone = support::alone();
    for options in ["--syscalls", "--attach classic --syscalls"] {
        let sleeper = Process::start(Command::new("sleep").arg("4")).settled(1, 'S');
        let seen = sleeper.attach(options);
        let row = seen.thread("sleep");
        assert!(number(row, "/parts/blocked_ns") <= number(&seen.trace, "/wall_ns"), "{options}: {row}");
        assert!(
            number(row, "/parts/blocked_ns") * 100 >= number(row, "/parts/wall_ns") * 90,
            "{options}: {row}"
        );
        let sleep = seen.rows_with("sleeps", "call", "clock_nanosleep");
        assert_eq!(sleep.len(), 1, "{options}: {}", seen.trace["sleeps"]);
        assert_eq!(
            (number(sleep[0], "/slept"), number(sleep[0], "/open")),
            (1, 0),
            "{options}: {}",
            sleep[0]
        );
        // Its entry was not seen: a call that returned, and none that was left open.
        assert!(seen.calls("clock_nanosleep") <= 1, "{options}");
    }
}

#[test]
fn the_clock_of_a_column_is_named_and_a_sleep_has_its_wall_time() {
    let _alone = support::alone();
    let text = output(&mut concprobe("trace -- sleep 0.5"));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("by system call (wall time)"), "{text}");
    assert!(text.contains("Threads (wall time; the parts add up to it)"), "{text}");
    let seen = trace_command("", &["sleep", "0.5"]);
    let blocked = number(seen.rows_with("sleeps", "call", "clock_nanosleep")[0], "/blocked/sum_ns");
    assert!((500_000_000..525_000_000).contains(&blocked), "{blocked}");
    assert!(number(seen.thread("sleep"), "/parts/on_cpu_ns") < 50_000_000);
}

// ---------------------------------------------------------------- which thread, which process

#[test]
fn names_are_those_of_the_end_with_the_first_one_beside() {
    let _alone = support::alone();
    for way in WAYS {
        let seen = trace(way, "renamed", "");
        for (name, renames) in [("own-2", 2), ("by-main", 1), ("main-new", 1)] {
            let row = seen.thread(name);
            assert_eq!(row["first_name"], "renamed", "{way}: {row}");
            // The command's first name is the one that its exec gave it.
            assert_eq!(number(row, "/renames"), renames, "{way}: {row}");
        }
        let processes = seen.rows("processes");
        assert_eq!(processes.len(), 1);
        assert_eq!((processes[0]["name"].as_str(), number(&processes[0], "/threads")), (Some("main-new"), 3));
    }
}

#[test]
fn all_threads_of_a_process_are_looked_at_and_no_stranger_s() {
    let _alone = support::alone();
    for way in WAYS {
        let target = Process::of("sysloop", "1 4 2000000000");
        let stranger = Process::of("sysloop", "1 2 2000000000");
        let child = |parent: u32| {
            let path = format!("/proc/{parent}/task/{parent}/children");
            fs::read_to_string(path).ok()?.split_whitespace().next()?.parse::<u32>().ok()
        };
        let threads = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        support::wait_until("both have their threads", || {
            child(target.pid()).is_some_and(|pid| threads(pid) == 5)
                && child(stranger.pid()).is_some_and(|pid| threads(pid) == 3)
        });
        let pid = child(target.pid()).unwrap();
        let seen = support::seen::seen(&mut concprobe(&format!(
            "attach --json --pid {pid} {way} --syscalls --duration 1s"
        )));
        assert_eq!(seen.rows("threads").len(), 5, "{way}");
        let with_calls = |row: &&serde_json::Value| number(row, "/counts/syscalls") > 0;
        assert_eq!(
            seen.rows("threads").iter().filter(with_calls).count(),
            4,
            "{way}: {}",
            seen.trace["threads"]
        );
        let of_threads: u64 = seen.rows("threads").iter().map(|row| number(row, "/counts/syscalls")).sum();
        // Each may be inside a call when the look ends.
        assert!(seen.calls("getppid").abs_diff(of_threads) <= 8, "{way}: {of_threads}");
        // A command beside it has none of theirs.
        let seen = trace_command(&format!("{way} --syscalls"), &["sleep", "0.3"]);
        assert_eq!(seen.calls("getppid"), 0, "{way}");
        assert_eq!(seen.rows("processes").len(), 1, "{way}");
    }
}

#[test]
fn every_process_is_counted_and_is_in_a_row() {
    let _alone = support::alone();
    for way in WAYS {
        let seen = trace(&format!("{way} --syscalls"), "forks", "1500 20");
        assert_eq!((seen.count("processes_created"), seen.count("threads_created")), (1_500, 0), "{way}");
        assert_eq!(number(&seen.trace, "/creation/life/count"), 1_501, "{way}");
        assert_eq!(seen.calls("getppid"), 1_500, "{way}");
        // Those beyond the table are in one row.
        let asleep = |row: &&serde_json::Value| {
            row["call"] == "clock_nanosleep" || row["call"] == "beyond the table of places"
        };
        let slept: u64 = seen.rows("sleeps").iter().filter(asleep).map(|row| number(row, "/slept")).sum();
        assert!(slept >= 1_500, "{way}: {slept}");
        let all: u64 = seen.rows("sleeps").iter().map(|row| number(row, "/slept")).sum();
        assert_eq!(all, seen.count("voluntary_switches"), "{way}");
        let of_rows = |list: &str| seen.rows(list).iter().map(|row| number(row, "/threads")).sum::<u64>();
        assert_eq!((of_rows("threads"), of_rows("processes")), (1_501, 1_501), "{way}");
        let pids: BTreeSet<u64> = seen.rows("processes").iter().map(|row| number(row, "/host_pid")).collect();
        assert_eq!(pids.len(), seen.rows("processes").len(), "{way}: no process twice");
        assert!(frames(&seen.trace["creation"]["creators"][0]).contains("main (forks)"), "{way}");
    }
}

#[test]
fn a_process_that_makes_threads_all_the_time_is_attached_to_without_doubles_or_gaps() {
    let _alone = support::alone();
    let storm = Process::of("spawn", "100000000 64");
    for round in 0..20 {
        let way = WAYS[round % 2];
        let seen = storm.attach(&format!("{way} --duration 100ms"));
        let alive: Vec<u64> =
            seen.rows("threads").iter().filter_map(|row| row["host_tid"].as_u64()).collect();
        assert_eq!(alive.iter().collect::<BTreeSet<_>>().len(), alive.len(), "{way} {round}: {alive:?}");
        let before = seen.rows("threads").iter().filter(|row| row["existed_before"] == true).count() as u64;
        let all: u64 = seen.rows("threads").iter().map(|row| number(row, "/threads")).sum();
        assert_eq!(
            all,
            before + seen.count("threads_created"),
            "{way} {round}: those before, and the new ones"
        );
        assert!(seen.count("threads_created") > 0, "{way} {round}");
    }
}

#[test]
fn more_threads_than_there_is_room_for_are_lost_by_number() {
    let _alone = support::alone();
    for (arguments, threads) in [("600 300", 601), ("40 300", 41)] {
        let mut command = concprobe("trace --json --max-threads 100 --");
        command.arg(support::program("exitblk")).args(arguments.split(' '));
        let run = output(&mut command);
        // The command's own status goes before the loss.
        assert_eq!(run.status.code(), Some(7), "{}", stderr(&run));
        let look = parse(&run);
        let rows: u64 = look["threads"].as_array().unwrap().iter().map(|row| number(row, "/threads")).sum();
        assert_eq!(rows + number(&look, "/lost"), threads, "{arguments}: {}", look["losses"]);
        assert_eq!(number(&look, "/counts/threads_created"), threads - 1, "{arguments}");
        if threads > 100 {
            let warnings = look["warnings"].to_string();
            assert!(warnings.contains("events were lost"), "{warnings}");
            assert!(warnings.contains("--max-threads"), "it says what helps: {warnings}");
        }
    }
}

#[test]
fn memory_is_fixed_by_the_options_and_not_by_what_happens() {
    let _alone = support::alone();
    let maps = |options: &str, arguments: &str| {
        number(&trace(options, "spawn", arguments).trace, "/memory/map_bytes")
    };
    let few = maps("", "10 10");
    assert_eq!(few, maps("", "5000 64"), "not by the number of threads");
    assert!(maps("--max-threads 1000", "10 10") < few);
    assert!(maps("--max-locks 64", "10 10") < few);
}

// ---------------------------------------------------------------- calls

#[test]
fn calls_are_counted_exactly_every_time_and_both_ways() {
    let _alone = support::alone();
    for round in 0..4 {
        for way in WAYS {
            let seen = trace(&format!("{way} --syscalls --no-stacks"), "sysloop", "1 8 50000");
            assert_eq!(seen.calls("getppid"), 400_000, "{way} {round}");
            let of_rows: u64 = seen.rows("calls").iter().map(|call| number(call, "/calls")).sum();
            // Both processes end in a call that does not return.
            assert_eq!(seen.count("syscalls"), of_rows + 2 + 8, "{way} {round}: so do the threads");
        }
    }
}

#[test]
fn calls_that_fail_at_once_are_errors_and_no_sleeps() {
    let _alone = support::alone();
    for way in WAYS {
        let seen = trace(&format!("{way} --syscalls"), "badsleep", "1000");
        for name in ["nanosleep", "clock_nanosleep"] {
            let call = seen.rows_with("calls", "name", name);
            assert_eq!(
                (number(call[0], "/calls"), number(call[0], "/errors")),
                (1_000, 1_000),
                "{way}: {name}"
            );
            assert!(seen.rows_with("sleeps", "call", name).is_empty(), "{way}: {name}");
        }
    }
}

#[test]
fn short_looks_at_a_busy_process_pair_no_call_with_another() {
    let _alone = support::alone();
    let busy = Process::of("sysloop", "1 2 2000000000");
    for round in 0..20 {
        // What is longer than the look is refused by what reads every result here.
        let seen = busy.attach(&format!("{} --syscalls --duration 50ms", WAYS[round % 2]));
        assert!(seen.rows("calls").iter().all(|call| !call["name"].as_str().unwrap().starts_with("nr ")));
        for key in ["missed_call_entry", "missed_call_exit"] {
            assert!(number(&seen.trace, &format!("/blurs/{key}")) <= 4, "{round}: {}", seen.trace["blurs"]);
        }
    }
}

#[test]
fn waiting_for_another_thread_to_end_is_no_contention() {
    let _alone = support::alone();
    let python =
        "import threading, time; t = threading.Thread(target=time.sleep, args=(0.5,)); t.start(); t.join()";
    let seen = trace_command("", &["python3", "-c", python]);
    seen.assert_no_accusation();
    assert!(seen.count("futex_wait_slept") >= 1, "{}", seen.trace["counts"]);
}

#[test]
fn another_user_of_bpf_at_the_same_hooks_costs_no_count() {
    let script = "tracepoint:sched:* { @s = count(); } tracepoint:raw_syscalls:* { @c = count(); }";
    let mut bpftrace = Command::new("bpftrace");
    bpftrace.args(["-e", script]).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut other) = bpftrace.spawn() else {
        let _ = writeln!(std::io::stderr(), "not tested: bpftrace is not installed");
        return;
    };
    let _alone = support::alone();
    support::wait_until("bpftrace has attached its programs", || {
        let Ok(open) = fs::read_dir(format!("/proc/{}/fd", other.id())) else { return false };
        let links = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("[perf_event]")).count() > 4
    });
    let exact = trace("--attach btf --syscalls --no-stacks", "sysloop", "1 4 500000");
    // The classic way may be left out then, and must say so: what is counted and what is lost are all.
    let mut command = concprobe("trace --json --attach classic --syscalls --no-stacks --");
    command.arg(support::program("sysloop")).args(["1", "4", "200000"]);
    let classic = parse(&output(&mut command));
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(exact.calls("getppid"), 2_000_000);
    let calls = classic["calls"].as_array().unwrap();
    let seen = calls.iter().find(|call| call["name"] == "getppid").map_or(0, |call| number(call, "/calls"));
    let missed = number(&classic, "/probe/missed_runs");
    assert!(seen <= 800_000 && seen + missed >= 800_000, "{seen} counted, {missed} left out");
    if seen < 800_000 {
        let said = format!("{} {}", classic["warnings"], classic["losses"]);
        assert!(said.contains("left out") || number(&classic, "/lost") > 0, "{said}");
    }
}
