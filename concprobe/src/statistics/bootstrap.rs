//! The bootstrap interval of a ratio of medians (Efron 1979), by percentiles. No maintained crate has one:
//! criterion keeps its own to itself. The corrected variant (BCa) would need a jackknife, which fails for
//! medians (Efron and Tibshirani 1993, 11.6).

use fastrand::Rng;

/// Samples drawn for an interval.
const RESAMPLES: usize = 2_000;

/// How samples are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resampling {
    /// Both values of a pair together, as they were measured together.
    Pairs,
    /// Each side by itself.
    Sides,
}

/// The interval of `median(right) / median(left)` that holds `confidence` of the resampled ratios; `None`
/// when there are not two values of each.
pub fn ratio_of_medians(
    left: &[f64],
    right: &[f64],
    resampling: Resampling,
    confidence: f64,
    random: &mut Rng,
) -> Option<(f64, f64)> {
    let paired = resampling == Resampling::Pairs;
    if left.len() < 2 || right.len() < 2 || (paired && left.len() != right.len()) {
        return None;
    }
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let of_left: Vec<usize> = left.iter().map(|_| random.usize(..left.len())).collect();
        let of_right: Vec<usize> = if paired {
            of_left.clone()
        } else {
            right.iter().map(|_| random.usize(..right.len())).collect()
        };
        let drawn = |values: &[f64], which: &[usize]| {
            super::median(&which.iter().map(|index| values[*index]).collect::<Vec<f64>>())
        };
        let ratio = drawn(right, &of_right)? / drawn(left, &of_left)?;
        if ratio.is_finite() {
            ratios.push(ratio);
        }
    }
    let outside = (1.0 - confidence) / 2.0;
    super::quantile(&ratios, outside).zip(super::quantile(&ratios, 1.0 - outside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(left: &[f64], right: &[f64], resampling: Resampling) -> Option<(f64, f64)> {
        ratio_of_medians(left, right, resampling, 0.95, &mut Rng::with_seed(7))
    }

    #[test]
    fn a_constant_ratio_has_no_width() {
        let left: Vec<f64> = (1..=9).map(f64::from).collect();
        let right: Vec<f64> = left.iter().map(|value| value * 3.0).collect();
        assert_eq!(interval(&left, &right, Resampling::Pairs), Some((3.0, 3.0)));
        let (low, high) = interval(&left, &right, Resampling::Sides).unwrap();
        assert!(low < 3.0 && high > 3.0, "drawn apart, the sides vary");
    }

    #[test]
    fn the_interval_of_a_median_of_three_is_that_of_all_its_resamples() {
        // Of the 27 draws from {1, 2, 3}, 7 have the median 1 and 7 the median 3: both beyond 2.5 %.
        let interval = interval(&[1.0; 3], &[1.0, 2.0, 3.0], Resampling::Sides);
        assert_eq!(interval, Some((1.0, 3.0)));
    }

    #[test]
    fn a_single_value_has_no_interval() {
        assert_eq!(interval(&[1.0], &[2.0], Resampling::Pairs), None);
        assert_eq!(interval(&[1.0, 2.0], &[2.0], Resampling::Sides), None);
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_ratio() {
        let mut random = Rng::with_seed(3);
        let mut held = 0;
        for _ in 0..200 {
            let mut side = |scale: f64| -> Vec<f64> {
                // A sum of uniform values is close to normal.
                (0..20).map(|_| scale * (10.0 + (0..6).map(|_| random.f64() - 0.5).sum::<f64>())).collect()
            };
            let (left, right) = (side(1.0), side(1.25));
            let (low, high) = interval(&left, &right, Resampling::Sides).unwrap();
            held += i32::from(low <= 1.25 && 1.25 <= high);
        }
        // Binomial(200, 0.95) has a standard deviation of 3.1; intervals of medians are a little too wide.
        assert!((180..=200).contains(&held), "{held}");
    }
}
