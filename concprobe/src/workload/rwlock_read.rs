//! A reader-writer lock that nobody writes: what reading under it costs, alone or beside other readers.

use std::{
    hint::black_box,
    sync::{PoisonError, RwLock},
};

use anyhow::Result;

use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "rwlock-read",
    summary: "the price of a read lock without writers: more readers share a cache line, but never sleep",
    op: "one read lock and unlock of a std::sync::RwLock, all threads on the same one",
    claim: Claim::NeverEntersKernel,
    default_ops: 10_000_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

/// What the readers find.
const WRITTEN: u64 = 42;

#[derive(Debug)]
struct RwlockRead {
    threads: usize,
    lock: RwLock<u64>,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(RwlockRead { threads: settings.threads, lock: RwLock::new(WRITTEN) }))
}

impl Workload for RwlockRead {
    fn crew(&self) -> Vec<Role> {
        Role::threads("reader", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        ops.batched(|| {
            black_box(*self.lock.read().unwrap_or_else(PoisonError::into_inner));
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let found = self.lock.try_write().ok().map(|value| *value);
        let free = if found.is_some() { "free" } else { "still held" };
        SelfCheck {
            passed: found == Some(WRITTEN),
            detail: format!("after {ops} reads the lock is {free} (expected free)"),
        }
    }
}
