//! A future that is fulfilled after a while, and ways to wait for it.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::Result;

use super::{
    one_shot::OneShot,
    watched::{self, Watched},
};
use crate::harness::{Ops, Parameter, Role, SelfCheck, Settings, Workload};

/// `--delay`, 50 ms.
pub(super) const DELAY: Parameter = Parameter { default: "50ms", ..watched::DELAY };

/// The value of each promise.
const VALUE: u64 = 123;

/// How one waits for the value.
pub(super) trait Wait: Debug + Sync {
    /// Waits, and adds up the times that it woke in vain.
    fn get(&self, future: &OneShot<u64>, in_vain: &mut u64) -> u64;
}

/// The workload: one member waits, a supporting one fulfils the promise after the delay.
#[derive(Debug)]
pub(super) struct FutureLate<W> {
    wait: W,
    watched: Watched,
    promise: OneShot<u64>,
    right: AtomicU64,
}

/// A workload that waits in that way.
pub(super) fn build<W: Wait + 'static>(settings: &Settings, wait: W) -> Result<Box<dyn Workload>> {
    let workload = Box::new(FutureLate {
        wait,
        watched: Watched::new(settings.duration(DELAY.name)?),
        promise: OneShot::new(),
        right: AtomicU64::new(0),
    });
    workload.watched.init()?;
    Ok(workload)
}

impl<W: Wait> Workload for FutureLate<W> {
    fn crew(&self) -> Vec<Role> {
        vec![Role::thread("waiter"), Role::thread("promiser").supporting()]
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        if member == 1 {
            while self.watched.next_begins() {
                self.watched.watch(ops)?;
                self.promise.set(VALUE);
            }
            return Ok(());
        }
        self.watched.enter();
        let mut in_vain = 0;
        ops.each(|| {
            self.watched.begin();
            let value = self.wait.get(&self.promise, &mut in_vain);
            self.right.fetch_add(u64::from(value == VALUE), Ordering::Relaxed);
            Ok(())
        })?;
        self.watched.finish();
        if in_vain > 0 {
            ops.extra_count("timeouts", in_vain);
        }
        Ok(())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let right = self.right.load(Ordering::Relaxed);
        SelfCheck {
            passed: right == ops,
            detail: format!("{right} futures returned {VALUE} (expected {ops})"),
        }
    }
}
