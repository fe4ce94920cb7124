//! The test of two samples that are not paired: Mann and Whitney (1947). Exact for few values, where that of
//! `statrs` 0.19.1 cannot be used (for {1…5} and {6…10} it says 1, not 2 in 252); for many, its normal
//! approximation.

use statrs::stats_tests::{
    Alternative,
    mannwhitneyu::{MannWhitneyUMethod, mannwhitneyu},
};

/// Values of both sides together up to which the test is exact.
const EXACT: usize = 60;

/// Two-sided p-value, also with equal values; 1 where one side is empty.
pub fn rank_sum(left: &[f64], right: &[f64]) -> f64 {
    if left.is_empty() || right.is_empty() {
        return 1.0;
    }
    if left.len() + right.len() <= EXACT {
        return exact(left, right);
    }
    let method = MannWhitneyUMethod::AsymptoticInclContinuityCorrection;
    let p_value = mannwhitneyu(left, right, method, Alternative::TwoSided).map_or(1.0, |(_, p)| p);
    // Where all values are equal there is no deviation to divide by.
    if p_value.is_nan() { 1.0 } else { p_value.clamp(0.0, 1.0) }
}

/// Over all ways to choose as many of the ranks as the left side has.
fn exact(left: &[f64], right: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = left.iter().map(|value| (*value, true)).collect();
    all.extend(right.iter().map(|value| (*value, false)));
    all.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    // Twice the rank, so that the mean rank of equal values is whole.
    let mut ranks = Vec::with_capacity(all.len());
    for equal in all.chunk_by(|one, other| one.0 == other.0) {
        let first_and_last = 2 * ranks.len() + 1 + equal.len();
        ranks.extend(std::iter::repeat_n(first_and_last, equal.len()));
    }
    let observed: usize =
        all.iter().zip(&ranks).filter(|((_, is_left), _)| *is_left).map(|(_, rank)| rank).sum();
    let ways = ways(&ranks, left.len());
    let total: f64 = ways.iter().sum();
    let below: f64 = ways[..=observed].iter().sum();
    let above: f64 = ways[observed..].iter().sum();
    (2.0 * below.min(above) / total).min(1.0)
}

/// In how many ways so many of the ranks have each sum.
fn ways(ranks: &[usize], chosen: usize) -> Vec<f64> {
    let sums = ranks.iter().sum::<usize>() + 1;
    let mut ways = vec![vec![0.0; sums]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for count in (1..=chosen).rev() {
            let (fewer, more) = ways.split_at_mut(count);
            let without = &fewer[count - 1][..sums - rank];
            more[0][*rank..].iter_mut().zip(without).for_each(|(with, without)| *with += without);
        }
    }
    ways.swap_remove(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p_value_is_that_of_written_out_cases() {
        // Apart as far as can be: 2 of the C(10, 5) = 252 orders.
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((rank_sum(&low, &high) - 2.0 / 252.0).abs() < 1e-12);
        assert!((rank_sum(&high, &low) - 2.0 / 252.0).abs() < 1e-12);
        // 2 of C(4, 2) = 6.
        assert!((rank_sum(&[1.0, 2.0], &[3.0, 4.0]) - 1.0 / 3.0).abs() < 1e-12);
        // The example in the manual of scipy.stats.mannwhitneyu: exact p = 0.1111.
        let (males, females) = ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0]);
        assert!((rank_sum(&males, &females) - 1.0 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn equal_values_share_their_rank_and_the_test_stays_exact() {
        // Ranks 1, 2.5 | 2.5, 4: the sum 3.5 or less is that of {1, 2.5} and {1, 2.5}: 2 of 6, twice.
        assert!((rank_sum(&[1.0, 2.0], &[2.0, 3.0]) - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn what_says_nothing_has_the_p_value_one() {
        assert_eq!(rank_sum(&[], &[1.0]), 1.0);
        assert_eq!(rank_sum(&[2.0; 5], &[2.0; 9]), 1.0);
        assert_eq!(rank_sum(&[2.0; 50], &[2.0; 50]), 1.0);
        assert_eq!(rank_sum(&[1.0], &[2.0]), 1.0);
    }

    #[test]
    fn the_approximation_meets_the_exact_value_where_it_takes_over() {
        let low: Vec<f64> = (0..30).map(f64::from).collect();
        let high: Vec<f64> = low.iter().map(|value| value + 6.5).collect();
        let (low, high) = ([low, vec![1e3]].concat(), [high, vec![-1.0]].concat());
        assert!((exact(&low, &high) - rank_sum(&low, &high)).abs() < 0.01);
    }
}
