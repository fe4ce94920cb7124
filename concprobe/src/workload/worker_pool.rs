//! Workers that take tasks from a queue, and a supporting member that hands them in: what the workloads
//! with a pool share.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::Result;

use super::job_queue::JobQueue;
use crate::{
    clock,
    harness::{Kind, Ops, Parameter, Role, SelfCheck, Settings, Workload},
};

/// Tasks handed in at once.
const CHUNK: u64 = 64;
/// Chunks handed in between two waits, so that a run limited by its duration hands in no more than it can do.
const CHUNKS: u64 = 16;

/// `--workers`, with that default.
pub(super) const fn workers(default: &'static str) -> Parameter {
    Parameter { name: "workers", help: "Threads of the pool", default, kind: Kind::Count(1, 1_024) }
}

/// What the pool's workers do.
pub(super) trait Job: Debug + Sync {
    /// Does one of them.
    fn perform(&self) -> Result<()>;

    /// Whether that many were done.
    fn check(&self, jobs: u64) -> SelfCheck;
}

/// The workload: member 0 hands in, the others work.
#[derive(Debug)]
pub(super) struct WorkerPool<T> {
    job: T,
    queue: JobQueue<()>,
    /// Phases that each worker has begun.
    phases: Vec<AtomicU64>,
}

impl<T: Job> WorkerPool<T> {
    /// As many workers as `--workers` says.
    pub(super) fn new(settings: &Settings, job: T) -> Result<Self> {
        let phases = (0..settings.count("workers")?).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { job, queue: JobQueue::new(), phases })
    }

    fn hand_in(&self, ops: &mut Ops<'_>) {
        let start_ns = clock::now_ns();
        let mut left = ops.wanted();
        while left > 0 && !ops.expired() {
            for _ in 0..CHUNKS {
                let chunk = left.min(CHUNK);
                self.queue.push((0..chunk).map(|_| ()));
                left -= chunk;
            }
            self.queue.wait_until_done(|| ops.expired());
        }
        ops.extra_time("all tasks of a phase", clock::elapsed_ns(start_ns));
        self.queue.end_phase();
    }
}

impl<T: Job> Workload for WorkerPool<T> {
    fn crew(&self) -> Vec<Role> {
        let mut crew = vec![Role::thread("submitter").supporting()];
        crew.extend(Role::threads("worker", self.phases.len()));
        crew
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let Some(worker) = member.checked_sub(1) else {
            self.hand_in(ops);
            return Ok(());
        };
        let phase = self.phases[worker].fetch_add(1, Ordering::Relaxed) + 1;
        ops.while_given(|| {
            if self.queue.take(phase).is_none() {
                return Ok(false);
            }
            let performed = self.job.perform();
            self.queue.done();
            performed.map(|()| true)
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        self.job.check(ops)
    }
}
