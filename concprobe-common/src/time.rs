//! Differences of time stamps that never wrap.

/// `end − start` in nanoseconds, or `None` when the end lies before the start (clocks of two CPUs can).
#[must_use]
#[inline(always)]
pub const fn elapsed_ns(start_ns: u64, end_ns: u64) -> Option<u64> {
    end_ns.checked_sub(start_ns)
}

#[cfg(test)]
mod tests {
    use super::elapsed_ns;

    #[test]
    fn a_clock_that_steps_back_is_noticed() {
        assert_eq!(elapsed_ns(100, 99), None);
        assert_eq!(elapsed_ns(100, 100), Some(0));
        assert_eq!(elapsed_ns(0, u64::MAX), Some(u64::MAX));
    }
}
