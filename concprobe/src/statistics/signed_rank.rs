//! Wilcoxon's signed-rank test (1945), exact, with the estimate and the interval that belong to it (Hodges
//! and Lehmann 1963). Where the order within a pair is drawn at random, its level holds whatever the noise
//! looks like: what is random is the order, and that is known.

/// The middle of differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Location {
    /// Median of the means of all pairs of differences.
    pub estimate: f64,
    /// The interval that the test does not exclude; `None` when there are too few for the level.
    pub interval: Option<(f64, f64)>,
}

/// Two-sided p-value of the differences; exact also with equal ones. Zeros say nothing, and are left out.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let mut ordered: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    ordered.sort_unstable_by(|left, right| left.abs().total_cmp(&right.abs()));
    let ranks = twice_ranks(&ordered);
    let positive = ordered.iter().zip(&ranks).filter(|(difference, _)| **difference > 0.0);
    let observed: usize = positive.map(|(_, rank)| rank).sum();
    let probabilities = null_distribution(&ranks);
    let below: f64 = probabilities[..=observed].iter().sum();
    let above: f64 = probabilities[observed..].iter().sum();
    (2.0 * below.min(above)).min(1.0)
}

/// The least p-value that so many pairs can have: all agree.
pub fn least_p(pairs: usize) -> f64 {
    0.5_f64.powf(pairs as f64 - 1.0).min(1.0)
}

/// Estimate and interval of level `1 - level`; `None` of nothing.
pub fn location(differences: &[f64], level: f64) -> Option<Location> {
    let mut means: Vec<f64> = differences
        .iter()
        .enumerate()
        .flat_map(|(index, left)| differences[index..].iter().map(move |right| left.midpoint(*right)))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let estimate = super::median(&means)?;
    let cut = cut(differences.len(), level);
    let interval = cut.checked_sub(1).map(|index| (means[index], means[means.len() - cut]));
    Some(Location { estimate, interval })
}

/// How many of the means to leave out at either end, plus one: the greatest number below which the
/// statistic is improbable.
fn cut(pairs: usize, level: f64) -> usize {
    let ranks: Vec<usize> = (1..=pairs).collect();
    let mut below = 0.0;
    let improbable = |probability: &f64| {
        below += probability;
        below <= level / 2.0
    };
    null_distribution(&ranks).iter().copied().take_while(improbable).count()
}

/// Twice the rank of each, so that the mean rank of equal ones is whole; ordered by size.
fn twice_ranks(ordered: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(ordered.len());
    for equal in ordered.chunk_by(|left, right| left.abs() == right.abs()) {
        let first = ranks.len() + 1;
        let last = ranks.len() + equal.len();
        ranks.extend(std::iter::repeat_n(first + last, equal.len()));
    }
    ranks
}

/// The probability of each sum of ranks when every sign is as likely as the other.
fn null_distribution(ranks: &[usize]) -> Vec<f64> {
    let mut probabilities = vec![0.0; ranks.iter().sum::<usize>() + 1];
    probabilities[0] = 1.0;
    let mut most = 0;
    for rank in ranks {
        most += rank;
        for sum in (0..=most).rev() {
            let with = sum.checked_sub(*rank).map_or(0.0, |without| probabilities[without]);
            probabilities[sum] = (probabilities[sum] + with) / 2.0;
        }
    }
    probabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn the_p_value_is_that_of_written_out_cases() {
        // All of n positive: 2 of the 2^n signs are as extreme.
        for pairs in 1..12 {
            let all: Vec<f64> = (1..=pairs).map(f64::from).collect();
            assert!(close(signed_rank(&all), least_p(all.len())), "{pairs}");
        }
        // -1, 2, 3: sums at most 1 are {} and {1}, so 2 of 8, twice.
        assert!(close(signed_rank(&[-1.0, 2.0, 3.0]), 0.5));
        // Published example (Conover; R's wilcox.test, paired): p = 0.03906 with V = 40 of 9.
        let depression = [0.952, -0.147, 1.022, 0.430, 0.620, 0.590, 0.490, -0.080, 0.010];
        assert!((signed_rank(&depression) - 0.039_062_5).abs() < 1e-9);
    }

    #[test]
    fn equal_differences_share_their_rank_and_the_test_stays_exact() {
        // Ranks 1.5, 1.5, 3 and signs -, +, +: sums at most 1.5 are {}, {1.5}, {1.5}: 3 of 8, twice.
        assert!(close(signed_rank(&[-1.0, 1.0, 2.0]), 0.75));
        // Zeros say nothing.
        assert!(close(signed_rank(&[0.0, 0.0, 1.0, 2.0, 3.0]), 0.25));
        assert!(close(signed_rank(&[0.0; 9]), 1.0));
        assert!(close(signed_rank(&[]), 1.0));
    }

    #[test]
    fn the_p_value_does_not_depend_on_which_side_is_which() {
        let differences = [3.0, -1.0, 2.5, 0.7, -0.2, 9.0];
        let turned: Vec<f64> = differences.iter().map(|difference| -difference).collect();
        assert!(close(signed_rank(&differences), signed_rank(&turned)));
    }

    #[test]
    fn the_location_is_the_median_of_all_means_of_two() {
        // Means of {1, 2, 6}: 1, 1.5, 2, 3.5, 4, 6.
        let found = location(&[1.0, 6.0, 2.0], 0.5).unwrap();
        assert_eq!(found.estimate, 2.75);
        // Below 1 there is 1 of 8 signs, 0.125 <= 0.25; up to 1 there are 2 of 8, 0.25 <= 0.25; cut at 2.
        assert_eq!(found.interval, Some((1.5, 4.0)));
        assert_eq!(location(&[1.0, 6.0, 2.0], 0.05).unwrap().interval, None, "three pairs cannot have 95 %");
        assert_eq!(location(&[], 0.05), None);
    }

    #[test]
    fn the_interval_excludes_zero_exactly_when_the_test_rejects() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let pairs = random.usize(6..20);
            let shift = random.f64() * 0.6;
            let differences: Vec<f64> = (0..pairs).map(|_| random.f64() - 0.5 + shift).collect();
            let Some((low, high)) = location(&differences, 0.05).unwrap().interval else { continue };
            assert_eq!(signed_rank(&differences) <= 0.05, low > 0.0 || high < 0.0, "{differences:?}");
        }
    }

    #[test]
    fn five_hundred_pairs_are_no_trouble() {
        let all: Vec<f64> = (1..=500).map(f64::from).collect();
        assert!(signed_rank(&all) < 1e-80);
        let half: Vec<f64> =
            (1..=500).map(|rank| if rank % 2 == 0 { f64::from(rank) } else { -f64::from(rank) }).collect();
        assert!(signed_rank(&half) > 0.9);
    }
}
