//! Threads that all want one lock: the op, its parameters and the self-check that the lock workloads share.

use std::hint::black_box;

use anyhow::Result;

use crate::harness::{Kind, Ops, Parameter, Role, SelfCheck, Settings, Workload};

/// How long a thread is in the lock, and outside it.
pub(super) static PARAMETERS: [Parameter; 2] = [
    Parameter {
        name: "section",
        help: "Iterations of an empty loop while holding the lock",
        default: "200",
        kind: Kind::Count(0, 1_000_000_000),
    },
    Parameter {
        name: "think",
        help: "Iterations of an empty loop before taking the lock",
        default: "200",
        kind: Kind::Count(0, 1_000_000_000),
    },
];

/// What [`PARAMETERS`] say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    section: u64,
    think: u64,
}

impl Lengths {
    /// Reads them.
    pub(super) fn of(settings: &Settings) -> Result<Self> {
        Ok(Self { section: settings.count("section")?, think: settings.count("think")? })
    }

    /// The time in the lock.
    #[inline]
    pub(super) fn section(self) {
        busy(self.section);
    }

    /// The time outside.
    #[inline]
    pub(super) fn think(self) {
        busy(self.think);
    }
}

#[inline]
fn busy(iterations: u64) {
    for iteration in 0..iterations {
        black_box(iteration);
    }
}

/// A lock around a number.
pub(super) trait Lock: Default + Sync + 'static {
    /// Runs `section` while holding the lock.
    fn locked<R>(&self, section: impl FnOnce(&mut u64) -> R) -> R;
}

/// The workload: each op takes the lock once.
#[derive(Debug)]
struct Contention<L> {
    lock: L,
    threads: usize,
    lengths: Lengths,
}

/// Builds the workload for a lock.
pub(super) fn build<L: Lock>(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Contention {
        lock: L::default(),
        threads: settings.threads,
        lengths: Lengths::of(settings)?,
    }))
}

impl<L: Lock> Workload for Contention<L> {
    fn crew(&self) -> Vec<Role> {
        Role::threads("locker", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        ops.each(|| {
            self.lengths.think();
            self.lock.locked(|number| {
                // Read and written at the two ends of the section: a second thread inside would lose a count.
                let before = black_box(*number);
                self.lengths.section();
                *number = before + 1;
            });
            Ok(())
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let counted = self.lock.locked(|number| *number);
        SelfCheck {
            passed: counted == ops,
            detail: format!("the number under the lock counted {counted} ops (expected {ops})"),
        }
    }
}
