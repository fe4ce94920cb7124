//! Threads that do nothing: what creating and joining one costs.

use std::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::Result;

use super::pthread;
use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "thread-create",
    summary: "the price of a thread that does nothing: clone, its wait for a CPU, exit and join",
    op: "one pthread_create and pthread_join of a thread that returns its argument",
    claim: Claim::OneThreadPerOp,
    default_ops: 10_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct ThreadCreate {
    creators: usize,
    returned: AtomicU64,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(ThreadCreate { creators: settings.threads, returned: AtomicU64::new(0) }))
}

extern "C" fn nothing(argument: *mut c_void) -> *mut c_void {
    argument
}

/// Creates a thread, joins it, and tells whether it returned its argument.
fn create_and_join(argument: usize) -> Result<bool> {
    let argument = ptr::without_provenance_mut(argument);
    // SAFETY: the start routine touches nothing.
    let returned = unsafe { pthread::create_and_join(nothing, argument)? };
    Ok(returned == argument)
}

impl Workload for ThreadCreate {
    fn crew(&self) -> Vec<Role> {
        Role::threads("creator", self.creators)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let mut done = 0;
        let mut returned = 0;
        let outcome = ops.each(|| {
            done += 1;
            returned += u64::from(create_and_join(done)?);
            Ok(())
        });
        self.returned.fetch_add(returned, Ordering::Relaxed);
        outcome
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let returned = self.returned.load(Ordering::Relaxed);
        SelfCheck {
            passed: returned == ops,
            detail: format!("{returned} threads returned their argument (expected {ops})"),
        }
    }
}
