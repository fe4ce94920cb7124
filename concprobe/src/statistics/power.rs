//! How many pairs it would take.

use statrs::distribution::{ContinuousCDF as _, Normal};

/// How probable it shall be to find an effect that is there.
const POWER: f64 = 0.8;
/// The signed-rank test needs the pairs of the t-test divided by this, where differences are normal:
/// 3 / π (Lehmann 1975).
const EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;

/// About how many pairs find a difference of `effect` with a probability of 80 %, where differences spread
/// by `spread` (a standard deviation), at a two-sided `level`: `((z₁₋ₗ⸝₂ + z₀.₈) · spread / effect)²`.
/// `None` where there is no effect to find.
pub fn pairs_needed(effect: f64, spread: f64, level: f64) -> Option<u64> {
    if effect == 0.0 || !effect.is_finite() || !spread.is_finite() {
        return None;
    }
    let quantiles = normal_quantile(1.0 - level / 2.0) + normal_quantile(POWER);
    let pairs = (quantiles * spread / effect).powi(2) / EFFICIENCY;
    // A float beyond the integer's range becomes its greatest.
    #[expect(clippy::cast_sign_loss, reason = "a square is not negative")]
    Some(pairs.ceil() as u64)
}

/// The same from what a test of `pairs` said: its `p_value` has a normal score that grows with the root of the
/// number of pairs, so `pairs · ((z₁₋ₗ⸝₂ + z₀.₈) / z₁₋ₚ⸝₂)²`. It needs no estimate of a spread, which heavy tails
/// make too small. `None` where the pairs say nothing.
pub fn pairs_for(pairs: u64, p_value: f64, level: f64) -> Option<u64> {
    let score = normal_quantile(1.0 - p_value.clamp(0.0, 1.0) / 2.0);
    let quantiles = normal_quantile(1.0 - level / 2.0) + normal_quantile(POWER);
    let needed = pairs as f64 * (quantiles / score).powi(2);
    #[expect(clippy::cast_sign_loss, reason = "a square is not negative")]
    (score > 0.0).then(|| needed.ceil() as u64)
}

fn normal_quantile(part: f64) -> f64 {
    Normal::standard().inverse_cdf(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_that_of_the_textbook() {
        // (1.95996 + 0.84162)² = 7.8489; with an effect of half the spread 31.395, divided by 0.95493: 32.9.
        assert_eq!(pairs_needed(0.5, 1.0, 0.05), Some(33));
        assert_eq!(pairs_needed(-0.5, 1.0, 0.05), Some(33));
        // Half the effect takes four times as many: 131.5.
        assert_eq!(pairs_needed(0.25, 1.0, 0.05), Some(132));
    }

    #[test]
    fn nothing_can_be_found_where_nothing_is() {
        assert_eq!(pairs_needed(0.0, 1.0, 0.05), None);
        assert_eq!(pairs_needed(1.0, 0.0, 0.05), Some(0));
        assert_eq!(pairs_needed(f64::MIN_POSITIVE, 1.0, 0.05), Some(u64::MAX));
    }

    #[test]
    fn a_test_tells_how_far_it_is_from_telling() {
        // A score of 2 (p = 0.0455003) of 10 pairs: 10 · (2.80159 / 2)² = 19.62.
        assert_eq!(pairs_for(10, 0.045_500_3, 0.05), Some(20));
        // A score of 1 (p = 0.3173105) takes four times as many: 78.49.
        assert_eq!(pairs_for(10, 0.317_310_5, 0.05), Some(79));
        assert_eq!(pairs_for(10, 1.0, 0.05), None);
        assert_eq!(pairs_for(0, 0.5, 0.05), Some(0));
    }
}
