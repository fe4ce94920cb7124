//! A future whose value comes from a thread made for it: what the workloads with such a thread share.

use std::{sync::Arc, thread};

use anyhow::{Context as _, Result};

use super::{one_shot::OneShot, task::Tasks};
use crate::harness::{Ops, Role, SelfCheck, Workload};

/// The workload: each op makes a thread that performs a task and fulfils a promise with its result.
#[derive(Debug)]
pub(super) struct FutureThread {
    threads: usize,
    tasks: Arc<Tasks>,
}

impl FutureThread {
    /// `threads` callers, and tasks of that many steps.
    pub(super) fn new(threads: usize, work: u64) -> Self {
        Self { threads, tasks: Arc::new(Tasks::of(work)) }
    }

    fn call(&self) -> Result<()> {
        let future = Arc::new(OneShot::new());
        let (promise, tasks) = (Arc::clone(&future), Arc::clone(&self.tasks));
        let producer = thread::Builder::new()
            .spawn(move || promise.set(tasks.perform()))
            .context("cannot create a thread")?;
        self.tasks.add(future.get());
        producer.join().map_err(|_| anyhow::anyhow!("a producer panicked"))
    }
}

impl Workload for FutureThread {
    fn crew(&self) -> Vec<Role> {
        Role::threads("caller", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        ops.each(|| self.call())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        self.tasks.check(ops)
    }
}
