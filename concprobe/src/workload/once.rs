//! An initialisation that is done already: what asking whether it is costs.

use std::{
    hint::black_box,
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Result;

use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "once",
    summary: "the price of std::sync::Once when it is done already: one load",
    op: "one Once::call_once that need not call",
    claim: Claim::NeverEntersKernel,
    default_ops: 10_000_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct OnceDone {
    threads: usize,
    once: Once,
    initialised: AtomicU64,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let workload = OnceDone { threads: settings.threads, once: Once::new(), initialised: AtomicU64::new(0) };
    workload.call();
    Ok(Box::new(workload))
}

impl OnceDone {
    #[inline]
    fn call(&self) {
        black_box(&self.once).call_once(|| {
            self.initialised.fetch_add(1, Ordering::Relaxed);
        });
    }
}

impl Workload for OnceDone {
    fn crew(&self) -> Vec<Role> {
        Role::threads("caller", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        ops.batched(|| self.call())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let initialised = self.initialised.load(Ordering::Relaxed);
        SelfCheck {
            passed: initialised == 1,
            detail: format!("in {ops} calls the initialisation ran {initialised} times (expected 1)"),
        }
    }
}
