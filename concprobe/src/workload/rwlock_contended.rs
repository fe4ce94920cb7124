//! One thread that writes and others that read under one reader-writer lock: how often either sleeps.

use std::sync::{
    PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Result;

use super::contention::{self, Lengths};
use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "rwlock-contended",
    summary: "a contended std::sync::RwLock, one writer and many readers: how often taking it sleeps",
    op: "think, lock for writing (the first thread) or reading, stay in the section, unlock",
    claim: Claim::SometimesSleeps,
    default_ops: 1_000_000,
    crew: CrewSize::Threads(4),
    parameters: &contention::PARAMETERS,
    unavailable: None,
    build,
};

#[derive(Debug)]
struct RwlockContended {
    threads: usize,
    lengths: Lengths,
    /// The writer counts one at the start of its section and the other at its end.
    pair: RwLock<(u64, u64)>,
    reads: AtomicU64,
    torn: AtomicU64,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(RwlockContended {
        threads: settings.threads,
        lengths: Lengths::of(settings)?,
        pair: RwLock::default(),
        reads: AtomicU64::new(0),
        torn: AtomicU64::new(0),
    }))
}

impl RwlockContended {
    fn write(&self) {
        let mut pair = self.pair.write().unwrap_or_else(PoisonError::into_inner);
        pair.0 += 1;
        self.lengths.section();
        pair.1 += 1;
    }

    /// Whether both counts were the same.
    fn read(&self) -> bool {
        let pair = self.pair.read().unwrap_or_else(PoisonError::into_inner);
        let first = pair.0;
        self.lengths.section();
        first == pair.1
    }
}

impl Workload for RwlockContended {
    fn crew(&self) -> Vec<Role> {
        let readers = Role::threads("reader", self.threads.saturating_sub(1));
        [Role::thread("writer")].into_iter().chain(readers).collect()
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        if member == 0 {
            return ops.each(|| {
                self.lengths.think();
                self.write();
                Ok(())
            });
        }
        let (mut reads, mut torn) = (0, 0);
        ops.each(|| {
            self.lengths.think();
            reads += 1;
            torn += u64::from(!self.read());
            Ok(())
        })?;
        self.reads.fetch_add(reads, Ordering::Relaxed);
        self.torn.fetch_add(torn, Ordering::Relaxed);
        Ok(())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let (first, second) = *self.pair.read().unwrap_or_else(PoisonError::into_inner);
        let [reads, torn] = [&self.reads, &self.torn].map(|count| count.load(Ordering::Relaxed));
        SelfCheck {
            passed: first == second && first + reads == ops && torn == 0,
            detail: format!(
                "{first} writes and {reads} reads (expected {ops} together), {torn} of which saw a write half \
                 done (expected 0)"
            ),
        }
    }
}
