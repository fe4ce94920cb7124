//! Latencies of the ops of one class: count, exact extremes and sums, and an HDR histogram that travels
//! between processes in its standard encoding.

use std::io::Read as _;

use anyhow::{Context as _, Result, anyhow, bail};
use base64::Engine as _;
use flate2::read::ZlibDecoder;
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

/// The V2 compressed encoding begins with these.
const COOKIE: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
/// No histogram is longer, inflated: one of this program's is 100 KiB at most.
const LONGEST: u64 = 8 << 20;
/// Before the counts: the cookie, the length of the counts, a normalizing offset, the digits, the least and the
/// greatest value, a ratio.
const HEADER: usize = 40;
/// Together no histogram counts more, so that sums of counts cannot overflow.
const MOST: u64 = 1 << 53;

/// The inverse of [`encode`]. The text may come from a file that is cut off, edited or hostile.
///
/// # Errors
/// When the text is no such histogram.
pub fn decode(text: &str) -> Result<Histogram<u64>> {
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(text).context("a histogram is not valid base64")?;
    let compressed = bytes.get(8..).context("a histogram is too short")?;
    if bytes[..4] != COOKIE {
        bail!("a histogram is not in the V2 compressed encoding, the only one that is read");
    }
    let mut inflated = Vec::new();
    ZlibDecoder::new(compressed)
        .take(LONGEST + 1)
        .read_to_end(&mut inflated)
        .context("a histogram cannot be inflated")?;
    inspect(&inflated)?;
    Deserializer::new()
        .deserialize(&mut inflated.as_slice())
        .map_err(|error| anyhow!("a histogram cannot be decoded: {error}"))
}

/// Refuses what the decoder would take memory for, or compute with, before it sees whether it is there.
fn inspect(inflated: &[u8]) -> Result<()> {
    let counts = inflated.get(HEADER..).context("a histogram is too short")?;
    let length = inflated.iter().skip(4).take(4).fold(0, |length, byte| length << 8 | usize::from(*byte));
    if length > counts.len() || inflated.len() as u64 > LONGEST {
        bail!("a histogram says that its counts take {length} bytes, and has {}", counts.len());
    }
    let mut total: u64 = 0;
    let mut bytes = counts[..length].iter();
    while let Some(first) = bytes.next() {
        // LEB128 of at most nine bytes, the last of them whole; the sign is in the lowest bit.
        let (mut number, mut byte, mut shift) = (u64::from(first & 0x7f), first, 7);
        while byte & 0x80 != 0 && shift <= 56 {
            byte = bytes.next().context("a histogram ends within a count")?;
            let part = if shift == 56 { *byte } else { byte & 0x7f };
            number |= u64::from(part) << shift;
            shift += 7;
        }
        // Odd ones are the lengths of runs of zeros, less than nothing.
        total = total.saturating_add(if number & 1 == 0 { number >> 1 } else { 0 });
        if total > MOST || number > u64::MAX >> 1 {
            bail!("a histogram counts more than can be");
        }
    }
    Ok(())
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

    /// A histogram with that header and those counts, as its text.
    fn written(length: u32, digits: u32, greatest: u64, counts: &[u8]) -> String {
        let mut plain = vec![0x1c, 0x84, 0x93, 0x13];
        plain.extend(length.to_be_bytes());
        plain.extend(0_u32.to_be_bytes());
        plain.extend(digits.to_be_bytes());
        plain.extend(1_u64.to_be_bytes());
        plain.extend(greatest.to_be_bytes());
        plain.extend(1_f64.to_be_bytes());
        plain.extend(counts);
        let mut bytes = COOKIE.to_vec();
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut packed, &plain).unwrap();
        let packed = packed.finish().unwrap();
        bytes.extend(u32::try_from(packed.len()).unwrap().to_be_bytes());
        bytes.extend(packed);
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    #[test]
    fn a_histogram_is_believed_only_what_it_has() {
        let good = written(2, 3, LONGEST_NS, &[1, 4]);
        assert_eq!(decode(&good).unwrap().len(), 2);
        for (text, why) in [
            (written(u32::MAX, 3, LONGEST_NS, &[2]), "says that its counts take 4294967295 bytes"),
            (written(9 << 20, 3, LONGEST_NS, &[2; 9 << 20]), "says that its counts take"),
            (written(1, 3, LONGEST_NS, &[0x80]), "ends within a count"),
            (written(9, 3, LONGEST_NS, &[0xff; 9]), "counts more than can be"),
            (
                written(9, 3, LONGEST_NS, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
                "more than can be",
            ),
            (written(1, 200, LONGEST_NS, &[2]), "cannot be decoded"),
            (written(1, 3, 0, &[2]), "cannot be decoded"),
        ] {
            let error = format!("{:#}", decode(&text).unwrap_err());
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
