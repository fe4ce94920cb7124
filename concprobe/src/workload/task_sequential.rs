//! Tasks on the caller, one after the other: what they cost without any thread.

use anyhow::Result;

use super::task::{Tasks, WORK};
use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "task-sequential",
    summary: "the price of a task by itself, on the thread that wants it done",
    op: "one task",
    claim: Claim::NeverEntersKernel,
    default_ops: 20_000,
    crew: CrewSize::Threads(1),
    parameters: &[WORK],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct TaskSequential {
    threads: usize,
    tasks: Tasks,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(TaskSequential { threads: settings.threads, tasks: Tasks::new(settings)? }))
}

impl Workload for TaskSequential {
    fn crew(&self) -> Vec<Role> {
        Role::threads("worker", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let mut sum = 0_u64;
        ops.batched(|| sum = sum.wrapping_add(self.tasks.perform()))?;
        self.tasks.add(sum);
        Ok(())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        self.tasks.check(ops)
    }
}
