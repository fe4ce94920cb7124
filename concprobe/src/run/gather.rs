//! Puts what the members and the kernel programs said together into an observation.

use std::collections::BTreeMap;

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
    clock, diagnose,
    environment::Environment,
    figures::{self, Look},
    harness::{
        SelfCheck,
        protocol::{BatchResult, Creation, MemberResult},
        tally::{self, Tally},
    },
    latencies,
    observation::{
        Batches, Classes, Counts, CreationParts, Depth, DepthCheck, Footprint, Intervals, Latencies,
        Observation, Parts, Probe, Repetition, SCHEMA, Thread,
    },
    plan::{Length, Plan},
    probe::{Cost, Records, Session},
};

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
    let look = Look::of(session, plan.depth == Some(Depth::Calls));
    let ended = session.map(|session| session.records().ended());
    let threads = threads(&harvest, ended.as_ref(), look);
    let mut observation = Observation {
        schema: SCHEMA.to_owned(),
        concprobe: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: clock::wall_s(started_ns),
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
        calls: session.filter(|_| plan.count_by_number).map(|session| figures::calls(session.records())),
        threads,
        locks: Vec::new(),
        losses: session.map(|session| figures::losses(session.records(), false)).unwrap_or_default(),
        blurs: session.map(|session| figures::losses(session.records(), true)).unwrap_or_default(),
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

/// A row for each member, summed over the repetitions, and one for the threads that they created.
fn threads(harvest: &Harvest, ended: Option<&Ended>, look: Look) -> Vec<Thread> {
    let mut rows: Vec<Thread> = Vec::new();
    for member in harvest.repetitions.iter().flatten() {
        let row = member_row(member, look);
        match rows.iter_mut().find(|known| known.name == row.name && known.tid == row.tid) {
            Some(known) => {
                known.ops += row.ops;
                known.parts = figures::add_parts(&known.parts, &row.parts);
                known.counts = figures::add_counts(&known.counts, &row.counts);
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
            parts: figures::parts(ended.wall_ns, &ended.counters, look),
            counts: figures::counts(&ended.counters, look),
        });
    }
    rows
}

fn member_row(member: &MemberResult, look: Look) -> Thread {
    let wall_ns = member.end_ns.saturating_sub(member.start_ns);
    let (parts, counts) = match &member.counters {
        Some(counters) => (figures::parts(wall_ns, counters, look), figures::counts(counters, look)),
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
    figures::sum_parts(threads.iter().filter(|thread| !thread.supports).map(|thread| &thread.parts))
}

fn sum_counts(threads: &[Thread]) -> Counts {
    figures::sum_counts(threads.iter().filter(|thread| !thread.supports).map(|thread| &thread.counts))
}
