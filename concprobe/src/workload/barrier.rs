//! Threads that wait for each other round by round: all but the last to arrive sleep.

use std::{
    cell::{Cell, UnsafeCell},
    io, ptr,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};

use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "barrier",
    summary: "the price of meeting at a pthread barrier: the last to arrive wakes the others",
    op: "one pthread_barrier_wait of one thread",
    claim: Claim::SometimesSleeps,
    default_ops: 200_000,
    crew: CrewSize::Threads(2),
    parameters: &[],
    unavailable: None,
    build,
};

/// The last round is not known yet.
const OPEN: u64 = u64::MAX;

#[derive(Debug)]
struct Barrier {
    raw: UnsafeCell<libc::pthread_barrier_t>,
    threads: u64,
    /// Rounds that the leader counts as ops in this phase. One more follows, which ends the phase.
    last: AtomicU64,
    /// Phases so far.
    phases: AtomicU64,
    /// Arrivals of all threads, in all phases.
    arrived: AtomicU64,
    /// Rounds that were left, by all threads, in all phases.
    left: AtomicU64,
    /// Rounds that somebody left before all had arrived.
    early: AtomicU64,
}

// SAFETY: a barrier is made for being used by many threads at once; the rest is atomic.
unsafe impl Sync for Barrier {}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let threads = u32::try_from(settings.threads)?;
    let barrier = Box::new(Barrier {
        // SAFETY: it is plain memory.
        raw: UnsafeCell::new(unsafe { std::mem::zeroed() }),
        threads: threads.into(),
        last: AtomicU64::new(OPEN),
        phases: AtomicU64::new(0),
        arrived: AtomicU64::new(0),
        left: AtomicU64::new(0),
        early: AtomicU64::new(0),
    });
    // SAFETY: the memory is valid and in its final place, and nobody uses the barrier yet.
    let error = unsafe { libc::pthread_barrier_init(barrier.raw.get(), ptr::null(), threads) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error)).context("cannot initialise a barrier");
    }
    Ok(barrier)
}

impl Barrier {
    /// One round; `rounds` of this thread were before, in all phases.
    #[inline]
    fn cross(&self, rounds: &Cell<u64>) {
        rounds.set(rounds.get() + 1);
        self.arrived.fetch_add(1, Ordering::Relaxed);
        // SAFETY: initialised for as many threads as take part.
        unsafe { libc::pthread_barrier_wait(self.raw.get()) };
        if self.arrived.load(Ordering::Relaxed) < rounds.get() * self.threads {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Workload for Barrier {
    fn crew(&self) -> Vec<Role> {
        Role::threads("waiter", usize::try_from(self.threads).unwrap_or(usize::MAX))
    }

    /// Nobody may wait for one who does not come. So the leader tells how many rounds counted before it
    /// enters one more, and the others enter rounds until they have left that one. Their first does not
    /// count, hence all count the same number.
    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        // Nobody can be a round ahead here: the previous phase ended with a round of all.
        let before = self.left.load(Ordering::Relaxed) / self.threads;
        let rounds = Cell::new(before);
        if member == 0 {
            self.phases.fetch_add(1, Ordering::Relaxed);
            self.last.store(OPEN, Ordering::Relaxed);
            let mut counted = 0;
            ops.each(|| {
                counted += 1;
                self.cross(&rounds);
                Ok(())
            })?;
            self.last.store(counted, Ordering::Release);
            self.cross(&rounds);
        } else {
            self.cross(&rounds);
            ops.follow(
                || rounds.get() - before <= self.last.load(Ordering::Acquire),
                || {
                    self.cross(&rounds);
                    Ok(())
                },
            )?;
        }
        self.left.fetch_add(rounds.get() - before, Ordering::Relaxed);
        Ok(())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let [phases, arrived, left, early] =
            [&self.phases, &self.arrived, &self.left, &self.early].map(|count| count.load(Ordering::Relaxed));
        // Each phase ends with a round that does not count.
        let expected = ops + phases * self.threads;
        SelfCheck {
            passed: early == 0 && arrived == expected && left == expected,
            detail: format!(
                "{arrived} arrivals and {left} departures (expected {expected} each), {early} of which before \
                 all had arrived (expected 0)"
            ),
        }
    }
}
