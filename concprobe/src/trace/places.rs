//! Where threads slept: from the kernel's sites to locks and other sleeps.

use std::collections::{BTreeMap, HashSet};

use concprobe_common::{
    block::{Block, place},
    site::{COMPAT, CallSum, FUTEX, NO_CALL, OVERFLOW, Site, SiteKey, SiteSum},
};

use super::{
    copies::Copies,
    kind::{self, Evidence},
    subject::Subject,
};
use crate::{
    call_names,
    figures::Look,
    latencies,
    observation::trace::{Kind, Lock, Sleep, Sleeps},
};

/// From this mean length on, a wait that excludes nobody is for work that is not there.
const IDLE_NS: u64 = 1_000_000;

/// A site as it was when the look ended.
#[derive(Debug)]
pub(super) struct Place {
    index: u32,
    key: SiteKey,
    first_ns: u64,
    operation: u32,
    value: u32,
    tgid: u32,
    calls: [u64; CallSum::COUNT],
    sleeps: Sleeps,
}

impl Place {
    /// Everything about a site but the names that belong to it.
    pub(super) fn of(index: u32, site: &Site) -> Self {
        let sum = |sum: SiteSum| site.sums[sum as usize];
        Self {
            index,
            key: site.key,
            first_ns: site.first_ns,
            operation: site.operation,
            value: site.value,
            tgid: site.tgid,
            calls: site.calls,
            sleeps: Sleeps {
                slept: site.blocked.count(),
                threads: sum(SiteSum::Threads),
                limited: sum(SiteSum::Limited),
                blocked: latencies::of_spread(&site.blocked, sum(SiteSum::BlockedNs)),
                run_queue: latencies::of_spread(&site.run_queue, sum(SiteSum::RunQueueNs)),
                ..Sleeps::default()
            },
        }
    }
}

/// Everything that is told of the places.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) locks: Vec<Lock>,
    pub(super) sleeps: Vec<Sleep>,
}

/// Sleeps that had no end: how many, and for how long, by site.
fn open_sleeps(blocks: &[(Block, u64)]) -> BTreeMap<u32, (u64, u64)> {
    let mut open: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (block, now) in blocks {
        if block.site != 0 && matches!(block.place, place::BLOCKED | place::UNSEEN) {
            let (sleeps, time) = open.entry(block.site - 1).or_default();
            *sleeps += 1;
            *time += now.saturating_sub(block.since_ns);
        }
    }
    open
}

/// Calls that the blocks of living threads have not yet handed over, by site.
fn kept_calls(blocks: &[(Block, u64)]) -> BTreeMap<u32, [u64; CallSum::COUNT]> {
    let mut kept: BTreeMap<u32, [u64; CallSum::COUNT]> = BTreeMap::new();
    for known in blocks.iter().flat_map(|(block, _)| block.known_sites).filter(|known| known.site != 0) {
        let sums = kept.entry(known.site - 1).or_default();
        for (sum, calls) in sums.iter_mut().zip(known.calls) {
            *sum += calls;
        }
    }
    kept
}

/// The places, the greatest time first.
pub(super) fn places(
    found: Vec<Place>,
    blocks: &[(Block, u64)],
    tids: &HashSet<u32>,
    mut copies: Option<&mut Copies>,
    subject: &Subject,
    look: Look,
) -> Places {
    let open = open_sleeps(blocks);
    let kept = kept_calls(blocks);
    let mut places = Places::default();
    for mut place in found {
        (place.sleeps.open, place.sleeps.open_ns) = open.get(&place.index).copied().unwrap_or_default();
        for (sum, calls) in place.calls.iter_mut().zip(kept.get(&place.index).into_iter().flatten()) {
            *sum += calls;
        }
        if let Some(copies) = copies.as_deref_mut() {
            place.sleeps.waiters = copies.waiters(place.index);
        }
        if place.index != OVERFLOW && place.key.call == FUTEX {
            places.locks.push(lock(place, tids, copies.as_deref_mut(), subject, look));
        } else if place.sleeps.slept > 0 || place.sleeps.open > 0 {
            places.sleeps.push(Sleep { call: call_name(&place), host_pid: place.tgid, sleeps: place.sleeps });
        }
    }
    places.locks = merge_shared(places.locks);
    // What costs comes before what waits for work.
    places.locks.sort_by_key(|lock| (lock.idle, std::cmp::Reverse(lock.sleeps.blocked_ns())));
    places.sleeps.sort_by_key(|sleep| std::cmp::Reverse(sleep.sleeps.blocked_ns()));
    places
}

fn call_name(place: &Place) -> String {
    if place.index == OVERFLOW {
        "beyond the table of places".to_owned()
    } else if place.key.call == NO_CALL {
        call_names::name(NO_CALL, false)
    } else {
        call_names::name(place.key.call & !COMPAT, place.key.call & COMPAT != 0)
    }
}

fn lock(
    place: Place,
    tids: &HashSet<u32>,
    copies: Option<&mut Copies>,
    subject: &Subject,
    look: Look,
) -> Lock {
    let sum = |sum: CallSum| look.calls.then_some(place.calls[sum as usize]);
    let sleeps = &place.sleeps;
    let stacks: Vec<&[String]> = sleeps.waiters.iter().map(|waiter| waiter.frames.as_slice()).collect();
    let private = place.operation & kind::PRIVATE != 0;
    let (name, shared, wakers) = match copies {
        Some(copies) => {
            let (name, shared) = copies.place(subject.own_tid(place.tgid), place.first_ns, place.key.address);
            (name, shared.filter(|_| !private), copies.wakers(place.index))
        }
        None => (format!("{:#x}", place.key.address), None, Vec::new()),
    };
    let (kind, kind_because) = kind::judge(&Evidence {
        name: &name,
        operation: place.operation,
        value: place.value,
        stacks: &stacks,
        tids,
    });
    // Python makes conditions and the joining of threads out of locks at which one thread waits alone.
    let (kind, kind_because) = if kind_because.contains("PyThread_acquire_lock") && sleeps.threads == 1 {
        (Kind::Condition, "one thread alone waits at a lock of Python".to_owned())
    } else {
        (kind, kind_because)
    };
    let mean = sleeps.blocked_ns() / (sleeps.slept + sleeps.open).max(1);
    Lock {
        name,
        kind,
        kind_because,
        idle: !kind.excludes() && mean >= IDLE_NS,
        address: format!("{:#x}", place.key.address),
        host_pid: place.tgid,
        shared,
        operation: kind::operation_name(place.operation),
        waits: sum(CallSum::Waits),
        again: sum(CallSum::Again),
        timed_out: sum(CallSum::TimedOut),
        interrupted: sum(CallSum::Interrupted),
        wakes: sum(CallSum::Wakes),
        wakers,
        sleeps: place.sleeps,
    }
}

/// A word that processes share is one lock, at whatever address each has it.
fn merge_shared(locks: Vec<Lock>) -> Vec<Lock> {
    let mut merged: Vec<Lock> = Vec::new();
    for lock in locks {
        let same = merged.iter_mut().find(|known| lock.shared.is_some() && known.shared == lock.shared);
        match same {
            Some(known) => merge(known, lock),
            None => merged.push(lock),
        }
    }
    merged
}

fn merge(into: &mut Lock, lock: Lock) {
    let add = |left: &mut Option<u64>, right: Option<u64>| *left = left.zip(right).map(|(a, b)| a + b);
    add(&mut into.waits, lock.waits);
    add(&mut into.again, lock.again);
    add(&mut into.timed_out, lock.timed_out);
    add(&mut into.interrupted, lock.interrupted);
    add(&mut into.wakes, lock.wakes);
    weigh(into, lock.sleeps.blocked_ns());
    let mut lock = lock;
    weigh(&mut lock, into.sleeps.blocked_ns());
    let sleeps = &mut into.sleeps;
    sleeps.slept += lock.sleeps.slept;
    sleeps.threads += lock.sleeps.threads;
    sleeps.limited += lock.sleeps.limited;
    sleeps.open += lock.sleeps.open;
    sleeps.open_ns += lock.sleeps.open_ns;
    sleeps.blocked = latencies::merged(&sleeps.blocked, &lock.sleeps.blocked);
    sleeps.run_queue = latencies::merged(&sleeps.run_queue, &lock.sleeps.run_queue);
    sleeps.waiters.extend(lock.sleeps.waiters);
    into.wakers.extend(lock.wakers);
    into.idle &= lock.idle;
}

/// Makes a lock's shares those of a whole to which `others_ns` of others belong too.
fn weigh(lock: &mut Lock, others_ns: u64) {
    let own = lock.sleeps.blocked_ns() as f64;
    let part = if own > 0.0 { own / (own + others_ns as f64) } else { 0.0 };
    lock.sleeps.waiters.iter_mut().for_each(|waiter| waiter.share *= part);
    lock.wakers.iter_mut().for_each(|waker| waker.share *= part);
}
