//! From histograms to the figures that a report shows.

use anyhow::Result;
use concprobe_common::{
    histogram::{self, Histogram},
    site::Spread,
};

use crate::{
    harness::tally::{self, Tally},
    observation::Latencies,
};

/// Figures of a tally. Percentiles lie within the exact extremes.
///
/// # Errors
/// When the histogram cannot be encoded; that would be a defect.
pub fn of_tally(tally: &Tally) -> Result<Latencies> {
    if tally.count == 0 {
        return Ok(Latencies { blocked_ns: Some(0), run_queue_ns: Some(0), ..Latencies::default() });
    }
    let mut latencies = percentiles(&tally.histogram, tally.min_ns, tally.max_ns);
    latencies.count = tally.count;
    latencies.sum_ns = tally.sum_ns;
    latencies.blocked_ns = Some(tally.blocked_ns);
    latencies.run_queue_ns = Some(tally.run_queue_ns);
    latencies.histogram = Some(tally::encode(&tally.histogram)?);
    Ok(latencies)
}

/// Figures of one of the kernel's histograms.
pub fn of_kernel(kernel: &Histogram) -> Latencies {
    let mut filled = tally::empty_histogram();
    for (bucket, count) in kernel.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let middle = histogram::lower_bound(bucket).midpoint(histogram::upper_bound(bucket));
        filled.saturating_record_n(middle, *count);
    }
    if filled.is_empty() {
        return Latencies::default();
    }
    let mut latencies = percentiles(&filled, u64::MAX - kernel.min_complement, kernel.max);
    latencies.count = filled.len();
    latencies.sum_ns = kernel.sum;
    latencies.histogram = tally::encode(&filled).ok();
    latencies
}

/// Figures of the values that were recorded at a site; `sum_ns` is their exact sum.
pub fn of_spread(spread: &Spread, sum_ns: u64) -> Latencies {
    let mut filled = tally::empty_histogram();
    let mut greatest = 0;
    for (bucket, count) in spread.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let middle = histogram::lower_bound(bucket).midpoint(histogram::upper_bound(bucket));
        filled.saturating_record_n(middle, u64::from(*count));
        greatest = histogram::lower_bound(bucket);
    }
    if filled.is_empty() {
        return Latencies::default();
    }
    // Two CPUs that record at the same moment may leave the lesser maximum: the buckets know better.
    let mut latencies = percentiles(&filled, u64::MAX - spread.min_complement, spread.max.max(greatest));
    latencies.count = filled.len();
    latencies.sum_ns = sum_ns;
    latencies.histogram = tally::encode(&filled).ok();
    latencies
}

/// Both together.
pub fn merged(left: &Latencies, right: &Latencies) -> Latencies {
    if left.count == 0 || right.count == 0 {
        return if left.count == 0 { right.clone() } else { left.clone() };
    }
    let decoded =
        |latencies: &Latencies| latencies.histogram.as_deref().and_then(|text| tally::decode(text).ok());
    let mut both = tally::empty_histogram();
    for histogram in [decoded(left), decoded(right)].into_iter().flatten() {
        // Histograms of this program all have the same range.
        let _ = both.add(&histogram);
    }
    let min = left.min_ns.min(right.min_ns).unwrap_or(0);
    let max = left.max_ns.max(right.max_ns).unwrap_or(0);
    let mut latencies = percentiles(&both, min, max);
    latencies.count = left.count.saturating_add(right.count);
    latencies.sum_ns = left.sum_ns.saturating_add(right.sum_ns);
    latencies.histogram = tally::encode(&both).ok();
    latencies
}

fn percentiles(histogram: &hdrhistogram::Histogram<u64>, min: u64, max: u64) -> Latencies {
    let at = |percent: f64| Some(histogram.value_at_percentile(percent).clamp(min, max));
    Latencies {
        min_ns: Some(min),
        p50_ns: at(50.0),
        p90_ns: at(90.0),
        p99_ns: at(99.0),
        p999_ns: at(99.9),
        max_ns: Some(max),
        ..Latencies::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_is_its_own_minimum_median_and_maximum() {
        let mut tally = Tally::default();
        tally.record(1_000_000_007, 1, (0, 0));
        let latencies = of_tally(&tally).unwrap();
        for value in [latencies.min_ns, latencies.p50_ns, latencies.p99_ns, latencies.max_ns] {
            assert_eq!(value, Some(1_000_000_007));
        }
    }

    #[test]
    fn percentiles_of_nothing_are_nothing() {
        let latencies = of_tally(&Tally::default()).unwrap();
        assert_eq!((latencies.count, latencies.p50_ns, latencies.min_ns), (0, None, None));
    }

    #[test]
    fn the_kernel_s_histogram_gives_its_figures_within_a_bucket() {
        let mut kernel = Histogram {
            counts: [0; histogram::BUCKETS],
            sum: 0,
            max: 0,
            min_complement: 0,
            reserved: [0; 5],
        };
        assert_eq!(of_kernel(&kernel), Latencies::default());
        for value in [1_000_u64, 2_000, 3_000] {
            kernel.counts[histogram::bucket(value)] += 1;
            kernel.sum += value;
            kernel.max = kernel.max.max(value);
            kernel.min_complement = kernel.min_complement.max(u64::MAX - value);
        }
        let latencies = of_kernel(&kernel);
        assert_eq!((latencies.min_ns, latencies.max_ns, latencies.sum_ns), (Some(1_000), Some(3_000), 6_000));
        let median = latencies.p50_ns.unwrap();
        assert!(median.abs_diff(2_000) <= 2_000 / 64, "{median}");
    }
}
