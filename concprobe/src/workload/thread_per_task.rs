//! A thread for each task: what a program pays that creates threads instead of keeping them.

use std::{ffi::c_void, ptr};

use anyhow::Result;

use super::{
    pthread,
    task::{Tasks, WORK},
};
use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "thread-per-task",
    summary: "the price of a task on a thread made for it: mostly that of the thread",
    op: "one pthread_create and pthread_join of a thread that performs one task",
    claim: Claim::OneThreadPerOp,
    default_ops: 5_000,
    crew: CrewSize::Threads(1),
    parameters: &[WORK],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct ThreadPerTask {
    creators: usize,
    tasks: Tasks,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(ThreadPerTask { creators: settings.threads, tasks: Tasks::new(settings)? }))
}

extern "C" fn perform(tasks: *mut c_void) -> *mut c_void {
    // SAFETY: the creator passes its tasks, and joins this thread before they can go away.
    let tasks = unsafe { &*tasks.cast_const().cast::<Tasks>() };
    tasks.add(tasks.perform());
    ptr::null_mut()
}

impl Workload for ThreadPerTask {
    fn crew(&self) -> Vec<Role> {
        Role::threads("creator", self.creators)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let tasks: *const Tasks = &raw const self.tasks;
        ops.each(|| {
            // SAFETY: the routine only reads the tasks and adds to them atomically; they outlive the join.
            unsafe { pthread::create_and_join(perform, tasks.cast_mut().cast())? };
            Ok(())
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        self.tasks.check(ops)
    }
}
