//! A promise fulfilled by a new thread each time: mostly the price of the thread.

use super::future_thread::FutureThread;
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "future-handoff",
    summary: "the price of a value from a new thread: what is dear is the thread, not the future",
    op: "one promise, a thread that fulfils it, the wait for its value, and the join",
    claim: Claim::OneThreadPerOp,
    default_ops: 5_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build: |settings| Ok(Box::new(FutureThread::new(settings.threads, 0))),
};
