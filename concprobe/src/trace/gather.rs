//! Puts what the kernel programs summed and what was read of the processes together.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use concprobe_common::{
    block::{Block, Counter, EndedKey, EndedNamed, Loss, place},
    histogram::Kind,
    site::Pair,
};

use super::{
    End, Of, Plan,
    copies::Copies,
    lock_calls::Slice,
    places::{self, Place},
    rows,
    subject::Subject,
};
use crate::{
    clock, diagnose,
    environment::Environment,
    figures::{self, Look},
    harness::SelfCheck,
    latencies,
    observation::{
        Call, Depth, Latencies, Probe,
        trace::{Creation, Memory, Polling, SCHEMA, Thread, Trace},
    },
    probe::Session,
    run::peak_bytes,
};

/// Calls in vain from which on a thread counts as polling.
const POLLS: u64 = 1_000;

/// Everything that a look yielded.
pub(super) struct Harvest<'a> {
    pub(super) plan: &'a Plan,
    pub(super) environment: Environment,
    pub(super) session: Session,
    pub(super) copies: Option<Copies>,
    pub(super) subject: Subject,
    pub(super) end: End,
    pub(super) started_ns: u64,
    pub(super) stopped_ns: u64,
    pub(super) slice: Option<Slice>,
    /// What this kernel cannot.
    pub(super) limits: Vec<String>,
}

/// What the kernel programs had summed when the look ended.
struct Snapshot {
    blocks: Vec<(Block, u64)>,
    ended: Vec<(EndedKey, EndedNamed)>,
    places: Vec<Place>,
    /// Which thread slept where.
    sleepers: Vec<Pair>,
    losses: BTreeMap<String, u64>,
    blurs: BTreeMap<String, u64>,
    latency: Latencies,
    life: Latencies,
    calls: Vec<Call>,
    missed: u64,
}

impl Snapshot {
    fn take(session: &Session, stopped_ns: u64) -> Result<Self> {
        let records = session.records();
        Ok(Self {
            blocks: records.blocks(|| stopped_ns),
            ended: session.ended_named()?,
            sleepers: session.sleepers()?,
            places: records.sites().map(|(index, site)| Place::of(index, &site)).collect(),
            losses: figures::losses(records, false),
            blurs: figures::losses(records, true),
            latency: latencies::of_kernel(&records.histogram(Kind::Creation)),
            life: latencies::of_kernel(&records.histogram(Kind::Life)),
            calls: figures::calls(records),
            missed: session.cost().missed,
        })
    }
}

/// The whole result.
///
/// # Errors
/// When the kernel's tables cannot be read.
pub(super) fn observation(harvest: &mut Harvest<'_>) -> Result<Trace> {
    let Harvest { plan, environment, session, copies, subject, end, started_ns, stopped_ns, slice, limits } =
        harvest;
    let snapshot = Snapshot::take(session, *stopped_ns)?;
    subject.learn(session, &snapshot.blocks);
    subject.look_at_the_unseen(&snapshot.blocks);
    // What follows takes its time, and a program that goes on need not pay for it.
    session.detach_all();
    let look = Look::of(Some(session), plan.depth == Depth::Calls);
    let Snapshot { blocks, ended, places, losses, blurs, .. } = snapshot;
    let mut threads: Vec<Thread> =
        blocks.iter().map(|(block, now)| rows::of_block(block, *now, subject, look)).collect();
    threads.extend(ended.iter().map(|(key, sums)| rows::of_ended(key, sums, look)));
    let processes = rows::processes(&threads, &blocks, &ended, subject);
    if let Some(copies) = copies {
        copies.close(&open_copies(&blocks));
    }
    let tids: HashSet<u32> = blocks.iter().map(|(block, _)| block.tid).collect();
    let sleepers = |sites: &[u32]| {
        let there = snapshot.sleepers.iter().filter(|pair| sites.contains(&pair.site));
        there.map(|pair| pair.tid).collect::<HashSet<_>>().len()
    };
    let found = places::places(places, &blocks, &tids, copies.as_mut(), subject, look, sleepers);
    let sum = |counter: Counter| -> u64 {
        let of_blocks: u64 = blocks.iter().map(|(block, _)| block.counters[counter as usize]).sum();
        of_blocks + ended.iter().map(|(_, sums)| sums.counters[counter as usize]).sum::<u64>()
    };
    let creation = Creation {
        threads: sum(Counter::ThreadsCreated),
        processes: sum(Counter::ProcessesCreated),
        latency: snapshot.latency,
        life: snapshot.life,
        clone_ns: sum(Counter::CloneNs),
        first_run_wait_ns: sum(Counter::FirstRunWaitNs),
        creators: copies.as_mut().map(Copies::creators).unwrap_or_default(),
    };
    let mut trace = Trace {
        schema: SCHEMA.to_owned(),
        concprobe: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: clock::wall_s(*started_ns),
        command: match &plan.of {
            Of::Command { command, .. } => {
                Some(command.iter().map(|word| word.to_string_lossy().into_owned()).collect())
            }
            Of::Process(_) => None,
        },
        pid: subject.pid(),
        parameters: parameters(plan),
        warnings: environment.warnings(),
        environment: environment.clone(),
        depth: plan.depth,
        stacks: plan.stacks,
        attached_by: session.way().name().to_owned(),
        interrupted_by: end.signal,
        exit: end.exit,
        wall_ns: stopped_ns.saturating_sub(*started_ns),
        parts: figures::sum_parts(threads.iter().map(|thread| &thread.parts)),
        counts: figures::sum_counts(threads.iter().map(|thread| &thread.counts)),
        processes,
        polling: look.calls.then(|| polling(&threads)),
        locks: found.locks,
        sleeps: found.sleeps,
        creation,
        calls: plan.count_by_number.then_some(snapshot.calls),
        lock_calls: None,
        stack_copies: copies.as_ref().map(|copies| {
            let lost = |loss: Loss| blurs.get(loss.name()).copied().unwrap_or(0);
            copies.counts(lost(Loss::NoStack) + lost(Loss::UnreadStack))
        }),
        not_visible: Vec::new(),
        lost: losses.values().sum(),
        losses,
        blurs,
        probe_cost_ns_per_event: None,
        probe: Probe { timed_runs: 0, timed_ns: 0, missed_runs: Some(snapshot.missed) },
        memory: Memory { map_bytes: session.map_bytes(), driver_peak_bytes: peak_bytes("self") },
        threads,
        self_check: SelfCheck { passed: true, detail: String::new() },
        verdict: Vec::new(),
        unavailable: BTreeMap::new(),
    };
    trace.warnings.append(limits);
    match slice.take().map(Slice::result) {
        Some(Ok(calls)) => trace.lock_calls = Some(calls),
        Some(Err(reason)) => {
            trace.warnings.push(format!("calls of lock functions were not counted: {reason}"));
        }
        None => {}
    }
    if let Some(reason) = copies.as_ref().and_then(|copies| copies.limited.as_ref()) {
        trace.warnings.push(format!(
            "what programs map is read from /proc only, so stacks of processes that end soon may have no \
             names: {reason}"
        ));
    }
    trace.threads.sort_by_key(|thread| std::cmp::Reverse(thread.parts.wall_ns));
    diagnose::trace::judge(&mut trace);
    Ok(trace)
}

/// Sleeps that have no end yet and whose stacks were copied: how long they last.
fn open_copies(blocks: &[(Block, u64)]) -> HashMap<u64, u64> {
    blocks
        .iter()
        .filter(|(block, _)| block.stack_id != 0 && matches!(block.place, place::BLOCKED | place::UNSEEN))
        .map(|(block, now)| (block.stack_id, now.saturating_sub(block.since_ns)))
        .collect()
}

fn parameters(plan: &Plan) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    let mut set = |name: &str, value: String| parameters.insert(name.to_owned(), value);
    set("depth", plan.depth.name().to_owned());
    set("stacks", plan.stacks.to_string());
    set("syscalls", plan.count_by_number.to_string());
    set("follow", plan.follow.to_string());
    set(
        "duration",
        plan.duration.map_or_else(|| "none".to_owned(), |time| humantime::format_duration(time).to_string()),
    );
    set("max-threads", plan.max_threads.to_string());
    set("max-locks", plan.max_locks.to_string());
    parameters
}

/// Threads whose calls mostly yield nothing, the most first.
fn polling(threads: &[Thread]) -> Vec<Polling> {
    let mut polling: Vec<Polling> = threads
        .iter()
        .filter_map(|thread| {
            let in_vain = thread.calls_again? + thread.empty_polls? - again_of_waits(thread);
            let calls = thread.counts.syscalls?;
            (in_vain >= POLLS && in_vain * 2 >= calls).then(|| Polling {
                thread: thread.name.clone(),
                host_tid: thread.host_tid,
                in_vain,
                calls,
                on_cpu_ns: thread.parts.on_cpu_ns.unwrap_or(0),
                cpus: thread.parts.on_cpu_ns.unwrap_or(0) as f64 / thread.parts.wall_ns.max(1) as f64,
            })
        })
        .collect();
    polling.sort_by_key(|polling| std::cmp::Reverse(polling.in_vain));
    polling
}

/// A futex wait whose value had changed is no poll.
fn again_of_waits(thread: &Thread) -> u64 {
    let again = thread.counts.futex_wait_again.unwrap_or(0);
    again.min(thread.calls_again.unwrap_or(0))
}
