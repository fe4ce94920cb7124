//! Medians with their spread. One rule for all subjects: no averages, since one disturbed run would move them.

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Least, median and most of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) most: f64,
    pub(super) n: usize,
}

impl Spread {
    /// `None` without values; of an even number the median is the mean of the two in the middle.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        Some(Self { least, median: f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]), most, n })
    }
}

/// Prints minimum, median and maximum; returns the median.
pub(super) fn summarise(name: &str, values: &[f64]) -> Result<f64> {
    let Spread { least, median, most, n } =
        Spread::of(values).with_context(|| format!("{name}: nothing was measured"))?;
    println!("{name}: median {median:.3} (min {least:.3}, max {most:.3}, n = {n})");
    Ok(median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_spread() {
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_both_middles() {
        let median = |values: &[f64]| Spread::of(values).map(|spread| spread.median);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn the_ends_do_not_depend_on_the_order() {
        let spread = Spread { least: 1.0, median: 2.0, most: 3.0, n: 3 };
        assert_eq!(Spread::of(&[2.0, 3.0, 1.0]), Some(spread));
    }
}
