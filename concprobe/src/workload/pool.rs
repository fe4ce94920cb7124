//! A pool of threads that are there already: what a task costs when no thread is made for it.

use anyhow::Result;

use super::{
    task::{Tasks, WORK},
    worker_pool::{Job, WorkerPool, workers},
};
use crate::harness::{Claim, CrewSize, Entry, SelfCheck};

pub(super) static ENTRY: Entry = Entry {
    name: "pool",
    summary: "the price of a task on a pool of threads that are there already",
    op: "one task, from asking the queue for it to having done it",
    claim: Claim::HardlyEverSleeps,
    default_ops: 100_000,
    crew: CrewSize::OneMoreThan("workers"),
    parameters: &[workers("2"), WORK],
    unavailable: None,
    build: |settings| Ok(Box::new(WorkerPool::new(settings, Tasks::new(settings)?)?)),
};

impl Job for Tasks {
    fn perform(&self) -> Result<()> {
        self.add(Self::perform(self));
        Ok(())
    }

    fn check(&self, jobs: u64) -> SelfCheck {
        Self::check(self, jobs)
    }
}
