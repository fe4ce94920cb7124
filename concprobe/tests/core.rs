//! The real kernel programs in the real kernel: both ways to attach, exact counts, classes, parts.
//! `cargo xtask kernels` runs this file inside other kernels, so it needs nothing but the program.

mod support;

use support::{assert_conservation, class, classed, number, result};

const WAYS: [&str; 2] = ["btf", "classic"];

#[test]
fn a_semaphore_that_is_never_empty_does_not_enter_the_kernel() {
    let _alone = support::alone();
    for way in WAYS {
        let run = result(&format!("run sem-fast --ops 10000000 --attach {way}"));
        assert_eq!(number(&run, "/ops"), 10_000_000);
        for count in ["syscalls", "futex_waits", "futex_wakes", "voluntary_switches", "threads_created"] {
            assert_eq!(number(&run, &format!("/counts/{count}")), 0, "{way}: {count}");
        }
        assert_eq!(classed(&run), 10_000_000, "{way}");
        assert_eq!(class(&run, "fast") + class(&run, "preempted"), 10_000_000, "{way}");
        let disturbed = number(&run, "/batches/disturbed");
        assert!(disturbed <= number(&run, "/counts/involuntary_switches"), "{way}: {disturbed}");
        assert!(number(&run, "/batches/undisturbed") >= 1_000, "{way}");
        assert_conservation(&run);
    }
}

#[test]
fn each_turn_of_a_pingpong_on_one_cpu_is_one_switch() {
    let _alone = support::alone();
    for way in WAYS {
        for between in ["processes", "threads"] {
            let run =
                result(&format!("run sem-pingpong --ops 20000 --pin 0 --between {between} --attach {way}"));
            assert_eq!(classed(&run), 20_000, "{way} {between}");
            assert_eq!(class(&run, "fast"), 0, "a turn on one CPU cannot go without a switch");
            assert_eq!(class(&run, "slept") + class(&run, "preempted"), 20_000, "{way} {between}");
            let slept = number(&run, "/counts/futex_wait_slept");
            let voluntary = number(&run, "/counts/voluntary_switches");
            // Two members in five repetitions: each phase has one wait of its own at its edge.
            assert!(slept.abs_diff(voluntary) <= 10, "{way} {between}: {slept} {voluntary}");
            assert!(voluntary.abs_diff(class(&run, "slept")) <= 10, "{way} {between}");
            assert_conservation(&run);
        }
    }
}

#[test]
fn a_thousand_ops_create_a_thousand_threads() {
    let _alone = support::alone();
    for way in WAYS {
        let run = result(&format!("run thread-create --ops 1000 --attach {way}"));
        assert_eq!(number(&run, "/counts/threads_created"), 1_000, "{way}");
        assert_eq!(number(&run, "/counts/processes_created"), 0, "{way}");
        assert_eq!(class(&run, "created"), 1_000, "{way}");
        assert_eq!(classed(&run), 1_000, "{way}");
        let ended: u64 = run["threads"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|thread| thread["tid"].is_null())
            .map(|thread| thread["threads"].as_u64().unwrap())
            .sum();
        assert_eq!(ended, 1_000, "{way}: every thread that was created has ended and is summed");
        assert_eq!(number(&run, "/intervals/creation/count"), 1_000, "{way}");
        // Each thread's exit lies within its life.
        let lives: u64 = run["threads"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|thread| thread["tid"].is_null())
            .map(|thread| thread["parts"]["wall_ns"].as_u64().unwrap())
            .sum();
        let exits = number(&run, "/creation/exit_ns");
        assert!(0 < exits && exits < lives, "{way}: {exits} of {lives}");
        assert_conservation(&run);
    }
}

#[test]
fn the_parts_of_a_creation_are_measured_for_every_op_and_agree_with_the_kernel_s_own_sum() {
    let _alone = support::alone();
    let run = result("run thread-create --ops 1000");
    let part = |name: &str| number(&run, &format!("/creation/{name}"));
    assert_eq!(part("ops") + part("unordered"), 1_000);
    assert_eq!(part("unordered"), 0);
    let sum = part("setup_ns") + part("clone_ns") + part("first_run_wait_ns") + part("exit_and_join_ns");
    let whole = number(&run, "/classes/created/sum_ns");
    assert!(sum.abs_diff(whole) * 50 <= whole, "the parts {sum} are not the op {whole} within 2 %");
    let by_kernel = number(&run, "/parts/creation_ns");
    let by_op = part("clone_ns") + part("first_run_wait_ns");
    assert!(by_kernel.abs_diff(by_op) * 50 <= by_op, "{by_kernel} and {by_op}");
}

#[test]
fn depth_switches_counts_the_sleeps_and_says_what_it_cannot_know() {
    let _alone = support::alone();
    for way in WAYS {
        let run = result(&format!("run sem-pingpong --ops 20000 --pin 0 --depth switches --attach {way}"));
        assert_eq!(class(&run, "slept") + class(&run, "preempted"), 20_000, "{way}");
        assert_eq!(class(&run, "not_switched"), 0, "{way}");
        for unknown in ["/counts/syscalls", "/counts/futex_waits", "/classes/fast", "/parts/user_ns"] {
            assert!(run.pointer(unknown).unwrap().is_null(), "{way}: {unknown}");
            let key = unknown.trim_start_matches('/').replace('/', ".");
            assert!(run["unavailable"][&key].is_string(), "{way}: no reason for {key}");
        }
        // Which sleeps were futex waits is known from Linux 5.15 on.
        if !run["counts"]["futex_wait_slept"].is_null() {
            let slept = number(&run, "/counts/futex_wait_slept");
            assert!(slept.abs_diff(number(&run, "/counts/voluntary_switches")) <= 10, "{way}");
        }
    }
}

#[test]
fn calls_are_counted_by_number_on_request() {
    let _alone = support::alone();
    for way in WAYS {
        let run = result(&format!("run thread-create --ops 500 --syscalls --attach {way}"));
        let calls = run["calls"].as_array().unwrap();
        let of = |names: &[i64]| -> u64 {
            calls
                .iter()
                .filter(|call| names.contains(&call["number"].as_i64().unwrap()))
                .map(|call| call["calls"].as_u64().unwrap())
                .sum()
        };
        // The return of a clone in the new thread has no entry, and is not counted.
        let clones = of(&[libc::SYS_clone, libc::SYS_clone3]);
        assert_eq!(clones, 500, "{way}: {calls:?}");
    }
}

#[test]
fn reads_that_found_nothing_are_counted_exactly() {
    let _alone = support::alone();
    let run = result("run read-busypoll --ops 5 --syscalls");
    let calls = run["calls"].as_array().unwrap();
    let reads = calls.iter().find(|call| call["number"] == libc::SYS_read).unwrap();
    assert_eq!(reads["again"], run["extra_counts"]["EAGAIN"], "{calls:?}");
}

#[test]
fn the_cost_of_the_kernel_programs_is_measured() {
    let _alone = support::alone();
    for way in WAYS {
        let run = result(&format!("run sem-pingpong --ops 2000 --pin 0 --attach {way}"));
        let cost = number(&run, "/probe_cost_ns_per_event");
        assert_eq!(cost, number(&run, "/probe/timed_ns") / number(&run, "/probe/timed_runs"), "{way}");
    }
}

#[test]
fn a_look_at_a_program_counts_every_thread_that_it_creates() {
    let _alone = support::alone();
    for way in WAYS {
        let options = "run thread-create --no-bpf --ops 500 --warmup 0s --repeat 1 -o /dev/null";
        let look = support::look(&format!("--attach {way}"), options);
        // One thread for each op, and the member of the crew itself; one process, the workload's.
        assert_eq!(number(&look, "/counts/threads_created"), 501, "{way}");
        assert_eq!(number(&look, "/counts/processes_created"), 1, "{way}");
        assert_eq!(number(&look, "/creation/life/count"), 503, "{way}: all have ended");
        let rows = look["threads"].as_array().unwrap();
        assert_eq!(rows.iter().map(|row| row["threads"].as_u64().unwrap()).sum::<u64>(), 503, "{way}");
        assert!(rows.iter().all(|row| row["running"] == false), "{way}");
        assert_eq!(number(&look, "/lost"), 0, "{way}: {}", look["losses"]);
        assert_eq!(look["self_check"]["passed"], true, "{way}: {}", look["self_check"]);
    }
}

#[test]
fn a_look_at_a_program_finds_where_its_threads_sleep() {
    let _alone = support::alone();
    for way in WAYS {
        let options = "run sem-pingpong --pin 0 --no-bpf --ops 5000 --warmup 0s --repeat 1 -o /dev/null";
        let look = support::look(&format!("--attach {way}"), options);
        let slept = number(&look, "/counts/futex_wait_slept");
        let locks = look["locks"].as_array().unwrap();
        let at_locks: u64 = locks.iter().map(|lock| lock["slept"].as_u64().unwrap()).sum();
        assert_eq!(at_locks, slept, "{way}: {locks:?}");
        // Each turn of a pingpong on one CPU is a sleep, or an involuntary switch.
        let switches = slept + number(&look, "/counts/involuntary_switches");
        assert!(switches >= 5_000, "{way}: {switches}");
        assert_eq!(number(&look, "/lost"), 0, "{way}: {}", look["losses"]);
        assert_eq!(look["self_check"]["passed"], true, "{way}: {}", look["self_check"]);
    }
}
