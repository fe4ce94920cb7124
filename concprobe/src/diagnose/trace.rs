//! What a look at a program means: consistency, warnings, what was not visible, and the verdict. Reads the
//! observation, and completes it.

mod verdict;

use std::collections::BTreeMap;

use super::{CONSERVATION, left_out, lost, worst_imbalance};
use crate::{
    harness::SelfCheck,
    observation::{
        Depth,
        trace::{Sleep, Trace},
    },
    units::{count, share},
};

/// Completes the observation.
pub fn judge(trace: &mut Trace) {
    trace.self_check = check(trace);
    trace.unavailable = unavailable(trace);
    trace.not_visible = not_visible(trace);
    let warnings = warnings(trace);
    trace.warnings.extend(warnings);
    trace.verdict = verdict::verdict(trace);
}

fn check(trace: &Trace) -> SelfCheck {
    let worst = worst_imbalance(trace.threads.iter().map(|thread| &thread.parts));
    SelfCheck {
        passed: worst <= CONSERVATION,
        detail: format!(
            "on-CPU, blocked and run-queue add up to each thread's wall time within {}",
            share(worst)
        ),
    }
}

fn unavailable(trace: &Trace) -> BTreeMap<String, String> {
    let mut reasons = BTreeMap::new();
    let mut say = |keys: &[&str], reason: &str| {
        for key in keys {
            reasons.insert((*key).to_owned(), reason.to_owned());
        }
    };
    if trace.depth == Depth::Switches {
        say(
            &[
                "counts.syscalls",
                "counts.futex_waits",
                "counts.futex_wakes",
                "counts.futex_wait_again",
                "counts.futex_wait_timed_out",
                "counts.futex_wait_interrupted",
                "parts.user_ns",
                "parts.kernel_ns",
                "locks[].waits",
                "locks[].again",
                "locks[].timed_out",
                "locks[].interrupted",
                "locks[].wakes",
                "threads[].calls_again",
                "threads[].empty_polls",
                "polling",
            ],
            "depth switches does not look at system calls; use --futex-calls or --syscalls",
        );
        if trace.counts.futex_wait_slept.is_none() {
            say(
                &["counts.futex_wait_slept"],
                "this kernel does not show its programs a sleeping thread's registers (Linux 5.15 does)",
            );
        }
    }
    if trace.calls.is_none() {
        say(&["calls"], "calls are counted by number with --syscalls");
    }
    if trace.lock_calls.is_none() {
        say(&["lock_calls"], "calls of lock functions are counted with --count-calls");
    }
    if trace.stack_copies.is_none() {
        say(
            &["stack_copies", "locks[].waiters", "locks[].wakers"],
            "no stacks were asked for, or none can be copied here",
        );
    }
    if trace.exit.is_none() {
        let reason =
            if trace.command.is_some() { "the command still runs" } else { "no command was started" };
        say(&["exit"], reason);
    }
    if trace.probe_cost_ns_per_event.is_none() {
        say(
            &["probe_cost_ns_per_event"],
            "timing the kernel programs would cost the program that is looked at",
        );
    }
    reasons
}

/// What this look cannot see, said once for all.
fn not_visible(trace: &Trace) -> Vec<String> {
    let mut hidden = vec![
        "locks that were had at once, and spinning in user space, which is on-CPU time here: --count-calls \
         tells how often the lock functions are called"
            .to_owned(),
        "futexes that io_uring waits for".to_owned(),
    ];
    if trace.depth == Depth::Switches {
        hidden.push(
            "futex calls that did not sleep, polling calls, and how waits ended: --futex-calls and --syscalls"
                .to_owned(),
        );
    }
    if trace.locks.iter().any(|lock| lock.sleeps.waiters.iter().any(|stack| is_go(&stack.frames))) {
        hidden.push(
            "goroutines: the Go runtime parks them by itself, and what is seen here are its own threads"
                .to_owned(),
        );
    }
    let beyond = trace.sleeps.iter().find(|sleep| sleep.call == Sleep::BEYOND);
    let beyond = beyond.map_or(0, |sleep| sleep.sleeps.slept + sleep.sleeps.open);
    let beyond = trace.blurs.get("no_site").copied().unwrap_or(0).max(beyond);
    if beyond > 0 {
        hidden.push(format!(
            "sleeps at places beyond the table (raise --max-locks), {beyond} in all; their time is summed in one row",
            beyond = count(beyond)
        ));
    }
    for (loss, what) in [
        ("no_pair", "which threads slept where, beyond the table: numbers of threads are too low"),
        ("no_name", "names of ended threads beyond the table"),
        ("no_stack", "stacks that found no room in the ring buffer"),
        ("unread_stack", "stacks that were not in memory"),
    ] {
        if let Some(events) = trace.blurs.get(loss).filter(|events| **events > 0) {
            hidden.push(format!("{what} ({} times)", count(*events)));
        }
    }
    hidden
}

fn is_go(frames: &[String]) -> bool {
    frames.iter().any(|frame| frame.starts_with("runtime."))
}

fn warnings(trace: &Trace) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(lost(trace.lost, &trace.losses));
    if trace.losses.get("no_block").is_some_and(|threads| *threads > 0) {
        warnings.push(
            "there were more threads at the same time than there is room for: raise --max-threads".to_owned(),
        );
    }
    warnings.extend(left_out(trace.probe.missed_runs));
    if trace.threads.is_empty() {
        warnings.push(
            "nothing was seen: no event of this program came; is it really this process (PID namespaces), \
             and does it run?"
                .to_owned(),
        );
    }
    let switches = |count: Option<u64>| count.unwrap_or(0);
    if !trace.threads.is_empty()
        && switches(trace.counts.voluntary_switches) + switches(trace.counts.involuntary_switches) == 0
        && trace.threads.iter().all(|thread| thread.running && thread.existed_before)
    {
        warnings.push(
            "not one of its threads was switched during the look: they slept, or ran, all the time; what is \
             said of them is read from /proc"
                .to_owned(),
        );
    }
    let running = trace.processes.iter().filter(|process| process.running).count();
    if trace.exit.is_some() && running > 0 {
        warnings.push(format!(
            "{running} processes that the command started still run; they were looked at until the command ended"
        ));
    }
    warnings
}
