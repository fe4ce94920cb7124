//! Giving the CPU away: what asking the scheduler costs, and the switch if somebody else wants the CPU.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};

use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "sched-yield",
    summary: "the price of asking the scheduler for somebody else to run; with --pin, of switching to them",
    op: "one sched_yield",
    claim: Claim::EntersKernelWithoutSleep,
    default_ops: 1_000_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct SchedYield {
    threads: usize,
    returned: AtomicU64,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(SchedYield { threads: settings.threads, returned: AtomicU64::new(0) }))
}

impl Workload for SchedYield {
    fn crew(&self) -> Vec<Role> {
        Role::threads("yielder", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let mut returned = 0;
        let outcome = ops.each(|| {
            // SAFETY: a plain system call without arguments.
            if unsafe { libc::sched_yield() } != 0 {
                return Err(io::Error::last_os_error()).context("cannot yield");
            }
            returned += 1;
            Ok(())
        });
        self.returned.fetch_add(returned, Ordering::Relaxed);
        outcome
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let returned = self.returned.load(Ordering::Relaxed);
        SelfCheck { passed: returned == ops, detail: format!("{returned} calls returned 0 (expected {ops})") }
    }
}
