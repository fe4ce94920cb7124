//! Where threads slept: from the kernel's sites to locks and other sleeps.

use std::collections::{BTreeMap, HashSet};

use concprobe_common::{
    block::{Block, place},
    site::{COMPAT, CallSum, FUTEX, NO_CALL, OVERFLOW, Site, SiteKey, SiteSum},
};

use super::{
    copies::Copies,
    kind::{self, Evidence},
    merge::{self, Word},
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

/// The places, the greatest time first. `sleepers` tells how many threads slept at these sites.
pub(super) fn places(
    found: Vec<Place>,
    blocks: &[(Block, u64)],
    tids: &HashSet<u32>,
    mut copies: Option<&mut Copies>,
    subject: &Subject,
    look: Look,
    sleepers: impl Fn(&[u32]) -> usize,
) -> Places {
    let open = open_sleeps(blocks);
    let kept = kept_calls(blocks);
    let mut places = Places::default();
    let mut words = Vec::new();
    for mut place in found {
        (place.sleeps.open, place.sleeps.open_ns) = open.get(&place.index).copied().unwrap_or_default();
        for (sum, calls) in place.calls.iter_mut().zip(kept.get(&place.index).into_iter().flatten()) {
            *sum += calls;
        }
        if let Some(copies) = copies.as_deref_mut() {
            place.sleeps.waiters = copies.waiters(place.index);
        }
        if place.index != OVERFLOW && place.key.call == FUTEX {
            let (sites, key, operation) = (vec![place.index], place.key, place.operation);
            let lock = lock(place, tids, copies.as_deref_mut(), subject, look);
            words.push(Word { sites, space: key.space, address: key.address, operation, lock });
        } else if place.sleeps.slept > 0 || place.sleeps.open > 0 {
            places.sleeps.push(Sleep { call: call_name(&place), host_pid: place.tgid, sleeps: place.sleeps });
        }
    }
    places.locks = merge::into_locks(words, sleepers);
    // What costs comes before what waits for work.
    places.locks.sort_by_key(|lock| (lock.idle, std::cmp::Reverse(lock.sleeps.blocked_ns())));
    places.sleeps.sort_by_key(|sleep| std::cmp::Reverse(sleep.sleeps.blocked_ns()));
    places
}

fn call_name(place: &Place) -> String {
    if place.index == OVERFLOW {
        Sleep::BEYOND.to_owned()
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
