//! What an ordinary user can read about a thread of his own, for runs without evidence from the kernel.
//! Sources: `CLOCK_THREAD_CPUTIME_ID`, `/proc/thread-self/schedstat`, `getrusage(RUSAGE_THREAD)`.

use std::fs;

use crate::clock;

/// Figures of the calling thread, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// CPU time, nanoseconds.
    pub on_cpu_ns: u64,
    /// Run-queue wait, nanoseconds; `None` when the kernel does not keep it.
    pub run_queue_ns: Option<u64>,
    /// Voluntary switches.
    pub voluntary: u64,
    /// Involuntary switches.
    pub involuntary: u64,
}

impl Estimate {
    /// Reads the figures of the calling thread.
    pub fn read() -> Self {
        let mut usage: libc::rusage = // SAFETY: all zeros is a valid value of this C struct.
            unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is valid for writes.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        Self {
            on_cpu_ns: clock::thread_cpu_ns(),
            run_queue_ns: fs::read_to_string("/proc/thread-self/schedstat")
                .ok()
                .and_then(|text| run_queue_wait(&text)),
            voluntary: usage.ru_nvcsw.cast_unsigned(),
            involuntary: usage.ru_nivcsw.cast_unsigned(),
        }
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            run_queue_ns: self
                .run_queue_ns
                .zip(earlier.run_queue_ns)
                .map(|(now, before)| now.saturating_sub(before)),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

/// The second of the three numbers of `schedstat`: nanoseconds spent runnable, waiting for a CPU.
fn run_queue_wait(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::run_queue_wait;

    #[test]
    fn the_second_number_is_the_wait() {
        assert_eq!(run_queue_wait("123 456 7\n"), Some(456));
        assert_eq!(run_queue_wait("123"), None);
        assert_eq!(run_queue_wait(""), None);
    }
}
