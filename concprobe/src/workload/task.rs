//! The task of the workloads that compare ways to run tasks: some arithmetic whose result is known.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::Result;

use crate::harness::{Kind, Parameter, SelfCheck, Settings};

/// `--task-work`: a task of a microsecond or two.
pub(super) const WORK: Parameter = Parameter {
    name: "task-work",
    help: "Steps of arithmetic in one task",
    default: "1000",
    kind: Kind::Count(0, 1_000_000_000),
};

/// Tasks of one size, and the sum of their results.
#[derive(Debug)]
pub(super) struct Tasks {
    work: u64,
    sum: AtomicU64,
}

impl Tasks {
    /// Tasks as large as `--task-work` says.
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        Ok(Self::of(settings.count(WORK.name)?))
    }

    /// Tasks of that many steps.
    pub(super) fn of(work: u64) -> Self {
        Self { work, sum: AtomicU64::new(0) }
    }

    /// Performs one task and returns its result. (Xorshift, G. Marsaglia, 2003.)
    #[inline]
    pub(super) fn perform(&self) -> u64 {
        let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..black_box(self.work) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state)
    }

    /// Adds the result of one task.
    #[inline]
    pub(super) fn add(&self, result: u64) {
        self.sum.fetch_add(result, Ordering::Relaxed);
    }

    /// Whether the results add up to those of `tasks` tasks.
    pub(super) fn check(&self, tasks: u64) -> SelfCheck {
        let (sum, expected) = (self.sum.load(Ordering::Relaxed), self.perform().wrapping_mul(tasks));
        SelfCheck {
            passed: sum == expected,
            detail: format!("the results of {tasks} tasks sum to {sum:#x} (expected {expected:#x})"),
        }
    }
}
