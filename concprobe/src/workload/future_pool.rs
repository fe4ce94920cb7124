//! Futures whose values come from a pool: no thread is made for any of them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Result;

use super::{
    job_queue::JobQueue,
    one_shot::OneShot,
    task::{self, Tasks},
    worker_pool::workers,
};
use crate::harness::{Claim, CrewSize, Entry, Ops, Parameter, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "future-pool",
    summary: "the price of a value from a pool's thread: a hand-over and a wake-up, but no thread",
    op: "one task handed to the pool, and the wait for its result",
    claim: Claim::CreatesNoThread,
    default_ops: 20_000,
    crew: CrewSize::OneMoreThan("workers"),
    parameters: &[workers("2"), Parameter { default: "10", ..task::WORK }],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct FuturePool {
    tasks: Tasks,
    queue: JobQueue<Arc<OneShot<u64>>>,
    /// Phases that each worker has begun.
    phases: Vec<AtomicU64>,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let phases = (0..settings.count("workers")?).map(|_| AtomicU64::new(0)).collect();
    Ok(Box::new(FuturePool { tasks: Tasks::new(settings)?, queue: JobQueue::new(), phases }))
}

impl FuturePool {
    fn serve(&self, phase: u64) {
        while let Some(promise) = self.queue.take(phase) {
            promise.set(self.tasks.perform());
            self.queue.done();
        }
    }
}

impl Workload for FuturePool {
    fn crew(&self) -> Vec<Role> {
        let workers = Role::threads("worker", self.phases.len()).into_iter().map(Role::supporting);
        [Role::thread("caller")].into_iter().chain(workers).collect()
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        if let Some(worker) = member.checked_sub(1) {
            self.serve(self.phases[worker].fetch_add(1, Ordering::Relaxed) + 1);
            return Ok(());
        }
        let called = ops.each(|| {
            let future = Arc::new(OneShot::new());
            self.queue.push([Arc::clone(&future)]);
            self.tasks.add(future.get());
            Ok(())
        });
        self.queue.end_phase();
        called
    }

    fn check(&self, ops: u64) -> SelfCheck {
        self.tasks.check(ops)
    }
}
