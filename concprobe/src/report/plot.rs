//! A histogram drawn with characters: rows of equal width on a logarithmic axis.

use hdrhistogram::Histogram;

/// Rows at most.
const ROWS: u32 = 16;
/// Characters of the longest bar.
const WIDTH: usize = 50;
/// The same where two are side by side.
pub const HALF: usize = 36;
/// Eighths of a character.
const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The rows of the drawing: label of the lower edge, count, bar. What lies beyond the 99.9th percentile
/// is one last row, so that a few stray values do not flatten the rest.
pub fn rows(histogram: &Histogram<u64>, label: impl Fn(u64) -> String) -> Vec<(String, u64, String)> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let low = histogram.min().max(1);
    let high = histogram.value_at_percentile(99.9).max(low.saturating_add(1));
    let edges = edges(low, high);
    let mut counts = vec![0; edges.len()];
    for step in histogram.iter_recorded() {
        let value = step.value_iterated_to().max(1);
        let row = edges.partition_point(|edge| *edge <= value).saturating_sub(1);
        counts[row] += step.count_at_value();
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let last = edges.len() - 1;
    edges
        .iter()
        .zip(counts)
        .enumerate()
        .filter(|(index, (_, count))| *index != last || *count > 0)
        .map(|(index, (edge, count))| {
            let sign = if index == last { "≥ " } else { "" };
            (format!("{sign}{}", label(*edge)), count, bar(count, most, WIDTH))
        })
        .collect()
}

/// The rows of two drawings on one axis: label of the lower edge, then count and bar of each. What lies beyond
/// the 90th percentile of both together by more than half is one last row.
pub fn side_by_side(
    samples: [&[u64]; 2],
    label: impl Fn(u64) -> String,
) -> Vec<(String, [(u64, String); 2])> {
    let mut all: Vec<u64> = samples.concat();
    all.sort_unstable();
    let (Some(low), Some(most)) = (all.first(), all.last()) else { return Vec::new() };
    let low = (*low).max(1);
    let high = all[(all.len() - 1) * 9 / 10].saturating_mul(3) / 2;
    let edges = edges(low, high.min(*most).max(low.saturating_add(1)));
    let counts = samples.map(|values| {
        let mut counts = vec![0_u64; edges.len()];
        for value in values {
            counts[edges.partition_point(|edge| *edge <= *value).saturating_sub(1)] += 1;
        }
        counts
    });
    let longest = counts.iter().flatten().copied().max().unwrap_or(1).max(1);
    let last = edges.len() - 1;
    edges
        .iter()
        .enumerate()
        .filter(|(row, _)| *row != last || counts.iter().any(|counts| counts[*row] > 0))
        .map(|(row, edge)| {
            let sign = if row == last { "≥ " } else { "" };
            let drawn = counts.each_ref().map(|counts| (counts[row], bar(counts[row], longest, HALF)));
            (format!("{sign}{}", label(*edge)), drawn)
        })
        .collect()
}

/// Lower edges, ascending and distinct; the last is that of what lies beyond `high`.
fn edges(low: u64, high: u64) -> Vec<u64> {
    let ratio = (high as f64 / low as f64).powf(1.0 / f64::from(ROWS));
    let mut edges: Vec<u64> = (0..ROWS)
        .map(|row| {
            // Not negative and below `high`, so the conversion keeps its value.
            #[expect(clippy::cast_sign_loss, reason = "powers of a positive ratio are positive")]
            let edge = (low as f64 * ratio.powf(f64::from(row))) as u64;
            edge.max(low)
        })
        .collect();
    edges.push(high.saturating_add(1));
    edges.dedup();
    edges
}

fn bar(count: u64, most: u64, width: usize) -> String {
    if count == 0 {
        return String::new();
    }
    let eighths = (u128::from(count) * width as u128 * 8 / u128::from(most)).max(1) as usize;
    let mut bar = String::from(BLOCKS[7]).repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(BLOCKS[eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        for value in values {
            histogram.record(*value).unwrap();
        }
        histogram
    }

    #[test]
    fn no_value_is_left_out() {
        for values in [&[1][..], &[0, 1, 2], &[5; 1000], &[100, 200, 100_000_000], &[u64::from(u32::MAX)]] {
            let rows = rows(&histogram(values), |value| value.to_string());
            assert_eq!(
                rows.iter().map(|(_, count, _)| count).sum::<u64>(),
                values.len() as u64,
                "{values:?}"
            );
            assert!(rows.len() <= ROWS as usize + 1);
        }
    }

    #[test]
    fn nothing_draws_nothing() {
        assert!(rows(&histogram(&[]), |value| value.to_string()).is_empty());
    }

    #[test]
    fn the_longest_bar_fills_the_width_and_one_value_among_many_still_shows() {
        assert_eq!(bar(10, 10, WIDTH).chars().count(), WIDTH);
        assert_eq!(bar(1, 1_000_000, WIDTH), "▏");
        assert_eq!(bar(0, 10, WIDTH), "");
    }

    #[test]
    fn two_drawings_share_an_axis_and_leave_nothing_out() {
        for samples in
            [[&[10, 20, 30][..], &[20, 40][..]], [&[5], &[]], [&[7; 9], &[7; 9]], [&[1, 2], &[900_000]]]
        {
            let rows = side_by_side(samples, |value| value.to_string());
            for side in 0..2 {
                let drawn: u64 = rows.iter().map(|(_, sides)| sides[side].0).sum();
                assert_eq!(drawn, samples[side].len() as u64, "{samples:?}");
            }
        }
        assert!(side_by_side([&[], &[]], |value| value.to_string()).is_empty());
    }
}
