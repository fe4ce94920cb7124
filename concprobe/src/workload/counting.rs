//! Threads that count, each on a counter of its own. The counters' distance is the only thing in which
//! `false-sharing` and `padded` differ.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use crate::harness::{Ops, Role, SelfCheck, Settings, Workload};

/// Counters in a row that fill the two cache lines that processors fetch together.
pub(super) const LINE: usize = 16;

/// Memory for counters that begins where a cache line begins.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line([AtomicU64; LINE]);

#[derive(Debug)]
struct Counting {
    lines: Box<[Line]>,
    threads: usize,
    distance: usize,
}

/// A counter every `distance` words.
pub(super) fn build(settings: &Settings, distance: usize) -> Box<dyn Workload> {
    let lines = (settings.threads * distance).div_ceil(LINE);
    Box::new(Counting {
        lines: (0..lines).map(|_| Line::default()).collect(),
        threads: settings.threads,
        distance,
    })
}

impl Counting {
    fn counter(&self, member: usize) -> &AtomicU64 {
        let word = member * self.distance;
        &self.lines[word / LINE].0[word % LINE]
    }
}

impl Workload for Counting {
    fn crew(&self) -> Vec<Role> {
        Role::threads("counter", self.threads)
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let counter = self.counter(member);
        ops.batched(|| {
            counter.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let sum: u64 = (0..self.threads).map(|member| self.counter(member).load(Ordering::Relaxed)).sum();
        SelfCheck { passed: sum == ops, detail: format!("the counters hold {sum} (expected {ops})") }
    }
}
