//! A tiny task by asynchronous call, with a thread of its own: a price a hundred times that of the task.

use super::{future_thread::FutureThread, task};
use crate::harness::{Claim, CrewSize, Entry, Parameter};

pub(super) static ENTRY: Entry = Entry {
    name: "async-tasks",
    summary: "the price of a tiny task by asynchronous call, a thread and a future for each",
    op: "one call: a thread that performs the task and fulfils a promise, the wait for the result, the join",
    claim: Claim::OneThreadPerOp,
    default_ops: 5_000,
    crew: CrewSize::Threads(1),
    parameters: &[Parameter { default: "10", ..task::WORK }],
    unavailable: None,
    build: |settings| Ok(Box::new(FutureThread::new(settings.threads, settings.count(task::WORK.name)?))),
};
