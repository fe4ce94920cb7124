//! What the figures mean: consistency checks, warnings, and a verdict whose sentences carry the figures.
//! Reads the observation only.

pub mod claim;
pub mod compare;
pub mod trace;

use std::collections::BTreeMap;

use crate::{
    harness::{Claim, SelfCheck},
    observation::{Depth, Observation, Parts},
    units::{count, duration_ns, per_op_ps, share},
};

/// A thread's parts must add up to its wall time within this.
const CONSERVATION: f64 = 0.01;
/// The deeper look changed the figure when the two differ by more than this.
const DEPTH_EFFECT: f64 = 0.10;

/// Whether workload and measurement are consistent.
pub fn check(observation: &Observation, workload: Option<&SelfCheck>) -> SelfCheck {
    let mut passed = true;
    let mut details = Vec::new();
    match workload {
        Some(check) => {
            passed &= check.passed;
            details.push(check.detail.clone());
        }
        None => details.push("the workload ended before its own check".to_owned()),
    }
    if observation.depth.is_some() {
        let classed: u64 = observation.classes.measured().map(|(_, class)| class.count).sum();
        passed &= classed == observation.ops;
        details.push(format!(
            "{} of {} ops lie in exactly one class",
            count(classed),
            count(observation.ops)
        ));
        let worst = worst_imbalance(observation.threads.iter().map(|thread| &thread.parts));
        passed &= worst <= CONSERVATION;
        details.push(format!(
            "on-CPU, blocked and run-queue add up to each thread's wall time within {}",
            share(worst)
        ));
    }
    SelfCheck { passed, detail: details.join("; ") }
}

/// The greatest part of a wall time that does not add up.
fn worst_imbalance<'a>(parts: impl Iterator<Item = &'a Parts>) -> f64 {
    parts
        .filter(|parts| parts.wall_ns > 0)
        .filter_map(|parts| Some(parts.unaccounted_ns?.unsigned_abs() as f64 / parts.wall_ns as f64))
        .fold(0.0, f64::max)
}

/// Key → why it is `null`.
pub fn unavailable(observation: &Observation) -> BTreeMap<String, String> {
    let mut reasons = BTreeMap::new();
    let mut say = |keys: &[&str], reason: &str| {
        for key in keys {
            reasons.insert((*key).to_owned(), reason.to_owned());
        }
    };
    say(&["locks"], "locks are looked at by trace and attach");
    const BY_CALL: &[&str] = &[
        "counts.syscalls",
        "counts.futex_waits",
        "counts.futex_wakes",
        "counts.futex_wait_again",
        "counts.futex_wait_timed_out",
        "counts.futex_wait_interrupted",
        "parts.user_ns",
        "parts.kernel_ns",
        "classes.fast",
        "classes.kernel",
    ];
    match observation.depth {
        None => {
            let reason = "needs the kernel programs, which --no-bpf leaves out";
            say(BY_CALL, reason);
            say(
                &[
                    "classes.preempted",
                    "classes.slept",
                    "classes.created",
                    "counts.futex_wait_slept",
                    "counts.threads_created",
                    "counts.processes_created",
                    "counts.migrations",
                    "parts.creation_ns",
                    "parts.unaccounted_ns",
                    "creation",
                    "intervals",
                    "lost",
                ],
                reason,
            );
            if observation.parts.run_queue_ns.is_none() {
                say(
                    &["parts.blocked_ns", "parts.run_queue_ns"],
                    "the kernel keeps no /proc/thread-self/schedstat",
                );
            }
        }
        Some(Depth::Switches) => {
            say(BY_CALL, "depth switches does not look at system calls; use --depth calls");
            if observation.counts.futex_wait_slept.is_none() {
                say(
                    &["counts.futex_wait_slept"],
                    "this kernel does not show its programs a sleeping thread's registers (Linux 5.15 does)",
                );
            }
        }
        Some(Depth::Calls) => {}
    }
    if observation.probe_cost_ns_per_event.is_none() {
        let reason = if observation.depth.is_none() {
            "there were no kernel programs"
        } else if observation.parameters.get("warmup").is_some_and(|time| time == "0s") {
            "the programs are timed during the warm-up, and there was none"
        } else {
            "the kernel did not let its programs be timed (BPF_ENABLE_STATS)"
        };
        say(&["probe_cost_ns_per_event"], reason);
    }
    if observation.calls.is_none() {
        say(&["calls"], "calls are counted by number with --syscalls");
    }
    reasons
}

/// What the measurement itself has to warn of.
pub fn warnings(observation: &Observation) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(lost(observation.lost.unwrap_or(0), &observation.losses));
    warnings.extend(left_out(observation.probe.and_then(|probe| probe.missed_runs)));
    if let Some(batches) = observation.batches.as_ref().filter(|batches| batches.undisturbed < 1_000) {
        warnings.push(format!(
            "only {} undisturbed batches of {} ops: the spread needs 1,000; raise --ops",
            count(batches.undisturbed),
            count(batches.ops)
        ));
    }
    if let Some(creation) = observation.creation.filter(|creation| creation.unordered > 0) {
        warnings.push(format!(
            "{} creating ops had time stamps out of order and are left out of the parts of creation",
            count(creation.unordered)
        ));
    }
    if let Some((calls, switches)) = depth_effect(observation) {
        warnings.push(format!(
            "looking at every system call changed the figure: {} an op, against {} at depth switches; \
             for the time itself use --depth switches",
            per_op_ps(calls),
            per_op_ps(switches)
        ));
    }
    warnings
}

/// What to say of what is missing.
fn lost(lost: u64, losses: &BTreeMap<String, u64>) -> Option<String> {
    let causes: Vec<String> = losses
        .iter()
        .filter(|(_, events)| **events > 0)
        .map(|(cause, events)| format!("{cause} {events}"))
        .collect();
    (lost > 0)
        .then(|| format!("{} events were lost, so counts are too low: {}", count(lost), causes.join(", ")))
}

/// What to say of runs of the programs that the kernel left out.
fn left_out(missed_runs: Option<u64>) -> Option<String> {
    let missed = missed_runs.filter(|missed| *missed > 0)?;
    Some(format!(
        "the kernel left out {} runs of the kernel programs, which would have interrupted another one; what that \
         hid is counted under losses or blurs",
        count(missed)
    ))
}

/// The two figures, where they differ by more than the repetitions do among themselves.
fn depth_effect(observation: &Observation) -> Option<(u64, u64)> {
    let check = observation.depth_check?;
    let effect = check.calls_per_op_ps as f64 / check.switches_per_op_ps.max(1) as f64;
    let noise = check.calls_worst_per_op_ps as f64 / check.calls_per_op_ps.max(1) as f64;
    (effect > (1.0 + DEPTH_EFFECT).max(noise)).then_some((check.calls_per_op_ps, check.switches_per_op_ps))
}

/// A few sentences that a person can act on, the most important first.
pub fn verdict(observation: &Observation) -> Vec<String> {
    let mut sentences = vec![price(observation)];
    if observation.estimate {
        sentences.push(
            "This is an estimate: without the kernel programs it is not known which ops slept, or whether \
             any entered the kernel."
                .to_owned(),
        );
        return sentences;
    }
    sentences.push(claim::sentence(observation));
    sentences.extend(where_time_went(observation));
    sentences.extend(creation(observation));
    sentences
}

/// What an op costs, with its spread over the repetitions.
fn price(observation: &Observation) -> String {
    if let Some(batches) = &observation.batches
        && let (Some(min), Some(p50), Some(p99)) = (batches.min_ps, batches.p50_ps, batches.p99_ps)
    {
        return format!(
            "An op costs {} at best, {} in the median and {} at the 99th percentile of {} batches.",
            per_op_ps(min),
            per_op_ps(p50),
            per_op_ps(p99),
            count(batches.undisturbed)
        );
    }
    let per_op = || observation.repetitions.iter().filter(|one| one.ops > 0).map(|one| one.per_op_ps);
    match (per_op().min(), per_op().max()) {
        (Some(best), Some(worst)) => format!(
            "An op costs {} of wall time in the best of {} repetitions ({} in the worst).",
            per_op_ps(best),
            observation.repetitions.len(),
            per_op_ps(worst)
        ),
        _ => "No op was measured.".to_owned(),
    }
}

fn share_of(part: u64, whole: u64) -> String {
    if whole == 0 { share(0.0) } else { share(part as f64 / whole as f64) }
}

/// Whether the cost is the primitive, the sleeping or the scheduler.
fn where_time_went(observation: &Observation) -> Option<String> {
    let parts = &observation.parts;
    let (on_cpu, blocked, run_queue) = (parts.on_cpu_ns?, parts.blocked_ns?, parts.run_queue_ns?);
    let of_wall = |part: u64| share_of(part, parts.wall_ns);
    let cause = if observation.claim == Claim::OneThreadPerOp {
        return None; // the parts of creation say more
    } else if run_queue > blocked.max(on_cpu) {
        "The cost is the scheduler: most time passed waiting for a CPU, so fewer threads than CPUs would help"
    } else if blocked > on_cpu {
        "The cost is the sleeping: most time passed asleep, so what avoids the sleep (batches, slots, \
         spinning for a moment) helps, not a cheaper primitive"
    } else if parts.kernel_ns.is_some_and(|kernel| kernel > on_cpu / 2) {
        "The cost is the system calls and switches on the CPU, not the waiting"
    } else {
        "The cost is the primitive itself, in user space"
    };
    let kernel =
        parts.kernel_ns.map_or_else(String::new, |kernel| format!(" ({} in system calls)", of_wall(kernel)));
    Some(format!(
        "{cause}: on-CPU {}{kernel}, blocked {}, run-queue {} of {}.",
        of_wall(on_cpu),
        of_wall(blocked),
        of_wall(run_queue),
        duration_ns(parts.wall_ns)
    ))
}

fn creation(observation: &Observation) -> Option<String> {
    let creation = observation.creation.filter(|creation| creation.ops > 0)?;
    let of_op =
        |part: u64| format!("{} ({})", duration_ns(part / creation.ops), share_of(part, creation.op_ns));
    Some(format!(
        "Of the {} that creating and joining takes, {} is the library's preparation, {} clone, {} the new \
         thread's wait for its first run, {} its exit and the join; a pool pays this once.",
        duration_ns(creation.op_ns / creation.ops),
        of_op(creation.setup_ns),
        of_op(creation.clone_ns),
        of_op(creation.first_run_wait_ns),
        of_op(creation.exit_and_join_ns)
    ))
}
