//! A pool whose tasks wait for something outside: more workers than cores are of use.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use anyhow::Result;

use super::worker_pool::{Job, WorkerPool, workers};
use crate::harness::{Claim, CrewSize, Entry, Kind, Parameter, SelfCheck};

pub(super) static ENTRY: Entry = Entry {
    name: "pool-io",
    summary: "the price of a task that waits, on a pool: many workers wait at the same time",
    op: "one task, from asking the queue for it to having slept --wait in it",
    claim: Claim::SometimesSleeps,
    default_ops: 400,
    crew: CrewSize::OneMoreThan("workers"),
    parameters: &[
        workers("8"),
        Parameter { name: "wait", help: "How long one task waits", default: "1ms", kind: Kind::Duration },
    ],
    unavailable: None,
    build: |settings| {
        let waits = Waits { wait: settings.duration("wait")?, done: AtomicU64::new(0) };
        Ok(Box::new(WorkerPool::new(settings, waits)?))
    },
};

#[derive(Debug)]
struct Waits {
    wait: Duration,
    done: AtomicU64,
}

impl Job for Waits {
    fn perform(&self) -> Result<()> {
        thread::sleep(self.wait);
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn check(&self, jobs: u64) -> SelfCheck {
        let done = self.done.load(Ordering::Relaxed);
        SelfCheck { passed: done == jobs, detail: format!("{done} tasks have waited (expected {jobs})") }
    }
}
