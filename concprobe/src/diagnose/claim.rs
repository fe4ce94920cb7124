//! Whether what a workload says of itself holds, from the kernel's counts.

use super::share_of;
use crate::{
    harness::Claim,
    observation::Observation,
    units::{count, share},
};

/// A claim about each op holds if at most this part of the ops did otherwise.
const EXCEPTIONS: f64 = 0.01;
/// "Hardly any".
const HARDLY: f64 = 0.05;
/// Waiting asleep may take this part of a core.
const ASLEEP: f64 = 0.01;
/// Waiting awake takes at least this part.
const AWAKE: f64 = 0.95;

/// A claim, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// `None` when it cannot be told here.
    pub holds: Option<bool>,
    /// The figures that say so, or the reason why it cannot be told.
    pub evidence: String,
}

/// Judges the workload's own claim.
pub fn judge(observation: &Observation) -> Judgement {
    let (holds, evidence) = match observation.claim {
        Claim::NeverEntersKernel => never_enters_kernel(observation),
        Claim::EntersKernelWithoutSleep => enters_without_sleep(observation),
        Claim::OneSwitchPerOp => one_switch_per_op(observation),
        Claim::SometimesSleeps => sleeps(observation, |part| part > 0.0),
        Claim::HardlyEverSleeps => sleeps(observation, |part| part <= HARDLY),
        Claim::OneThreadPerOp => one_per_op(observation, "threads", observation.counts.threads_created),
        Claim::OneProcessPerOp => one_per_op(observation, "processes", observation.counts.processes_created),
        Claim::CreatesNoThread => {
            let created = observation.counts.threads_created;
            (created.map(|created| created == 0), format!("{} threads created", known(created)))
        }
        Claim::WaitsAsleep => cpu_time(observation, |part| part <= ASLEEP),
        Claim::BurnsACore => awake(observation),
        Claim::WaitsUninterruptibly => uninterruptibly(observation),
    };
    let holds = holds.filter(|_| observation.ops > 0);
    Judgement { holds, evidence }
}

/// The judgement as a sentence.
pub fn sentence(observation: &Observation) -> String {
    let Judgement { holds, evidence } = judge(observation);
    let word = match holds {
        Some(true) => "holds",
        Some(false) => "does not hold here",
        None => "cannot be judged",
    };
    format!("The claim \"{}\" {word}: {evidence}.", observation.claim.sentence())
}

type Answer = (Option<bool>, String);

fn known(value: Option<u64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), count)
}

fn class(observation: &Observation, wanted: &str) -> u64 {
    observation.classes.measured().filter(|(name, _)| *name == wanted).map(|(_, class)| class.count).sum()
}

fn never_enters_kernel(observation: &Observation) -> Answer {
    let counts = &observation.counts;
    let futex = counts.futex_waits.zip(counts.futex_wakes).map(|(waits, wakes)| waits + wakes);
    let evidence = format!(
        "{} system calls, {} of them futex calls, and {} voluntary switches in {} ops",
        known(counts.syscalls),
        known(futex),
        known(counts.voluntary_switches),
        count(observation.ops)
    );
    let holds = counts.voluntary_switches.map(|switches| switches == 0 && counts.syscalls.unwrap_or(0) == 0);
    (holds, evidence)
}

fn enters_without_sleep(observation: &Observation) -> Answer {
    let slept = class(observation, "slept");
    let fast = class(observation, "fast");
    let calls = observation.counts.syscalls;
    let evidence = format!(
        "{} system calls in {} ops, {} of which slept",
        known(calls),
        count(observation.ops),
        share_of(slept, observation.ops)
    );
    (calls.map(|_| slept + fast <= allowed(observation)), evidence)
}

fn one_switch_per_op(observation: &Observation) -> Answer {
    let (slept, preempted) = (class(observation, "slept"), class(observation, "preempted"));
    let evidence = format!(
        "{} of the ops slept and in {} the thread that was woken took the CPU at once, so that its waker found \
         what it waits for and need not sleep; {} voluntary and {} involuntary switches in {} ops",
        share_of(slept, observation.ops),
        share_of(preempted, observation.ops),
        known(observation.counts.voluntary_switches),
        known(observation.counts.involuntary_switches),
        count(observation.ops)
    );
    let others = observation.ops.saturating_sub(slept + preempted);
    (known_classes(observation).then_some(others <= allowed(observation)), evidence)
}

fn sleeps(observation: &Observation, expected: impl Fn(f64) -> bool) -> Answer {
    let slept = class(observation, "slept");
    let part = slept as f64 / observation.ops.max(1) as f64;
    let evidence = format!("{} of {} ops slept", share(part), count(observation.ops));
    (known_classes(observation).then(|| expected(part)), evidence)
}

fn one_per_op(observation: &Observation, what: &str, created: Option<u64>) -> Answer {
    let evidence = format!("{} {what} created in {} ops", known(created), count(observation.ops));
    (created.map(|created| created == observation.ops), evidence)
}

fn cpu_time(observation: &Observation, expected: impl Fn(f64) -> bool) -> Answer {
    let parts = &observation.parts;
    let part = parts.on_cpu_ns.map(|on_cpu| on_cpu as f64 / parts.wall_ns.max(1) as f64);
    let evidence = format!("{} of a core", part.map_or_else(|| "n/a".to_owned(), share));
    (part.map(expected), evidence)
}

/// Time in the run queue is time that the waiter would have burnt, had it had the CPU.
fn awake(observation: &Observation) -> Answer {
    let parts = &observation.parts;
    let figures = parts.on_cpu_ns.zip(parts.run_queue_ns).map(|(on_cpu, run_queue)| {
        let available = parts.wall_ns.saturating_sub(run_queue).max(1);
        (on_cpu as f64 / available as f64, run_queue)
    });
    let evidence = match figures {
        Some((part, _)) => format!("{} of the core, while it had one", share(part)),
        None => "n/a".to_owned(),
    };
    (figures.map(|(part, _)| part >= AWAKE), evidence)
}

fn uninterruptibly(observation: &Observation) -> Answer {
    let seen = |state: &str| observation.extra_counts.get(&format!("state {state}")).copied().unwrap_or(0);
    let (uninterruptible, all) = (seen("D"), ["R", "S", "D"].map(seen).iter().sum::<u64>());
    let evidence = format!("state D in {} of {} looks", count(uninterruptible), count(all));
    ((all > 0).then_some(uninterruptible > 0), evidence)
}

fn known_classes(observation: &Observation) -> bool {
    observation.classes.slept.is_some()
}

fn allowed(observation: &Observation) -> u64 {
    // A part of a count, so it is neither negative nor too large.
    #[expect(clippy::cast_sign_loss, reason = "a product of two positive numbers")]
    let allowed = (observation.ops as f64 * EXCEPTIONS) as u64;
    allowed
}
