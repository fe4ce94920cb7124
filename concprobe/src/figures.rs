//! From what the kernel programs summed to the figures of a result: the same for a run and for a look at
//! any program.

use std::collections::BTreeMap;

use concprobe_common::block::{CallCount, Counter};

use crate::{
    call_names,
    observation::{Call, Counts, Parts},
    probe::{Records, Session},
};

/// What the kernel programs could see.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Every system call.
    pub calls: bool,
    /// At least the call in which a thread sleeps.
    pub sleeping_call: bool,
}

impl Look {
    /// `calls` says that every system call was looked at.
    pub fn of(session: Option<&Session>, calls: bool) -> Self {
        let registers = session.is_some_and(|session| session.config().has_task_pt_regs != 0);
        Self { calls, sleeping_call: calls || registers }
    }
}

/// Where time went, out of a thread's counters.
pub fn parts(wall_ns: u64, counters: &[u64], look: Look) -> Parts {
    let value = |counter: Counter| counters.get(counter as usize).copied().unwrap_or(0);
    let (on_cpu, blocked, run_queue) =
        (value(Counter::OnCpuNs), value(Counter::BlockedNs), value(Counter::RunQueueNs));
    let kernel = look.calls.then(|| value(Counter::KernelNs));
    Parts {
        wall_ns,
        on_cpu_ns: Some(on_cpu),
        user_ns: kernel.map(|kernel| on_cpu.saturating_sub(kernel)),
        kernel_ns: kernel,
        blocked_ns: Some(blocked),
        run_queue_ns: Some(run_queue),
        creation_ns: Some(value(Counter::CloneNs) + value(Counter::FirstRunWaitNs)),
        unaccounted_ns: Some(wall_ns.cast_signed() - (on_cpu + blocked + run_queue).cast_signed()),
    }
}

/// What was counted, out of a thread's counters.
pub fn counts(counters: &[u64], look: Look) -> Counts {
    let value = |counter: Counter| counters.get(counter as usize).copied();
    let by_call = |counter: Counter| value(counter).filter(|_| look.calls);
    Counts {
        syscalls: by_call(Counter::Syscalls),
        futex_waits: by_call(Counter::FutexWaits),
        futex_wakes: by_call(Counter::FutexWakes),
        futex_wait_slept: value(Counter::FutexWaitSlept).filter(|_| look.sleeping_call),
        futex_wait_again: by_call(Counter::FutexWaitAgain),
        futex_wait_timed_out: by_call(Counter::FutexWaitTimedOut),
        futex_wait_interrupted: by_call(Counter::FutexWaitInterrupted),
        voluntary_switches: value(Counter::Voluntary),
        involuntary_switches: value(Counter::Involuntary),
        threads_created: value(Counter::ThreadsCreated),
        processes_created: value(Counter::ProcessesCreated),
        migrations: value(Counter::Migrations),
    }
}

/// System calls by number.
pub fn calls(records: &Records) -> Vec<Call> {
    let call = |((number, compat), count): ((u32, bool), CallCount)| Call {
        name: call_names::name(number, compat),
        number,
        compat,
        calls: count.calls,
        errors: count.errors,
        again: count.again,
    };
    records.calls().into_iter().map(call).collect()
}

/// What is missing from counts, or (`blurs`) only moves the border between two parts of time.
pub fn losses(records: &Records, blurs: bool) -> BTreeMap<String, u64> {
    let losses = records.losses().into_iter().filter(|(loss, _)| loss.is_blur() == blurs);
    losses.map(|(loss, count)| (loss.name().to_owned(), count)).collect()
}

/// All together; nothing is all zeros.
pub fn sum_parts<'a>(mut parts: impl Iterator<Item = &'a Parts>) -> Parts {
    let first = parts.next().copied().unwrap_or_default();
    parts.fold(first, |sum, parts| add_parts(&sum, parts))
}

/// All together.
pub fn sum_counts<'a>(mut counts: impl Iterator<Item = &'a Counts>) -> Counts {
    let first = counts.next().copied().unwrap_or_default();
    counts.fold(first, |sum, counts| add_counts(&sum, counts))
}

/// A sum with something unknown is unknown.
fn both(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    left.zip(right).map(|(left, right)| left.saturating_add(right))
}

/// Both together.
pub fn add_parts(left: &Parts, right: &Parts) -> Parts {
    Parts {
        wall_ns: left.wall_ns.saturating_add(right.wall_ns),
        on_cpu_ns: both(left.on_cpu_ns, right.on_cpu_ns),
        user_ns: both(left.user_ns, right.user_ns),
        kernel_ns: both(left.kernel_ns, right.kernel_ns),
        blocked_ns: both(left.blocked_ns, right.blocked_ns),
        run_queue_ns: both(left.run_queue_ns, right.run_queue_ns),
        creation_ns: both(left.creation_ns, right.creation_ns),
        unaccounted_ns: left
            .unaccounted_ns
            .zip(right.unaccounted_ns)
            .map(|(left, right)| left.saturating_add(right)),
    }
}

/// Both together.
pub fn add_counts(left: &Counts, right: &Counts) -> Counts {
    Counts {
        syscalls: both(left.syscalls, right.syscalls),
        futex_waits: both(left.futex_waits, right.futex_waits),
        futex_wakes: both(left.futex_wakes, right.futex_wakes),
        futex_wait_slept: both(left.futex_wait_slept, right.futex_wait_slept),
        futex_wait_again: both(left.futex_wait_again, right.futex_wait_again),
        futex_wait_timed_out: both(left.futex_wait_timed_out, right.futex_wait_timed_out),
        futex_wait_interrupted: both(left.futex_wait_interrupted, right.futex_wait_interrupted),
        voluntary_switches: both(left.voluntary_switches, right.voluntary_switches),
        involuntary_switches: both(left.involuntary_switches, right.involuntary_switches),
        threads_created: both(left.threads_created, right.threads_created),
        processes_created: both(left.processes_created, right.processes_created),
        migrations: both(left.migrations, right.migrations),
    }
}
