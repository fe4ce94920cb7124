//! How many more threads can be created here: the limits that the kernel checks in `clone(2)`, and the one on
//! mappings that thread stacks meet first.

use super::{Environment, file, namespace};

/// One limit on new threads.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadLimit {
    /// Where the limit comes from, to be named in a message.
    pub source: &'static str,
    /// Threads that it still allows.
    pub available: u64,
}

/// The known limits on new threads, the tightest first.
#[must_use]
pub fn thread_limits(environment: &Environment) -> Vec<ThreadLimit> {
    let existing = environment.threads_existing.unwrap_or(0);
    // The count is the machine's; a nested namespace numbers its own threads only.
    let numbered = if environment.pid_namespace == Some(true) { 0 } else { existing };
    let applying = environment.threads_limit.filter(|_| environment.threads_limit_applies);
    let known = [
        ("pids.max of the control group", environment.pids_available),
        ("RLIMIT_NPROC (ulimit -u)", applying),
        ("kernel.threads-max", environment.threads_max.map(|limit| limit.saturating_sub(existing))),
        // After the numbers have wrapped once, those below 300 are not given out (RESERVED_PIDS, kernel/pid.c).
        ("kernel.pid_max", environment.pid_max.map(|limit| limit.saturating_sub(numbered + 300))),
        // A stack and its guard page are one mapping each (glibc, nptl/allocatestack.c); some for the rest.
        ("vm.max_map_count", environment.map_count_limit.map(|limit| limit.saturating_sub(300) / 2)),
    ];
    let mut limits: Vec<ThreadLimit> = known
        .into_iter()
        .filter_map(|(source, available)| Some(ThreadLimit { source, available: available? }))
        .collect();
    limits.sort_by_key(|limit| limit.available);
    limits
}

/// Threads that can still be created here, as far as is known: the smallest of [`thread_limits`].
#[must_use]
pub fn max_threads(environment: &Environment) -> u64 {
    thread_limits(environment).first().map_or(u64::MAX, |limit| limit.available)
}

pub(super) fn fill(environment: &mut Environment) {
    environment.pid_max = environment.take("pid_max", file::value("/proc/sys/kernel/pid_max"));
    environment.threads_max = environment.take("threads_max", file::value("/proc/sys/kernel/threads-max"));
    environment.map_count_limit =
        environment.take("map_count_limit", file::value("/proc/sys/vm/max_map_count"));
    let load = file::text("/proc/loadavg").and_then(|text| {
        parse_load(&text).ok_or_else(|| format!("/proc/loadavg: unexpected content {text:?}"))
    });
    match load {
        Ok((load, threads)) => {
            (environment.load_average_1m, environment.threads_existing) = (Some(load), Some(threads));
        }
        Err(reason) => environment.lack(&["load_average_1m", "threads_existing"], &reason),
    }
    environment.threads_limit = environment.take("threads_limit", soft_limit(libc::RLIMIT_NPROC)).flatten();
    environment.memlock_limit_bytes =
        environment.take("memlock_limit_bytes", soft_limit(libc::RLIMIT_MEMLOCK)).flatten();
    environment.threads_limit_applies = nproc_applies();
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// The soft limit, `None` when there is none.
fn soft_limit(resource: Resource) -> Result<Option<u64>, String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live structure of the kind that getrlimit fills.
    if unsafe { libc::getrlimit(resource, &raw mut limit) } != 0 {
        return Err(format!("getrlimit: {}", std::io::Error::last_os_error()));
    }
    Ok((limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur))
}

fn nproc_applies() -> bool {
    // SAFETY: getuid takes no argument and cannot fail.
    let root = unsafe { libc::getuid() } == 0;
    let effective = file::text("/proc/self/status")
        .ok()
        .and_then(|status| u64::from_str_radix(file::field(&status, "CapEff")?, 16).ok())
        .unwrap_or(0);
    // CAP_SYS_ADMIN is 21, CAP_SYS_RESOURCE is 24 (linux/capability.h).
    let exempt = root || effective & (1 << 21 | 1 << 24) != 0;
    namespace::in_user_namespace() || !exempt
}

/// One-minute load average and number of threads in `0.20 0.18 0.12 1/80 11206`.
fn parse_load(text: &str) -> Option<(f64, u64)> {
    let mut words = text.split_whitespace();
    let load: f64 = words.next()?.parse().ok()?;
    let threads = words.nth(2)?.split_once('/')?.1.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some((load, threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_known_limit_counts() {
        let mut environment = Environment {
            threads_max: Some(1000),
            threads_existing: Some(100),
            pid_max: Some(32_768),
            ..Environment::default()
        };
        assert_eq!(max_threads(&environment), 900);
        environment.pids_available = Some(15);
        assert_eq!(thread_limits(&environment)[0].source, "pids.max of the control group");
        assert_eq!(max_threads(&environment), 15);
    }

    #[test]
    fn a_user_limit_that_does_not_bind_this_process_is_left_out() {
        let mut environment = Environment { threads_limit: Some(7), ..Environment::default() };
        assert_eq!(max_threads(&environment), u64::MAX);
        environment.threads_limit_applies = true;
        assert_eq!(max_threads(&environment), 7);
    }

    #[test]
    fn a_machine_over_its_limit_allows_no_thread() {
        let environment =
            Environment { threads_max: Some(10), threads_existing: Some(11), ..Environment::default() };
        assert_eq!(max_threads(&environment), 0);
    }

    #[test]
    fn load_and_number_of_threads_are_read_from_one_line() {
        assert_eq!(parse_load("0.20 0.18 0.12 1/80 11206\n"), Some((0.2, 80)));
        for garbage in ["", "0.1", "0.1 0.1 0.1 80 1", "NaN 0 0 1/80 2", "-1 0 0 1/80 2", "x 0 0 1/80 2"] {
            assert_eq!(parse_load(garbage), None, "{garbage:?}");
        }
    }
}
