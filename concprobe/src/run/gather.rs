//! Puts what the members and the kernel programs said together into an observation.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use concprobe_common::{
    block::{Counter, Ended},
    class::Class,
    histogram::Kind,
};

use super::{
    Harvest,
    conversation::{Ending, Trouble, peak_bytes},
};
use crate::{
    diagnose,
    environment::Environment,
    harness::{
        SelfCheck,
        protocol::{BatchResult, Creation, MemberResult},
        tally::{self, Tally},
    },
    latencies,
    observation::{
        Batches, Call, Classes, Counts, CreationParts, Depth, DepthCheck, Footprint, Intervals, Latencies,
        Observation, Parts, Probe, Repetition, SCHEMA, Thread,
    },
    plan::{Length, Plan},
    probe::{Cost, Records, Session},
};

/// What the kernel programs of a run could see.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Every system call.
    calls: bool,
    /// At least the call in which a thread sleeps.
    sleeping_call: bool,
}

impl Look {
    fn of(plan: &Plan, session: Option<&Session>) -> Self {
        let calls = plan.depth == Some(Depth::Calls);
        let registers = session.is_some_and(|session| session.config().has_task_pt_regs != 0);
        Self { calls, sleeping_call: calls || registers }
    }
}

/// Everything that is known of a run.
///
/// # Errors
/// When a histogram of the workload's process cannot be read; that would be a defect.
pub fn observation(
    plan: &Plan,
    environment: Environment,
    session: Option<&Session>,
    harvest: Harvest,
    ending: &Ending,
    started_ns: u64,
) -> Result<Observation> {
    let ops = harvest.ops();
    let repetitions: Vec<Repetition> =
        harvest.repetitions.iter().map(|members| repetition(members)).collect();
    let ended = session.map(|session| session.records().ended());
    let threads = threads(&harvest, ended.as_ref(), Look::of(plan, session));
    let mut observation = Observation {
        schema: SCHEMA.to_owned(),
        concprobe: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        workload: plan.entry.name.to_owned(),
        op: plan.entry.op.to_owned(),
        claim: plan.entry.claim,
        claim_holds: None,
        parameters: parameters(plan),
        warnings: environment.warnings(),
        environment,
        depth: plan.depth,
        attached_by: session.map(|session| session.way().name().to_owned()),
        estimate: session.is_none(),
        interrupted_by: match &harvest.trouble {
            Some(Trouble::Interrupted(signal)) => Some(*signal),
            _ => None,
        },
        ops,
        wall_ns: repetitions.iter().map(|repetition| repetition.wall_ns).sum(),
        classes: classes(&harvest, plan.depth)?,
        latency: overall(&harvest)?,
        batches: batches(&harvest)?,
        parts: sum_parts(&threads),
        counts: sum_counts(&threads),
        creation: creation(&harvest, ended.as_ref()),
        extra_times: extra_times(&harvest)?,
        extra_counts: extra_counts(&harvest),
        intervals: session.map(|session| intervals(session.records())),
        calls: session.filter(|_| plan.count_by_number).map(|session| calls(session.records())),
        threads,
        locks: Vec::new(),
        losses: session.map(|session| losses(session, false)).unwrap_or_default(),
        blurs: session.map(|session| losses(session, true)).unwrap_or_default(),
        lost: None,
        probe_cost_ns_per_event: harvest.timed.and_then(Cost::ns_per_run),
        probe: session.map(|session| Probe {
            timed_runs: harvest.timed.map_or(0, |cost| cost.runs),
            timed_ns: harvest.timed.map_or(0, |cost| cost.run_time_ns),
            missed_runs: Some(session.cost().missed),
        }),
        depth_check: depth_check(&harvest, &repetitions),
        footprint: Footprint {
            start_to_first_op_ns: ending.first_op_ns.checked_sub(started_ns),
            crew_setup_ns: ending.setup_ns,
            driver_peak_bytes: peak_bytes("self"),
            workload_peak_bytes: ending.peak_bytes,
        },
        repetitions,
        self_check: SelfCheck { passed: true, detail: String::new() },
        verdict: Vec::new(),
        unavailable: BTreeMap::new(),
    };
    observation.lost = session.map(|_| observation.losses.values().sum());
    observation.self_check = diagnose::check(&observation, harvest.self_check.as_ref());
    if let Some(trouble) = harvest.trouble.filter(|_| observation.interrupted_by.is_none()) {
        observation.warnings.insert(0, format!("the run ended early: {trouble}"));
        observation.self_check.passed = false;
    }
    observation.claim_holds = diagnose::claim::judge(&observation).holds;
    observation.unavailable = diagnose::unavailable(&observation);
    observation.warnings.extend(diagnose::warnings(&observation));
    observation.verdict = diagnose::verdict(&observation);
    Ok(observation)
}

fn parameters(plan: &Plan) -> BTreeMap<String, String> {
    let mut parameters = plan.settings.parameters.clone();
    let mut set = |name: &str, value: String| parameters.insert(name.to_owned(), value);
    set("threads", plan.settings.threads.to_string());
    match plan.length {
        Length::Ops(ops) => set("ops", ops.to_string()),
        Length::Time(time) => set("duration", humantime::format_duration(time).to_string()),
    };
    set("repeat", plan.repeat.to_string());
    set("warmup", humantime::format_duration(plan.warmup).to_string());
    set("pin", plan.pin.as_deref().map_or_else(|| "none".to_owned(), crate::environment::format_cpu_list));
    set("depth", plan.depth.map_or("none", Depth::name).to_owned());
    parameters
}

fn repetition(members: &[MemberResult]) -> Repetition {
    let ops: u64 = members.iter().map(|member| member.ops).sum();
    let start = members.iter().map(|member| member.start_ns).min().unwrap_or(0);
    let end = members.iter().map(|member| member.end_ns).max().unwrap_or(0);
    let wall_ns = end.saturating_sub(start);
    let per_op_ps = u128::from(wall_ns) * 1_000 / u128::from(ops.max(1));
    Repetition { ops, wall_ns, per_op_ps: u64::try_from(per_op_ps).unwrap_or(u64::MAX) }
}

fn depth_check(harvest: &Harvest, repetitions: &[Repetition]) -> Option<DepthCheck> {
    let switches = repetition(harvest.depth_check.as_ref()?);
    let calls = || repetitions.iter().filter(|repetition| repetition.ops > 0).map(|one| one.per_op_ps);
    Some(DepthCheck {
        calls_per_op_ps: calls().min()?,
        calls_worst_per_op_ps: calls().max()?,
        switches_per_op_ps: switches.per_op_ps,
    })
}

/// The tallies of one class over all members and repetitions.
fn merged(harvest: &Harvest, wanted: &[Class]) -> Result<Tally> {
    let mut total = Tally::default();
    for member in harvest.repetitions.iter().flatten() {
        for class in wanted {
            if let Some(Some(tally)) = member.classes.get(*class as usize) {
                total.merge(tally)?;
            }
        }
    }
    Ok(total)
}

fn classes(harvest: &Harvest, depth: Option<Depth>) -> Result<Classes> {
    let class = |class| latencies::of_tally(&merged(harvest, &[class])?).map(Some);
    let mut classes = Classes::default();
    let Some(depth) = depth else { return Ok(classes) };
    classes.preempted = class(Class::Preempted)?;
    classes.slept = class(Class::Slept)?;
    classes.created = class(Class::Created)?;
    match depth {
        Depth::Calls => {
            classes.fast = class(Class::Fast)?;
            classes.kernel = class(Class::Kernel)?;
        }
        Depth::Switches => classes.not_switched = class(Class::Fast)?,
    }
    Ok(classes)
}

fn overall(harvest: &Harvest) -> Result<Option<Latencies>> {
    let all = merged(harvest, &Class::ALL)?;
    (all.count > 0).then(|| latencies::of_tally(&all)).transpose()
}

fn batches(harvest: &Harvest) -> Result<Option<Batches>> {
    let all: Vec<&BatchResult> =
        harvest.repetitions.iter().flatten().filter_map(|member| member.batches.as_ref()).collect();
    let Some(first) = all.first() else { return Ok(None) };
    let mut histogram = tally::empty_histogram();
    for batches in &all {
        let decoded = tally::decode(&batches.histogram)?;
        histogram.add(&decoded).map_err(|error| anyhow::anyhow!("cannot merge histograms: {error:?}"))?;
    }
    let undisturbed: u64 = all.iter().map(|batches| batches.undisturbed).sum();
    let some = |value: u64| (undisturbed > 0).then_some(value);
    let max = all.iter().map(|batches| batches.max_ps).max().unwrap_or(0);
    let min = all.iter().map(|batches| batches.min_ps).min().unwrap_or(0);
    let percentile = |percent: f64| some(histogram.value_at_percentile(percent).clamp(min, max.max(min)));
    Ok(Some(Batches {
        ops: first.ops,
        empty_ps: first.empty_ps,
        undisturbed,
        disturbed: all.iter().map(|batches| batches.disturbed).sum(),
        min_ps: some(min),
        p50_ps: percentile(50.0),
        p99_ps: percentile(99.0),
        max_ps: some(max),
        histogram: Some(tally::encode(&histogram)?),
    }))
}

fn creation(harvest: &Harvest, ended: Option<&Ended>) -> Option<CreationParts> {
    let mut sum = Creation::default();
    for member in harvest.repetitions.iter().flatten() {
        sum.add(&member.creation);
    }
    (sum.ops + sum.unordered > 0).then_some(CreationParts {
        ops: sum.ops,
        unordered: sum.unordered,
        op_ns: sum.op_ns,
        setup_ns: sum.setup_ns,
        clone_ns: sum.clone_ns,
        first_run_wait_ns: sum.first_run_wait_ns,
        exit_and_join_ns: sum.exit_and_join_ns,
        exit_ns: ended.map(|ended| ended.wall_ns.saturating_sub(ended.counters[Counter::LifeNs as usize])),
    })
}

fn extra_times(harvest: &Harvest) -> Result<BTreeMap<String, Latencies>> {
    let mut sums: BTreeMap<&str, Tally> = BTreeMap::new();
    for (name, tally) in harvest.repetitions.iter().flatten().flat_map(|member| &member.extras.times) {
        sums.entry(name).or_default().merge(tally)?;
    }
    sums.iter().map(|(name, tally)| Ok(((*name).to_owned(), latencies::of_tally(tally)?))).collect()
}

fn extra_counts(harvest: &Harvest) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in harvest.repetitions.iter().flatten().flat_map(|member| &member.extras.counts) {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

fn intervals(records: &Records) -> Intervals {
    let of = |kind| latencies::of_kernel(&records.histogram(kind));
    Intervals { blocked: of(Kind::Blocked), run_queue: of(Kind::RunQueue), creation: of(Kind::Creation) }
}

fn calls(records: &Records) -> Vec<Call> {
    let call = |(number, count): (u32, concprobe_common::block::CallCount)| Call {
        number,
        calls: count.calls,
        errors: count.errors,
        again: count.again,
    };
    records.calls().into_iter().map(call).collect()
}

/// What is missing from counts, or (`blurs`) only moves the border between two parts of time.
fn losses(session: &Session, blurs: bool) -> BTreeMap<String, u64> {
    let losses = session.records().losses().into_iter().filter(|(loss, _)| loss.is_blur() == blurs);
    losses.map(|(loss, count)| (loss.name().to_owned(), count)).collect()
}

/// A row for each member, summed over the repetitions, and one for the threads that they created.
fn threads(harvest: &Harvest, ended: Option<&Ended>, look: Look) -> Vec<Thread> {
    let mut rows: Vec<Thread> = Vec::new();
    for member in harvest.repetitions.iter().flatten() {
        let row = member_row(member, look);
        match rows.iter_mut().find(|known| known.name == row.name && known.tid == row.tid) {
            Some(known) => {
                known.ops += row.ops;
                known.parts = add_parts(&known.parts, &row.parts);
                known.counts = add_counts(&known.counts, &row.counts);
            }
            None => rows.push(row),
        }
    }
    if let Some(ended) = ended.filter(|ended| ended.threads > 0) {
        rows.push(Thread {
            name: "ended threads".to_owned(),
            tid: None,
            supports: false,
            threads: ended.threads,
            ops: 0,
            parts: parts(ended.wall_ns, &ended.counters, look),
            counts: counts(&ended.counters, look),
        });
    }
    rows
}

fn member_row(member: &MemberResult, look: Look) -> Thread {
    let wall_ns = member.end_ns.saturating_sub(member.start_ns);
    let (parts, counts) = match &member.counters {
        Some(counters) => (parts(wall_ns, counters, look), counts(counters, look)),
        None => estimated(member, wall_ns),
    };
    Thread {
        name: member.name.clone(),
        tid: Some(member.tid),
        supports: member.supports,
        threads: 1,
        ops: member.ops,
        parts,
        counts,
    }
}

fn parts(wall_ns: u64, counters: &[u64], look: Look) -> Parts {
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

fn counts(counters: &[u64], look: Look) -> Counts {
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

/// What can be said without kernel programs: what was neither running nor waiting for a CPU was blocked.
fn estimated(member: &MemberResult, wall_ns: u64) -> (Parts, Counts) {
    let estimate = &member.estimate;
    let blocked_ns =
        estimate.run_queue_ns.map(|waited| wall_ns.saturating_sub(estimate.on_cpu_ns).saturating_sub(waited));
    let parts = Parts {
        wall_ns,
        on_cpu_ns: Some(estimate.on_cpu_ns),
        blocked_ns,
        run_queue_ns: estimate.run_queue_ns,
        ..Parts::default()
    };
    let counts = Counts {
        voluntary_switches: Some(estimate.voluntary),
        involuntary_switches: Some(estimate.involuntary),
        ..Counts::default()
    };
    (parts, counts)
}

fn sum_parts(threads: &[Thread]) -> Parts {
    let parts: Vec<Parts> =
        threads.iter().filter(|thread| !thread.supports).map(|thread| thread.parts).collect();
    parts.split_first().map_or_else(Parts::default, |(first, rest)| {
        rest.iter().fold(*first, |sum, parts| add_parts(&sum, parts))
    })
}

fn sum_counts(threads: &[Thread]) -> Counts {
    let counts: Vec<Counts> =
        threads.iter().filter(|thread| !thread.supports).map(|thread| thread.counts).collect();
    counts.split_first().map_or_else(Counts::default, |(first, rest)| {
        rest.iter().fold(*first, |sum, counts| add_counts(&sum, counts))
    })
}

/// A sum with something unknown is unknown.
fn both<T: std::ops::Add<Output = T>>(left: Option<T>, right: Option<T>) -> Option<T> {
    left.zip(right).map(|(left, right)| left + right)
}

fn add_parts(left: &Parts, right: &Parts) -> Parts {
    Parts {
        wall_ns: left.wall_ns + right.wall_ns,
        on_cpu_ns: both(left.on_cpu_ns, right.on_cpu_ns),
        user_ns: both(left.user_ns, right.user_ns),
        kernel_ns: both(left.kernel_ns, right.kernel_ns),
        blocked_ns: both(left.blocked_ns, right.blocked_ns),
        run_queue_ns: both(left.run_queue_ns, right.run_queue_ns),
        creation_ns: both(left.creation_ns, right.creation_ns),
        unaccounted_ns: both(left.unaccounted_ns, right.unaccounted_ns),
    }
}

fn add_counts(left: &Counts, right: &Counts) -> Counts {
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
