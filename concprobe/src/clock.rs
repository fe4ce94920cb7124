//! `CLOCK_MONOTONIC`, the clock of the kernel programs too, so that both sides' stamps share an axis.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Nanoseconds since then; 0 when the clock went back, as those of some virtual machines do.
#[inline]
pub fn elapsed_ns(start_ns: u64) -> u64 {
    concprobe_common::time::elapsed_ns(start_ns, now_ns()).unwrap_or(0)
}

/// The time of the day of a moment, seconds since 1970: `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, both read now, tells
/// how far the two are apart. A machine that was suspended since then is said to have begun later.
pub fn wall_s(at_ns: u64) -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.saturating_sub(Duration::from_nanos(elapsed_ns(at_ns))).as_secs()
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// What one reading of the clock costs: the least difference of two readings in a row.
pub fn reading_cost_ns() -> u64 {
    (0..1_000)
        .map(|_| {
            let start = now_ns();
            elapsed_ns(start)
        })
        .min()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_elapsed_since_a_moment_that_is_to_come() {
        assert_eq!(elapsed_ns(now_ns() + 60_000_000_000), 0);
        assert!(elapsed_ns(0) > 0);
    }

    #[test]
    fn a_moment_has_its_time_of_the_day() {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let (before, minute) = (now(), 60_000_000_000);
        let (earlier, present) = (wall_s(now_ns().saturating_sub(minute)), wall_s(now_ns()));
        let after = now();
        assert!((before..=after).contains(&present), "{before} {present} {after}");
        // The machine may have been started less than a minute ago.
        assert!((before - 60..=after).contains(&earlier) && earlier <= present, "{before} {earlier}");
    }
}
