//! What a comparison is decided by: tests, intervals and estimates over plain samples. Pure functions that
//! know nothing of the program. The distributions come from `statrs`, which has neither a bootstrap nor the
//! signed-rank test; no other maintained crate has.

mod bootstrap;
mod looks;
mod power;
mod rank_sum;
mod signed_rank;
mod trend;

pub use bootstrap::{Resampling, ratio_of_medians};
pub use looks::{FIRST as FIRST_LOOK, LEVEL, MOST_PAIRS, level, looks};
pub use power::{pairs_for, pairs_needed};
pub use rank_sum::rank_sum;
pub use signed_rank::{Location, least_p, location, signed_rank};
pub use trend::{Trend, trend};

/// The quantile at `part` (0 to 1), between neighbours in proportion (type 7 of Hyndman and Fan, 1996);
/// `None` of nothing.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = part.clamp(0.0, 1.0) * last as f64;
    #[expect(clippy::cast_sign_loss, reason = "a part of a count is not negative")]
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * (at - at.floor()))
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// A standard deviation that a few wild values do not change: 1.4826 times the median absolute deviation,
/// which is the standard deviation where values are normally distributed. Where more than half of the
/// values are equal, the ordinary one.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let robust = 1.4826 * median(&deviations)?;
    if robust > 0.0 || values.len() < 2 {
        return Some(robust);
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// How probable it is that one value of each, taken at random, orders the other way than claimed, over all
/// pairs of values; equal ones count half. `None` of nothing.
pub fn reversal(left: &[f64], right: &[f64], left_is_less: bool) -> Option<f64> {
    let pairs = left.len() * right.len();
    if pairs == 0 {
        return None;
    }
    let against = |left: f64, right: f64| match left.total_cmp(&right) {
        std::cmp::Ordering::Equal => 0.5,
        order => f64::from(u8::from((order == std::cmp::Ordering::Less) != left_is_less)),
    };
    let sum: f64 = left.iter().flat_map(|left| right.iter().map(|right| against(*left, *right))).sum();
    Some(sum / pairs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours_in_proportion() {
        // R: quantile(c(1, 2, 4, 8), c(0, .25, .5, .75, 1)) is 1.00 1.75 3.00 5.00 8.00
        for (part, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.75, 5.0), (1.0, 8.0)] {
            assert_eq!(quantile(&[8.0, 1.0, 4.0, 2.0], part), Some(expected));
        }
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&[7.0]), Some(7.0));
    }

    #[test]
    fn one_wild_value_does_not_change_the_spread() {
        // Deviations from 3 are 2, 1, 0, 1 and 997: their median is 1.
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0, 1000.0]), Some(1.4826));
        assert_eq!(spread(&[5.0]), Some(0.0));
        // Most are equal: the ordinary one, sqrt(12 / 3) = 2 of 0, 0, 0 and 4.
        assert_eq!(spread(&[0.0, 0.0, 0.0, 4.0]), Some(2.0));
    }

    #[test]
    fn a_reversal_is_counted_over_all_pairs() {
        // Of the 9 pairs of {1, 4, 6} and {3, 5, 7} three have the left one greater: 4>3, 6>3, 6>5.
        let (left, right) = ([1.0, 4.0, 6.0], [3.0, 5.0, 7.0]);
        assert_eq!(reversal(&left, &right, true), Some(3.0 / 9.0));
        assert_eq!(reversal(&left, &right, false), Some(6.0 / 9.0));
        // Equal ones count half: of {1, 2} and {2, 3}, only 2 against 2.
        assert_eq!(reversal(&[1.0, 2.0], &[2.0, 3.0], true), Some(0.5 / 4.0));
        assert_eq!(reversal(&[], &[1.0], true), None);
    }

    #[test]
    fn a_bimodal_side_reverses_as_often_as_its_slow_mode_comes() {
        // The left side is 10 or, one time in four, 100; the right side is always 20.
        let left = [10.0, 10.0, 100.0, 10.0];
        assert_eq!(reversal(&left, &[20.0; 5], true), Some(0.25));
    }
}
