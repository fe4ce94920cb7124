//! Whether values rise or fall in the order in which they came: Kendall's test against time (Mann 1945),
//! and the slope of Theil (1950) and Sen (1968), which a few wild values do not turn.

use statrs::distribution::{ContinuousCDF as _, Normal};

/// A rise or fall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// From the first value to the last.
    pub rise: f64,
    /// Two-sided p-value of there being none.
    pub p_value: f64,
}

/// The trend of values in their order; `None` of fewer than eight, for which the normal approximation of the
/// test is poor.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let count = values.len();
    if count < 8 {
        return None;
    }
    let mut balance = 0_i64;
    let mut slopes = Vec::with_capacity(count * (count - 1) / 2);
    for (index, earlier) in values.iter().enumerate() {
        for (distance, later) in values[index + 1..].iter().enumerate() {
            balance += match later.total_cmp(earlier) {
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Less => -1,
                std::cmp::Ordering::Equal => 0,
            };
            slopes.push((later - earlier) / (distance + 1) as f64);
        }
    }
    let size = count as f64;
    let deviation = (size * (size - 1.0) * (2.0 * size + 5.0) / 18.0).sqrt();
    let score = (balance.unsigned_abs().saturating_sub(1)) as f64 / deviation;
    let p_value = (2.0 * Normal::standard().sf(score)).min(1.0);
    Some(Trend { rise: super::median(&slopes)? * (size - 1.0), p_value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_has_its_own_rise() {
        let line: Vec<f64> = (0..10).map(|index| 3.0 + 0.5 * f64::from(index)).collect();
        let found = trend(&line).unwrap();
        assert_eq!(found.rise, 4.5);
        // All 45 pairs rise: z = 44 / sqrt(10 · 9 · 25 / 18) = 44 / sqrt(125) = 3.9355, p = 8.3e-5.
        assert!((found.p_value - 8.3e-5).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn one_wild_value_does_not_turn_the_trend() {
        let mut line: Vec<f64> = (0..11).map(f64::from).collect();
        line[0] = 1e9;
        let found = trend(&line).unwrap();
        assert_eq!(found.rise, 10.0);
        assert!(found.p_value < 0.05, "{found:?}");
    }

    #[test]
    fn what_goes_up_and_down_has_no_trend() {
        let found = trend(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]).unwrap();
        assert!(found.p_value > 0.3, "{found:?}");
        assert_eq!(trend(&[5.0; 20]).unwrap(), Trend { rise: 0.0, p_value: 1.0 });
        assert_eq!(trend(&[1.0; 7]), None);
    }
}
