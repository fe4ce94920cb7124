//! Log-linear buckets: 64 to each power of two, so a bucket is at most 1/64 (1.6 %) as wide as its values,
//! and every `u64` has one.

const SUB_BITS: u32 = 6;
const SUB: u64 = 1 << SUB_BITS;

/// Number of buckets.
pub const BUCKETS: usize = (SUB + (64 - SUB_BITS as u64) * SUB) as usize;

/// Number of buckets of a [`crate::site::Spread`], which holds values below 2⁴⁰.
pub const SPREAD_BUCKETS: usize = (SUB + (40 - SUB_BITS as u64) * SUB) as usize;

/// Which interval a histogram of the kernel side holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Switched out voluntarily until made runnable.
    Blocked,
    /// Runnable until running.
    RunQueue,
    /// Clone entered until the new thread's first run.
    Creation,
    /// First run of a thread until its end.
    Life,
}

impl Kind {
    /// Every kind, in the order of the map.
    pub const ALL: [Self; 4] = [Self::Blocked, Self::RunQueue, Self::Creation, Self::Life];
    /// Histograms for each CPU.
    pub const COUNT: u32 = 4;

    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::RunQueue => "run_queue",
            Self::Creation => "creation",
            Self::Life => "life",
        }
    }
}

/// Counts per bucket, and the exact figures that buckets cannot give.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Histogram {
    /// Values in each bucket.
    pub counts: [u64; BUCKETS],
    /// Sum of the values, exact.
    pub sum: u64,
    /// Greatest value, exact.
    pub max: u64,
    /// `u64::MAX` minus the least value, exact; kept as a complement so that an empty record is all zeros.
    pub min_complement: u64,
    /// Keeps the size explicit.
    pub reserved: [u64; 5],
}

const _: () = assert!(size_of::<Histogram>() == BUCKETS * 8 + 64);

/// The bucket of a value.
#[must_use]
#[inline(always)]
pub const fn bucket(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let shift = exponent - SUB_BITS;
    let within = (value >> shift) - SUB;
    (SUB + (shift as u64) * SUB + within) as usize
}

/// The least value of a bucket.
#[must_use]
pub const fn lower_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let shift = (bucket - SUB) / SUB;
    let within = (bucket - SUB) % SUB;
    (SUB + within) << shift
}

/// The greatest value of a bucket.
#[must_use]
pub const fn upper_bound(bucket: usize) -> u64 {
    if bucket + 1 < BUCKETS { lower_bound(bucket + 1) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_its_bucket() {
        let edges = (0..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + 1, power | (power >> 1)]
        });
        for value in edges.chain([0, 1, 63, 64, 127, 128, 1 << 31, (1 << 31) + 12345, u64::MAX]) {
            let index = bucket(value);
            assert!(index < BUCKETS, "{value}");
            assert!(lower_bound(index) <= value && value <= upper_bound(index), "{value}");
        }
    }

    #[test]
    fn a_spread_ends_at_2_to_the_40() {
        assert_eq!(bucket((1 << 40) - 1), SPREAD_BUCKETS - 1);
        assert_eq!(bucket(1 << 40), SPREAD_BUCKETS);
    }

    #[test]
    fn buckets_follow_on_each_other_and_are_narrow() {
        for index in 0..BUCKETS {
            let (low, high) = (lower_bound(index), upper_bound(index));
            assert_eq!(bucket(low), index);
            assert_eq!(bucket(high), index);
            assert!((high - low) as f64 <= low as f64 / 64.0, "{low}..{high}");
            if index > 0 {
                assert_eq!(upper_bound(index - 1) + 1, low);
            }
        }
    }
}
