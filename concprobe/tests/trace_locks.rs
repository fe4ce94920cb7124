//! Locks in the real kernel: programs whose sleeps are known beforehand, or counted by the kernel itself.

mod support;

use serde_json::Value;
use support::{
    Folder, number,
    seen::{Process, Seen, WAYS, figure, frames, shares, trace, trace_command},
};

// ---------------------------------------------------------------- exact counts

#[test]
fn each_hand_over_between_threads_that_nobody_interrupts_is_a_sleep() {
    let _alone = support::alone();
    for way in WAYS {
        for (kind, symbols, sleeps_a_round) in [
            ("semaphore", &["pairs"][..], 2),
            ("condition", &["board_changed", "board_lock"], 2),
            ("barrier", &["finish_line"], 1),
        ] {
            let seen = trace(way, "handover", &format!("{kind} 20000"));
            let slept: u64 = symbols.iter().map(|symbol| seen.slept_at(symbol)).sum();
            assert_eq!(slept, figure(&seen.printed, "slept"), "{way} {kind}: {}", seen.trace["locks"]);
            if figure(&seen.printed, "fifo") == 1 {
                assert!(slept.abs_diff(20_000 * sleeps_a_round) <= 3, "{way} {kind}: {slept}");
            }
            for lock in seen.locks(symbols[0]) {
                assert_eq!(lock["kind"], kind, "{way}: {lock}");
            }
        }
    }
}

#[test]
fn a_lock_that_has_two_words_is_one_row() {
    let _alone = support::alone();
    // Waiters of a condition variable of glibc wait at its two words by turns.
    for options in ["", "--no-stacks", "--futex-calls"] {
        let seen = trace(options, "handover", "condition 20000");
        let of_condition: Vec<&Value> =
            seen.rows("locks").iter().filter(|lock| lock["kind"] == "condition").collect();
        assert_eq!(of_condition.len(), 1, "{options}: {}", seen.trace["locks"]);
        assert_eq!(number(of_condition[0], "/threads"), 2, "{options}: {}", of_condition[0]);
        assert!(number(of_condition[0], "/slept") > 39_000, "{options}: {}", of_condition[0]);
        if options != "--no-stacks" {
            assert!((0.999..1.001).contains(&shares(&of_condition[0]["waiters"])), "{options}");
        }
    }
}

#[test]
fn waits_and_wakes_of_a_semaphore_are_counted_call_by_call_when_asked_for() {
    let _alone = support::alone();
    for options in ["--futex-calls", "--syscalls --no-stacks"] {
        let seen = trace(options, "handover", "semaphore 20000");
        let slept = figure(&seen.printed, "slept");
        // Each wait that slept was woken, and beside the hand-over there are only the two joins.
        assert!(seen.count("futex_wait_slept").abs_diff(slept) <= 2, "{options}");
        assert!(seen.count("futex_wakes") >= slept, "{options}: {}", seen.trace["counts"]);
        let of_rows =
            |key: &str| -> u64 { seen.rows("locks").iter().map(|lock| lock[key].as_u64().unwrap()).sum() };
        for (row, count) in [
            ("waits", "futex_waits"),
            ("wakes", "futex_wakes"),
            ("again", "futex_wait_again"),
            ("timed_out", "futex_wait_timed_out"),
            ("interrupted", "futex_wait_interrupted"),
            ("slept", "futex_wait_slept"),
        ] {
            assert_eq!(of_rows(row), seen.count(count), "{options}: {row}");
        }
    }
}

#[test]
fn nothing_is_lost_where_threads_sleep_as_often_as_they_can_on_all_cpus() {
    let _alone = support::alone();
    for options in ["", "--attach classic", "--futex-calls"] {
        let seen = trace(options, "handover", "semaphore 300000 2");
        assert_eq!(seen.slept_at("pairs"), figure(&seen.printed, "slept"), "{options}");
        let waits: u64 = seen.locks("pairs").iter().map(|lock| number(lock, "/blocked/count")).sum();
        assert_eq!(waits, figure(&seen.printed, "slept"), "{options}");
        assert!(number(&seen.trace, "/memory/driver_peak_bytes") < 200 << 20, "{}", seen.trace["memory"]);
    }
}

#[test]
fn a_wait_at_each_of_many_words_is_counted_within_the_table_and_beyond() {
    let _alone = support::alone();
    let seen = trace("", "words", "1000");
    assert_eq!(seen.rows("locks").len() as u64, figure(&seen.printed, "slept"));
    for lock in seen.rows("locks") {
        assert_eq!((number(lock, "/slept"), number(lock, "/limited")), (1, 1), "{lock}");
    }
    for (options, words) in [("--max-locks 4", 2_000), ("", 5_000), ("--max-locks 4 --futex-calls", 2_000)] {
        let seen = trace(options, "words", &words.to_string());
        let beyond = seen.rows_with("sleeps", "call", "beyond the table of places");
        assert_eq!(beyond.len(), 1, "{options}");
        let rows = seen.rows("locks").iter().chain(seen.rows("sleeps"));
        let listed: u64 = rows.map(|row| number(row, "/slept")).sum();
        assert_eq!(listed, seen.count("voluntary_switches"), "{options}");
        // On a busy machine a short limit may be over before the thread sleeps.
        let slept = seen.count("futex_wait_slept");
        assert!(slept <= words && slept * 100 >= words * 98, "{options}: {slept}");
        assert!(listed >= slept, "{options}: {listed}");
        let hidden = seen.trace["not_visible"].to_string();
        assert!(hidden.contains("--max-locks"), "{options}: {hidden}");
        let slots = if options.is_empty() { 1_024 } else { 4 };
        assert!(seen.rows("locks").len() <= slots, "{options}");
        if options.contains("futex-calls") {
            assert_eq!(seen.count("futex_wait_timed_out"), words, "{options}");
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn waits_of_a_32_bit_program_are_counted_and_its_stacks_are_said_not_to_be_known() {
    let _alone = support::alone();
    for options in [WAYS[0], WAYS[1], "--futex-calls"] {
        let seen = trace(options, "bits32", "");
        let lock = &seen.rows("locks")[0];
        assert_eq!((number(lock, "/slept"), number(lock, "/limited")), (5, 5), "{options}: {lock}");
        assert!(number(lock, "/blocked/min_ns") >= 20_000_000, "{options}: {lock}");
        if options == "--futex-calls" {
            assert_eq!((number(lock, "/waits"), number(lock, "/timed_out")), (5, 5), "{lock}");
        }
        let incomplete = lock["waiters"][0]["incomplete"].as_str().unwrap();
        assert!(incomplete.contains("no 64-bit ELF file"), "{options}: {incomplete}");
    }
}

// ---------------------------------------------------------------- who waits, who wakes

const HOLD_NS: u64 = 20_000_000;

/// Four threads wait for a lock that the first one keeps, five times.
fn queue(options: &str, kind: &str) -> Seen {
    trace(options, "queue_up", &format!("{kind} 4 5 {}", HOLD_NS / 1_000_000))
}

/// The lock that cost is first, with its waiters and wakers, and nobody is blamed for the other.
fn assert_culprit<'a>(seen: &'a Seen, what: &str, symbol: &str, kind: &str) -> &'a Value {
    let lock = &seen.rows("locks")[0];
    let name = lock["name"].as_str().unwrap();
    let of_symbol = name.starts_with(symbol) && name.contains(" (queue_up+0x");
    assert!(of_symbol, "{what}: {}", seen.trace["locks"]);
    assert_eq!(lock["kind"], kind, "{what}: {lock}");
    assert_eq!(lock["idle"], false, "{what}");
    assert!(number(lock, "/blocked/min_ns") >= HOLD_NS, "{what}: {lock}");
    let waiter = frames(&lock["waiters"][0]);
    assert!(waiter.contains("take (queue_up)") && waiter.contains("want (queue_up)"), "{what}: {waiter}");
    for waker in lock["wakers"].as_array().unwrap() {
        assert!(frames(waker).contains("give_back (queue_up)"), "{what}: {waker}");
        assert_eq!(waker["thread"], "queue_up", "{what}: {waker}");
    }
    assert!((0.999..1.001).contains(&shares(&lock["waiters"])), "{what}: {lock}");
    let verdict = seen.verdict();
    assert!(verdict.starts_with(&format!("The {kind} {name} costs")), "{what}: {verdict}");
    assert!(verdict.contains("mostly in take (queue_up)"), "{what}: {verdict}");
    assert!(verdict.contains("in give_back (queue_up), which had held it"), "{what}: {verdict}");
    assert!(seen.locks("cold_lock").is_empty(), "{what}: nobody waited for it");
    lock
}

#[test]
fn a_mutex_that_four_threads_queue_up_for_has_as_many_sleeps_each_with_waiter_and_waker() {
    let _alone = support::alone();
    for way in WAYS {
        for kind in ["mutex", "timed", "recursive", "inheriting"] {
            let seen = queue(way, kind);
            let what = format!("{way} {kind}");
            let lock = assert_culprit(&seen, &what, "counter_lock", "mutex");
            assert_eq!((number(lock, "/slept"), number(lock, "/threads")), (20, 20), "{what}: {lock}");
            assert_eq!(number(lock, "/limited"), if kind == "timed" { 20 } else { 0 }, "{what}: {lock}");
            let operation = match kind {
                "inheriting" => "LOCK_PI",
                "timed" => "WAIT_BITSET",
                _ => "WAIT",
            };
            assert!(lock["operation"].as_str().unwrap().starts_with(operation), "{what}: {lock}");
            let samples: u64 =
                lock["waiters"].as_array().unwrap().iter().map(|row| number(row, "/samples")).sum();
            assert_eq!(samples, 20, "{what}: each thread's first sleep is copied: {lock}");
        }
    }
}

#[test]
fn a_reader_writer_lock_tells_readers_who_wait_for_the_writer() {
    let _alone = support::alone();
    for way in WAYS {
        let seen = queue(way, "readers");
        let lock = assert_culprit(&seen, way, "table_lock", "rwlock");
        assert_eq!((number(lock, "/slept"), number(lock, "/threads")), (20, 20), "{way}: {lock}");
        // The writer lets them all in at once.
        assert!((0.999..1.001).contains(&lock["wakers"][0]["share"].as_f64().unwrap()), "{way}: {lock}");
        assert!(frames(&lock["wakers"][0]).contains("main (queue_up)"), "{way}: {lock}");
        let seen = queue(way, "writers");
        assert_eq!(seen.rows("locks")[0]["kind"], "rwlock", "{way}");
        assert!(seen.slept_at("table_lock") >= 20, "{way}: {}", seen.trace["locks"]);
    }
}

#[test]
fn a_lock_is_the_same_one_without_names() {
    let _alone = support::alone();
    let seen = queue("--no-stacks", "mutex");
    let lock = &seen.rows("locks")[0];
    assert_eq!(lock["kind"], "mutex");
    assert_eq!((number(lock, "/slept"), number(lock, "/threads")), (20, 20), "{lock}");
    assert!(lock["name"].as_str().unwrap().starts_with("0x"), "{lock}");
    assert_eq!(
        (&lock["waiters"], &lock["wakers"]),
        (&Value::from(Vec::<Value>::new()), &Value::from(Vec::<Value>::new()))
    );
    assert_eq!(seen.trace["stacks"], false);
    assert!(seen.trace["stack_copies"].is_null());
    assert!(seen.verdict().starts_with("The mutex 0x"), "{}", seen.verdict());
}

#[test]
fn a_program_that_is_over_at_once_has_its_stacks_named() {
    let _alone = support::alone();
    for round in 0..20 {
        let seen = trace("", "queue_up", "mutex 1 1 0");
        let locks = seen.locks("counter_lock (queue_up+");
        assert_eq!(locks.len(), 1, "{round}: {}", seen.trace["locks"]);
        assert_eq!(number(locks[0], "/slept"), 1, "{round}");
        assert!(frames(&locks[0]["waiters"][0]).contains("take (queue_up)"), "{round}: {}", locks[0]);
        assert!(frames(&locks[0]["wakers"][0]).contains("give_back (queue_up)"), "{round}: {}", locks[0]);
        let copies = &seen.trace["stack_copies"];
        assert_eq!(number(copies, "/lost"), 0, "{round}: {copies}");
    }
}

#[test]
fn workers_that_wait_for_tasks_are_idle_and_no_cost() {
    let _alone = support::alone();
    for way in WAYS {
        let seen = trace(way, "idle_workers", "6 400");
        seen.assert_no_accusation();
        let waits = seen.locks("tasks_there");
        assert!(waits.iter().all(|lock| lock["kind"] == "condition" && lock["idle"] == true), "{waits:?}");
        assert_eq!(waits.iter().map(|lock| number(lock, "/threads")).sum::<u64>(), 6, "{way}: {waits:?}");
        assert!(seen.verdict().contains("Idle waiters, which cost nothing"), "{}", seen.verdict());
    }
}

#[test]
fn threads_that_wait_for_ever_are_told_with_the_locks_that_they_want() {
    let _alone = support::alone();
    let deadlock = Process::of("deadlock", "").settled(2, 'S');
    for way in WAYS {
        let seen = deadlock.attach(&format!("{way} --duration 300ms"));
        let wall = number(&seen.trace, "/wall_ns");
        for (symbol, function) in [("left_lock", "right_first"), ("right_lock", "left_first")] {
            let locks = seen.locks(&format!("{symbol} (deadlock+"));
            assert_eq!(locks.len(), 1, "{way}: {}", seen.trace["locks"]);
            let lock = locks[0];
            assert_eq!((lock["kind"].as_str(), number(lock, "/open")), (Some("mutex"), 1), "{way}: {lock}");
            assert_eq!((number(lock, "/slept"), number(lock, "/threads")), (0, 1), "{way}: {lock}");
            assert!(number(lock, "/open_ns") * 100 >= wall * 95, "{way}: {lock}");
            assert_eq!(lock["idle"], false, "{way}: somebody has it");
            let waiter = frames(&lock["waiters"][0]);
            assert!(waiter.contains(&format!("{function} (deadlock)")), "{way}: {waiter}");
            assert_eq!(shares(&lock["waiters"]), 1.0, "{way}: {lock}");
        }
        for row in seen.rows("threads") {
            assert_eq!(row["open"]["part"], "blocked", "{way}: {row}");
            assert_eq!(row["open"]["since_before"], true, "{way}: {row}");
        }
        // Nobody got anywhere for want of these locks: that is not nothing.
        assert!(!seen.verdict().starts_with("Nothing to fix"), "{way}: {}", seen.verdict());
        // What does not fit in the table is in one row.
        let seen = deadlock.attach(&format!("{way} --duration 300ms --max-locks 2"));
        assert_eq!(seen.rows("locks").len(), 1, "{way}: {}", seen.trace["locks"]);
        let beyond = seen.rows_with("sleeps", "call", "beyond the table of places");
        assert_eq!(beyond.len(), 1, "{way}: {}", seen.trace["sleeps"]);
        assert_eq!(number(beyond[0], "/open"), 1, "{way}: {}", seen.trace["sleeps"]);
        assert!(seen.trace["not_visible"].to_string().contains("--max-locks"), "{way}");
    }
}

// ---------------------------------------------------------------- processes

#[test]
fn a_semaphore_that_two_processes_share_is_one_lock_told_by_its_file() {
    let _alone = support::alone();
    let folder = Folder::new("shared-semaphore");
    let file = folder.file("semaphores");
    for way in WAYS {
        let seen = trace(way, "shared_semaphore", &format!("{file} 5000"));
        assert_eq!(seen.rows("processes").len(), 2, "{way}");
        let mut slept = 0;
        for (offset, caller) in [(4096 + 512, "answer"), (4096 + 1024, "ask")] {
            let at = |lock: &&Value| lock["shared"]["path"] == file && lock["shared"]["offset"] == offset;
            let locks: Vec<&Value> = seen.rows("locks").iter().filter(at).collect();
            assert_eq!(locks.len(), 1, "{way} {offset}: {}", seen.trace["locks"]);
            assert_eq!(
                (locks[0]["kind"].as_str(), number(locks[0], "/threads")),
                (Some("semaphore"), 1),
                "{way}"
            );
            let waiters = frames(&locks[0]["waiters"][0]);
            assert!(waiters.contains(&format!("{caller} (shared_semaphore)")), "{way}: {waiters}");
            let other = if caller == "ask" { "answer" } else { "ask" };
            let wakers = frames(&locks[0]["wakers"][0]);
            assert!(wakers.contains(&format!("{other} (shared_semaphore)")), "{way}: {wakers}");
            slept += number(locks[0], "/slept");
        }
        // The kernel's own count has the pipe's read and the like beside.
        assert!(slept.abs_diff(figure(&seen.printed, "slept")) <= 2, "{way}: {slept} {}", seen.printed);
    }
}

#[test]
fn words_that_processes_use_at_the_same_time_are_merged_with_shares_of_the_whole() {
    let _alone = support::alone();
    // Both processes sleep at each of these words: the same program runs twice on one file.
    let folder = Folder::new("both-sides");
    let file = folder.file("word");
    let seen = trace("", "shared_word", &file);
    let locks = seen.locks(&file);
    assert_eq!(locks.len(), 1, "{}", seen.trace["locks"]);
    let lock = locks[0];
    assert_eq!(
        (number(lock, "/slept"), number(lock, "/threads"), number(lock, "/limited")),
        (20, 4, 20),
        "{lock}"
    );
    assert_eq!(number(lock, "/blocked/count"), 20, "{lock}");
    assert_eq!(lock["shared"]["offset"], 256);
    let all = shares(&lock["waiters"]);
    assert!((0.999..1.001).contains(&all), "shares of the waiters of four processes add up to {all}");
}

#[test]
fn memory_that_processes_share_without_a_file_is_one_place_too() {
    let _alone = support::alone();
    let seen = trace("", "shared_semaphore", "- 5000");
    let shared = seen.locks("[shared memory ");
    assert_eq!(shared.len(), 2, "{}", seen.trace["locks"]);
    let offsets: Vec<u64> = shared.iter().map(|lock| number(lock, "/shared/offset")).collect();
    assert!(offsets.contains(&(4096 + 512)) && offsets.contains(&(4096 + 1024)), "{offsets:?}");
    let slept: u64 = shared.iter().map(|lock| number(lock, "/slept")).sum();
    assert!(slept.abs_diff(figure(&seen.printed, "slept")) <= 2, "{slept} {}", seen.printed);
}

#[test]
fn locks_at_the_same_address_in_copies_of_a_process_are_different_locks() {
    let _alone = support::alone();
    for way in WAYS {
        let seen = trace(way, "same_address", "5");
        let locks = seen.locks("own_semaphore (same_address+");
        assert_eq!(locks.len(), 5, "{way}: {}", seen.trace["locks"]);
        let mut owners: Vec<u64> = locks.iter().map(|lock| number(lock, "/host_pid")).collect();
        owners.sort_unstable();
        owners.dedup();
        assert_eq!(owners.len(), 5, "{way}: one in each process");
        assert!(locks.iter().all(|lock| number(lock, "/slept") == 1 && lock["shared"].is_null()), "{way}");
    }
}

#[test]
fn a_lock_is_found_though_many_processes_slept_before_it() {
    let _alone = support::alone();
    // As in a build: each of many short processes sleeps in a call or two, before the one that matters.
    let script = format!(
        "{} 1500 20; exec {} mutex 4 5 20",
        support::program("forks").display(),
        support::program("queue_up").display()
    );
    let seen = trace_command("", &["sh", "-c", &script]);
    let locks = seen.locks("counter_lock (queue_up+");
    assert_eq!(locks.len(), 1, "{} locks; {}", seen.rows("locks").len(), seen.trace["not_visible"]);
    assert_eq!(number(locks[0], "/slept"), 20);
    assert!(seen.verdict().contains("The mutex counter_lock"), "{}", seen.verdict());
    // Calls of processes for which there was no room are summed by call, and nothing is lost.
    let together = |row: &Value| row["call"] == "clock_nanosleep" && row["host_pid"] == 0;
    assert!(seen.rows("sleeps").iter().any(together), "{}", seen.trace["sleeps"]);
    let rows = seen.rows("locks").iter().chain(seen.rows("sleeps"));
    let slept: u64 = rows.map(|row| number(row, "/slept")).sum();
    assert_eq!(slept, seen.count("voluntary_switches"), "{}", seen.trace["losses"]);
}

#[test]
fn a_program_that_another_one_starts_or_becomes_has_its_own_names() {
    let _alone = support::alone();
    let program = support::program("queue_up");
    let program = program.display();
    for script in [
        format!("exec {program} mutex 2 1 5"),
        format!("{program} mutex 2 1 5; true"),
        format!("({program} mutex 2 1 5 &); wait; sleep 1"),
    ] {
        let seen = trace_command("", &["sh", "-c", &script]);
        let locks = seen.locks("counter_lock (queue_up+");
        assert_eq!(locks.len(), 1, "{script}: {}", seen.trace["locks"]);
        assert_eq!(number(locks[0], "/slept"), 2, "{script}");
        assert!(frames(&locks[0]["waiters"][0]).contains("take (queue_up)"), "{script}: {}", locks[0]);
    }
}
