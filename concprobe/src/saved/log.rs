//! Interval logs (`.hlog`), which the HdrHistogram project's own tools read and write: a line for each
//! histogram, told by its tag.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, anyhow, bail};
use hdrhistogram::{
    Histogram,
    serialization::{
        V2DeflateSerializer,
        interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag},
    },
};

use super::Saved;

/// Values are nanoseconds; the greatest of a line is shown in milliseconds, as is usual.
const MAX_DIVISOR: f64 = 1e6;

/// All histograms of the results as an interval log: an interval for each result, which begins when it began.
///
/// # Errors
/// When a histogram cannot be decoded or encoded.
pub fn write(results: &[Saved]) -> Result<String> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let first = results.iter().map(Saved::started_at).min().unwrap_or(0);
    let start =
        UNIX_EPOCH.checked_add(Duration::from_secs(first)).context("its time is beyond all clocks")?;
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(concat!("[concprobe ", env!("CARGO_PKG_VERSION"), ", nanoseconds]"));
    builder.add_comment("[Histogram log format version 1.3]");
    builder.with_start_time(start).with_base_time(start).with_max_value_divisor(MAX_DIVISOR);
    let mut writer = builder.begin_log_with(&mut bytes, &mut serializer)?;
    // In the order of time, as readers expect.
    let mut results: Vec<&Saved> = results.iter().collect();
    results.sort_by_key(|result| result.started_at());
    for result in results {
        let begin = Duration::from_secs(result.started_at() - first);
        let length = Duration::from_nanos(result.wall_ns().max(1_000_000));
        result.each_histogram(&mut |name, histogram| {
            let tag = tag(name);
            let tag = Tag::new(&tag).context("a tag cannot be written")?;
            writer
                .write_histogram(&histogram, begin, length, Some(tag))
                .map_err(|error| anyhow!("cannot encode the histogram of {name}: {error:?}"))
        })?;
    }
    String::from_utf8(bytes).context("a log is text")
}

/// A name as a tag: no comma, space or line break, which separate what is in a line.
fn tag(name: &str) -> String {
    let safe = |letter: char| {
        if letter == ',' || letter.is_whitespace() || letter.is_control() { '_' } else { letter }
    };
    let tag: String = name.chars().map(safe).collect();
    if tag.is_empty() { "_".to_owned() } else { tag }
}

/// All the histograms of a log together hold no more values, 256 MiB.
const MOST_VALUES: usize = 32 << 20;

/// The histograms of a log; lines of the same tag are added up.
///
/// # Errors
/// Which line cannot be read.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(String, Histogram<u64>)>> {
    let mut found: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    let mut values = 0;
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        // Those who write a legend quote its columns.
        if line.trim_ascii().is_empty() || line.starts_with(b"\"") {
            continue;
        }
        let Some((name, histogram)) =
            read_line(line).with_context(|| format!("line {} of the log", index + 1))?
        else {
            continue;
        };
        match found.get_mut(&name) {
            Some(sum) => {
                sum.auto(true);
                sum.add(&histogram).map_err(|error| anyhow!("cannot add up {name}: {error:?}"))?;
            }
            None => {
                values += histogram.distinct_values();
                if values > MOST_VALUES {
                    bail!("the log has too many histograms, or too great ones");
                }
                found.insert(name, histogram);
            }
        }
    }
    if found.is_empty() {
        bail!("the log has no histogram");
    }
    Ok(found.into_iter().collect())
}

/// Tag and histogram of a line; `None` of a comment.
fn read_line(line: &[u8]) -> Result<Option<(String, Histogram<u64>)>> {
    let line = [line, b"\n"].concat();
    let interval = match IntervalLogIterator::new(&line).next() {
        Some(Ok(LogEntry::Interval(interval))) => interval,
        Some(Ok(_)) | None => return Ok(None),
        Some(Err(_)) => bail!("neither a comment nor an interval"),
    };
    let name = interval.tag().map_or("all", |tag| tag.as_str()).to_owned();
    let histogram = super::decoded(&name, interval.encoded_histogram())?;
    Ok(Some((name, histogram)))
}

/// Percentiles as text (`.hgrm`), in the layout of the HdrHistogram project's own tools. Values are nanoseconds.
pub fn percentiles(histogram: &Histogram<u64>) -> String {
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut total = 0;
    for step in histogram.iter_quantiles(5) {
        total += step.count_since_last_iteration();
        let (value, quantile) = (step.value_iterated_to() as f64, step.quantile_iterated_to());
        text.push_str(&format!("{value:12.3} {quantile:2.12} {total:10}"));
        if quantile < 1.0 {
            text.push_str(&format!(" {:14.2}", 1.0 / (1.0 - quantile)));
        }
        text.push('\n');
    }
    let buckets = histogram.buckets();
    // Each bucket has the upper half of them, the first one both.
    let sub_buckets = 2 * histogram.distinct_values() / (usize::from(buckets) + 1);
    text.push_str(&format!(
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n#[Max     = {:12.3}, Total count    = {:12}]\n\
         #[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]\n",
        histogram.mean(),
        histogram.stdev(),
        histogram.max() as f64,
        histogram.len(),
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::tally::empty_histogram;

    #[test]
    fn a_log_that_was_written_is_read_back_equal() {
        let mut fast = empty_histogram();
        for value in [10, 20, 20, 1_000_000_000_000_000] {
            fast.saturating_record(value);
        }
        let names = ["fast", "a name, with a comma\nand a line break", ""];
        let histograms: Vec<_> = names.iter().map(|name| ((*name).to_owned(), fast.clone())).collect();
        let text = write(&[Saved::Log(histograms)]).unwrap();
        assert!(text.contains("#[StartTime: 0.000"), "{text}");
        let back = read(text.as_bytes()).unwrap();
        assert_eq!(back.len(), 3);
        for (name, histogram) in back {
            assert!(
                ["fast", "a_name__with_a_comma_and_a_line_break", "_"].contains(&name.as_str()),
                "{name}"
            );
            assert_eq!((histogram.len(), histogram.max()), (4, fast.max()));
            assert_eq!(histogram.value_at_quantile(0.5), 20);
        }
    }

    #[test]
    fn lines_that_cannot_be_read_are_told() {
        for text in ["", "#only a comment\n", "Tag=a,0.1,1.0,2.0,!!!\n", "Tag=a,0.1,1.0,2.0,AAAA\n", "x\n"] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        let error = format!("{:#}", read(b"#comment\n\nTag=a,0.1,1.0,2.0,AAAA\n").unwrap_err());
        assert!(error.starts_with("line 3 of the log: the histogram of a cannot be decoded"), "{error}");
    }

    #[test]
    fn percentiles_end_with_the_greatest_value_and_all_of_them() {
        let mut histogram = empty_histogram();
        for value in 1..=100 {
            histogram.saturating_record(value);
        }
        let text = percentiles(&histogram);
        assert!(text.contains("     100.000 1.000000000000        100\n"), "{text}");
        assert!(text.contains("Total count    =          100]"), "{text}");
    }
}
