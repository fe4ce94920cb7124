//! Interval logs (`.hlog`), which the HdrHistogram project's own tools read and write: a line for each
//! histogram, told by its tag.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, anyhow, bail};
use base64::Engine as _;
use hdrhistogram::{
    Histogram,
    serialization::{
        Deserializer, V2DeflateSerializer,
        interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag},
    },
};

/// Values are nanoseconds; the greatest of a line is shown in milliseconds, as is usual.
const MAX_DIVISOR: f64 = 1e6;

/// The histograms as an interval log that begins at `started_at` (seconds since 1970).
///
/// # Errors
/// When a histogram cannot be encoded.
pub fn write(histograms: &[(String, Histogram<u64>)], started_at: u64) -> Result<String> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let start = UNIX_EPOCH + Duration::from_secs(started_at);
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(concat!("[concprobe ", env!("CARGO_PKG_VERSION"), ", nanoseconds]"));
    builder.with_start_time(start).with_base_time(start).with_max_value_divisor(MAX_DIVISOR);
    let mut writer = builder.begin_log_with(&mut bytes, &mut serializer)?;
    for (name, histogram) in histograms {
        let tag = tag(name);
        let tag = Tag::new(&tag).context("a tag cannot be written")?;
        writer
            .write_histogram(histogram, Duration::ZERO, Duration::from_secs(1), Some(tag))
            .map_err(|error| anyhow!("cannot encode the histogram of {name}: {error:?}"))?;
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

/// The histograms of a log; lines of the same tag are added up.
///
/// # Errors
/// Which line cannot be read.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(String, Histogram<u64>)>> {
    // Those who write a legend line quote its columns.
    let legend = |line: &&[u8]| !line.starts_with(b"\"");
    let bytes = bytes.split(|byte| *byte == b'\n').filter(legend).collect::<Vec<_>>().join(&b'\n');
    let mut found: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    for (index, entry) in IntervalLogIterator::new(&bytes).enumerate() {
        let LogEntry::Interval(interval) =
            entry.map_err(|error| anyhow!("entry {} of the log cannot be read: {error:?}", index + 1))?
        else {
            continue;
        };
        let name = interval.tag().map_or("all", |tag| tag.as_str()).to_owned();
        let encoded = interval.encoded_histogram();
        if encoded.len() > super::LONGEST_HISTOGRAM {
            bail!("the histogram of {name} is longer than any");
        }
        let decoded = base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .with_context(|| format!("the histogram of {name} is no base64"))?;
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut decoded.as_slice())
            .map_err(|error| anyhow!("the histogram of {name} cannot be decoded: {error:?}"))?;
        match found.get_mut(&name) {
            Some(sum) => {
                sum.auto(true);
                sum.add(&histogram).map_err(|error| anyhow!("cannot add up {name}: {error:?}"))?;
            }
            None => {
                found.insert(name, histogram);
            }
        }
    }
    if found.is_empty() {
        bail!("the log has no histogram");
    }
    Ok(found.into_iter().collect())
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
    let sub_buckets = histogram.distinct_values() / usize::from(buckets.max(1));
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
        let text = write(&histograms, 1_700_000_000).unwrap();
        assert!(text.contains("#[StartTime: 1700000000"), "{text}");
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
