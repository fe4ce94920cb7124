//! Latencies of the ops of one class: count, exact extremes and sums, and an HDR histogram that travels
//! between processes in its standard encoding.

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer as _, V2DeflateSerializer},
};

/// Greatest latency that a histogram tells apart: one hour. Greater ones count as that.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of the histograms.
const DIGITS: u8 = 3;

/// What is known of the ops of one class.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Ops.
    pub count: u64,
    /// Least latency, nanoseconds, exact.
    pub min_ns: u64,
    /// Greatest latency, nanoseconds, exact.
    pub max_ns: u64,
    /// Sum of the latencies, nanoseconds.
    pub sum_ns: u64,
    /// Of the sum: blocked.
    pub blocked_ns: u64,
    /// Of the sum: waiting for a CPU.
    pub run_queue_ns: u64,
    /// The latencies.
    pub histogram: Histogram<u64>,
}

impl Default for Tally {
    /// No ops.
    fn default() -> Self {
        Self {
            count: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
            blocked_ns: 0,
            run_queue_ns: 0,
            histogram: empty_histogram(),
        }
    }
}

impl Tally {
    /// Adds `count` ops of the same latency.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, count: u64, off_cpu_ns: (u64, u64)) {
        self.count += count;
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.sum_ns += latency_ns * count;
        self.blocked_ns += off_cpu_ns.0;
        self.run_queue_ns += off_cpu_ns.1;
        self.histogram.saturating_record_n(latency_ns, count);
    }

    /// Adds another tally's ops.
    ///
    /// # Errors
    /// Never for tallies of this program; the histograms' ranges would have to differ.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.count += other.count;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
        self.blocked_ns += other.blocked_ns;
        self.run_queue_ns += other.run_queue_ns;
        self.histogram.add(&other.histogram).map_err(|error| anyhow!("cannot merge histograms: {error:?}"))
    }
}

/// A histogram of the range that all have.
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_max(LONGEST_NS, DIGITS)
        .unwrap_or_else(|_| unreachable!("the bounds are valid constants"))
}

/// HdrHistogram V2, compressed, base64.
///
/// # Errors
/// When the encoder refuses; it does not for the range used here.
pub fn encode(histogram: &Histogram<u64>) -> Result<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| anyhow!("cannot encode a histogram: {error:?}"))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// The inverse of [`encode`].
///
/// # Errors
/// When the text is no such histogram.
pub fn decode(text: &str) -> Result<Histogram<u64>> {
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(text).context("a histogram is not valid base64")?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| anyhow!("a histogram cannot be decoded: {error:?}"))
}

mod wire {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Tally, decode, encode};

    #[derive(Serialize, Deserialize)]
    struct Wire {
        count: u64,
        min_ns: u64,
        max_ns: u64,
        sum_ns: u64,
        blocked_ns: u64,
        run_queue_ns: u64,
        histogram: String,
    }

    impl Serialize for Tally {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            Wire {
                count: self.count,
                min_ns: self.min_ns,
                max_ns: self.max_ns,
                sum_ns: self.sum_ns,
                blocked_ns: self.blocked_ns,
                run_queue_ns: self.run_queue_ns,
                histogram: encode(&self.histogram).map_err(serde::ser::Error::custom)?,
            }
            .serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Tally {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let wire = Wire::deserialize(deserializer)?;
            Ok(Self {
                count: wire.count,
                min_ns: wire.min_ns,
                max_ns: wire.max_ns,
                sum_ns: wire.sum_ns,
                blocked_ns: wire.blocked_ns,
                run_queue_ns: wire.run_queue_ns,
                histogram: decode(&wire.histogram).map_err(serde::de::Error::custom)?,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_survives_the_journey_between_processes() {
        let mut tally = Tally::default();
        tally.record(29, 1_000, (0, 0));
        tally.record(8_695, 1, (8_000, 500));
        tally.record(u64::MAX / 4, 1, (0, 0));
        let text = serde_json::to_string(&tally).unwrap();
        let back: Tally = serde_json::from_str(&text).unwrap();
        assert_eq!(back.count, 1_002);
        assert_eq!((back.min_ns, back.max_ns), (29, u64::MAX / 4), "extremes are exact beyond the range too");
        assert_eq!(back.histogram, tally.histogram);
        assert_eq!(back.histogram.len(), 1_002, "a latency beyond the range is kept at its end");
    }

    #[test]
    fn a_hostile_histogram_is_refused() {
        for text in ["", "!", "AAAA", "HISTFAAAAAAA"] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
