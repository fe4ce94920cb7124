//! A deferred future: it runs on the caller when its value is asked for, and needs no thread.

use std::hint::black_box;

use anyhow::Result;

use super::task::{self, Tasks};
use crate::harness::{Claim, CrewSize, Entry, Ops, Parameter, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "future-deferred",
    summary: "the price of a future that runs on the caller when asked: that of its task",
    op: "one deferred task, made and asked for its result",
    claim: Claim::CreatesNoThread,
    default_ops: 1_000_000,
    crew: CrewSize::Threads(1),
    parameters: &[Parameter { default: "10", ..task::WORK }],
    unavailable: None,
    build,
};

/// What is to be done when the value is asked for.
struct Deferred<'a>(Box<dyn FnOnce() -> u64 + 'a>);

impl Deferred<'_> {
    fn get(self) -> u64 {
        (self.0)()
    }
}

#[derive(Debug)]
struct FutureDeferred {
    threads: usize,
    tasks: Tasks,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(FutureDeferred { threads: settings.threads, tasks: Tasks::new(settings)? }))
}

impl Workload for FutureDeferred {
    fn crew(&self) -> Vec<Role> {
        Role::threads("caller", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let mut sum = 0_u64;
        ops.batched(|| {
            let future = black_box(Deferred(Box::new(|| self.tasks.perform())));
            sum = sum.wrapping_add(future.get());
        })?;
        self.tasks.add(sum);
        Ok(())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        self.tasks.check(ops)
    }
}
