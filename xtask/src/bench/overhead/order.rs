//! The order within a round: random, so that what drifts or echoes falls on every tool alike; from a seed, so that a
//! run can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
pub(super) struct Order(u64);

impl Order {
    pub(super) fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed that differs from run to run, short enough to type.
    pub(super) fn new_seed() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(since.subsec_micros())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The numbers below `n` in random order (Fisher and Yates).
    pub(super) fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..n).collect();
        for last in (1..n).rev() {
            #[expect(clippy::cast_possible_truncation, reason = "the remainder is at most `last`")]
            let other = (self.next() % (last as u64 + 1)) as usize;
            numbers.swap(last, other);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_number_once() {
        let mut order = Order::from_seed(7);
        for n in [0, 1, 2, 16] {
            let mut numbers = order.shuffled(n);
            numbers.sort_unstable();
            assert_eq!(numbers, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_seed_repeats_its_orders_and_rounds_differ() {
        let rounds = |seed| {
            let mut order = Order::from_seed(seed);
            [order.shuffled(16), order.shuffled(16)]
        };
        assert_eq!(rounds(3), rounds(3));
        assert_ne!(rounds(3)[0], rounds(3)[1]);
        assert_ne!(rounds(3), rounds(4));
    }
}
