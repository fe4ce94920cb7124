//! Tasks on a user-space scheduler: many tasks on few threads, which are made once.

use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Runtime};

use super::{
    task::{self, Tasks},
    worker_pool::workers,
};
use crate::harness::{Claim, CrewSize, Entry, Ops, Parameter, Role, SelfCheck, Settings, Workload};

/// Tasks that are spawned, and then awaited, together.
const TOGETHER: u64 = 100;

pub(super) static ENTRY: Entry = Entry {
    name: "tokio-tasks",
    summary: "the price of a task on a user-space scheduler (tokio): no thread for any of them",
    op: "one task spawned and awaited, timed a hundred at a time; the runtime's threads are made in the warm-up",
    claim: Claim::CreatesNoThread,
    default_ops: 100_000,
    crew: CrewSize::Fixed(1),
    parameters: &[workers("2"), Parameter { default: "10", ..task::WORK }],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct TokioTasks {
    workers: usize,
    tasks: &'static Tasks,
    runtime: OnceLock<Runtime>,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    // The tasks live as long as the process, as spawned futures demand.
    let tasks = Box::leak(Box::new(Tasks::new(settings)?));
    let workers = usize::try_from(settings.count("workers")?)?;
    Ok(Box::new(TokioTasks { workers, tasks, runtime: OnceLock::new() }))
}

impl TokioTasks {
    /// Made by the member itself, so that its threads are tracked as the member's.
    fn runtime(&self) -> Result<&Runtime> {
        if self.runtime.get().is_none() {
            let runtime = Builder::new_multi_thread()
                .worker_threads(self.workers)
                .build()
                .context("cannot start a tokio runtime")?;
            // Nobody else sets it: the crew is one thread.
            let _ = self.runtime.set(runtime);
        }
        self.runtime.get().context("the runtime is gone")
    }
}

impl Workload for TokioTasks {
    fn crew(&self) -> Vec<Role> {
        vec![Role::thread("spawner")]
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let runtime = self.runtime()?;
        let mut left = ops.wanted();
        while left > 0 && !ops.expired() {
            let together = left.min(TOGETHER);
            ops.bulk(together, || {
                runtime.block_on(async {
                    let spawned: Vec<_> =
                        (0..together).map(|_| tokio::spawn(async { self.tasks.perform() })).collect();
                    for task in spawned {
                        self.tasks.add(task.await.context("a task panicked")?);
                    }
                    Ok(())
                })
            })?;
            left -= together;
        }
        Ok(())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        self.tasks.check(ops)
    }
}
