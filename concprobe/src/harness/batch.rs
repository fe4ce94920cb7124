//! Timing of ops that are cheaper than the clock: in batches so large that reading the clock is under 1 %
//! of one, less the time of the empty loop.

use std::hint::black_box;

use super::tally::empty_histogram;
use crate::clock;

/// The clock may take at most this part of a batch.
const CLOCK_SHARE: u64 = 100;
/// No batch is larger, so that a run of few ops still has many batches.
const LARGEST: u64 = 1 << 20;

/// The size of a batch, and what its empty loop takes.
#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    /// Ops in a batch.
    pub ops: u64,
    /// Loop without an op, picoseconds an iteration.
    pub empty_ps: u64,
}

impl Gauge {
    /// Finds the size for `op`, which it performs some hundred times more than one batch.
    /// Returns the gauge and how many times it performed `op`.
    pub fn find(mut op: impl FnMut()) -> (Self, u64) {
        let least_ns = clock::reading_cost_ns().max(1) * CLOCK_SHARE;
        let mut performed = 0;
        let mut ops = 1;
        while ops < LARGEST {
            // The least of a few, so that one interruption does not pass for a slow op.
            let took_ns = (0..5).map(|_| time(ops, &mut op)).min().unwrap_or(0);
            performed += 5 * ops;
            if took_ns >= least_ns {
                break;
            }
            ops *= 2;
        }
        (Self { ops, empty_ps: empty_loop_ps(ops) }, performed)
    }

    /// Picoseconds of one op of a batch of `ops` that took `took_ns`.
    pub fn op_ps(&self, took_ns: u64, ops: u64) -> u64 {
        (took_ns.saturating_mul(1_000) / ops.max(1)).saturating_sub(self.empty_ps)
    }
}

/// Nanoseconds that `ops` times `op` take.
#[inline]
pub fn time(ops: u64, op: &mut impl FnMut()) -> u64 {
    let start = clock::now_ns();
    for _ in 0..ops {
        op();
    }
    clock::elapsed_ns(start)
}

fn empty_loop_ps(ops: u64) -> u64 {
    let ns = (0..100)
        .map(|_| {
            time(ops, &mut || {
                black_box(());
            })
        })
        .min()
        .unwrap_or(0);
    ns.saturating_mul(1_000) / ops
}

/// Undisturbed batches: the op's time in picoseconds.
#[derive(Clone, Debug)]
pub struct Batches {
    /// How they were measured; `None` when there were none.
    pub gauge: Option<Gauge>,
    /// Batches inside which the kernel was not entered.
    pub undisturbed: u64,
    /// Batches inside which it was.
    pub disturbed: u64,
    /// Least time of an op, picoseconds.
    pub min_ps: u64,
    /// Greatest, picoseconds.
    pub max_ps: u64,
    /// Time of an op for each undisturbed batch, picoseconds.
    pub histogram: hdrhistogram::Histogram<u64>,
}

impl Default for Batches {
    /// No batch yet.
    fn default() -> Self {
        Self {
            gauge: None,
            undisturbed: 0,
            disturbed: 0,
            min_ps: u64::MAX,
            max_ps: 0,
            histogram: empty_histogram(),
        }
    }
}

impl Batches {
    /// Notes an undisturbed batch.
    pub fn record(&mut self, op_ps: u64) {
        self.undisturbed += 1;
        self.min_ps = self.min_ps.min(op_ps);
        self.max_ps = self.max_ps.max(op_ps);
        self.histogram.saturating_record(op_ps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_grows_until_the_clock_does_not_matter() {
        let mut calls = 0_u64;
        let (gauge, performed) = Gauge::find(|| calls += black_box(1));
        assert_eq!(performed, calls);
        assert!(gauge.ops > 64 && gauge.ops <= LARGEST, "{}", gauge.ops);
    }

    #[test]
    fn the_empty_loop_is_taken_off_and_never_makes_a_time_negative() {
        let gauge = Gauge { ops: 1_000, empty_ps: 300 };
        assert_eq!(gauge.op_ps(2_300, 1_000), 2_000);
        assert_eq!(gauge.op_ps(100, 1_000), 0);
        assert_eq!(gauge.op_ps(100, 0), 99_700, "a batch of nothing divides by one");
    }
}
