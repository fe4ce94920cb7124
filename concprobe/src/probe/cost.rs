//! What the programs themselves cost: run time, runs and missed runs, from the kernel's own statistics
//! (`/proc/self/fdinfo` of each program; run time only while `BPF_ENABLE_STATS` is in force).

use std::{fs, os::fd::RawFd};

/// Sums over programs since they were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time spent in the programs while statistics were on, nanoseconds.
    pub run_time_ns: u64,
    /// Runs while statistics were on.
    pub runs: u64,
    /// Runs that the kernel left out, because a program was already running on that CPU.
    pub missed: u64,
}

impl Cost {
    /// Reads one program's figures; what an older kernel does not print stays 0.
    pub(super) fn of_program(program: RawFd) -> Self {
        fs::read_to_string(format!("/proc/self/fdinfo/{program}"))
            .map(|text| Self::parse(&text))
            .unwrap_or_default()
    }

    fn parse(fdinfo: &str) -> Self {
        let value = |name: &str| {
            fdinfo
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
                .unwrap_or(0)
        };
        Self { run_time_ns: value("run_time_ns"), runs: value("run_cnt"), missed: value("recursion_misses") }
    }

    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            run_time_ns: self.run_time_ns + other.run_time_ns,
            runs: self.runs + other.runs,
            missed: self.missed + other.missed,
        }
    }

    /// What came since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            run_time_ns: self.run_time_ns.saturating_sub(earlier.run_time_ns),
            runs: self.runs.saturating_sub(earlier.runs),
            missed: self.missed.saturating_sub(earlier.missed),
        }
    }

    /// Nanoseconds of one run, or `None` when there was none.
    pub fn ns_per_run(self) -> Option<u64> {
        self.run_time_ns.checked_div(self.runs)
    }
}

/// Memory of a map, bytes; `None` where the kernel does not say.
pub(super) fn map_bytes(map: RawFd) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{map}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::Cost;

    #[test]
    fn figures_that_an_older_kernel_lacks_are_zero() {
        let new = "pos:\t0\nprog_type:\t26\nrun_time_ns:\t1200\nrun_cnt:\t10\nrecursion_misses:\t1\n";
        assert_eq!(Cost::parse(new), Cost { run_time_ns: 1200, runs: 10, missed: 1 });
        assert_eq!(Cost::parse("pos:\t0\n"), Cost::default());
        assert_eq!(Cost::default().ns_per_run(), None);
        assert_eq!(Cost::parse(new).ns_per_run(), Some(120));
    }
}
