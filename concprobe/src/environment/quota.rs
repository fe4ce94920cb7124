//! CPU quota and thread limit of the control groups, the smallest on the way up.

use std::path::Path;

use super::cgroup::{Level, levels};
use super::{Environment, file};

pub(super) fn fill(environment: &mut Environment) {
    let read = |path: &Path| file::text(path).ok();
    let (groups, mounts) = (file::text("/proc/self/cgroup"), file::text("/proc/self/mountinfo"));
    match visible(&groups, &mounts, "cpu") {
        Ok(levels) => environment.cpu_quota = cpu_quota(&levels, read),
        Err(reason) => environment.lack(&["cpu_quota"], &reason),
    }
    match visible(&groups, &mounts, "pids") {
        Ok(levels) => (environment.pids_limit, environment.pids_available) = pids_limit(&levels, read),
        Err(reason) => environment.lack(&["pids_limit", "pids_available"], &reason),
    }
}

type Text = Result<String, String>;

fn visible(groups: &Text, mounts: &Text, controller: &str) -> Result<Vec<Level>, String> {
    let levels =
        levels(groups.as_ref().map_err(String::clone)?, mounts.as_ref().map_err(String::clone)?, controller);
    if levels.iter().any(|level| level.directory.is_dir()) {
        Ok(levels)
    } else {
        Err(format!("no control group of this process is visible for the {controller} controller"))
    }
}

/// The smallest quota in CPUs.
fn cpu_quota(levels: &[Level], read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    let quotas = levels.iter().filter_map(|level| {
        if level.unified {
            parse_cpu_max(&read(&level.directory.join("cpu.max"))?)
        } else {
            let quota = read(&level.directory.join("cpu.cfs_quota_us"))?;
            let period = read(&level.directory.join("cpu.cfs_period_us"))?;
            parse_cpu_max(&format!("{} {}", quota.trim(), period.trim()))
        }
    });
    quotas.min_by(f64::total_cmp)
}

/// CPUs allowed by `quota period`, both in microseconds; `max` and `-1` are no quota
/// (kernel: Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst).
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: u32 = words.next()?.parse().ok()?;
    // The kernel's default when a writer gives the quota alone.
    let period: u32 = words.next().unwrap_or("100000").parse().ok()?;
    (period > 0 && quota > 0).then(|| f64::from(quota) / f64::from(period))
}

/// The smallest `pids.max`, and the smallest distance between it and `pids.current`.
fn pids_limit(levels: &[Level], read: impl Fn(&Path) -> Option<String>) -> (Option<u64>, Option<u64>) {
    let number =
        |level: &Level, name: &str| -> Option<u64> { read(&level.directory.join(name))?.trim().parse().ok() };
    let limits: Vec<(u64, u64)> = levels
        .iter()
        .filter_map(|level| {
            let limit = number(level, "pids.max")?;
            Some((limit, limit.saturating_sub(number(level, "pids.current").unwrap_or(0))))
        })
        .collect();
    (limits.iter().map(|limit| limit.0).min(), limits.iter().map(|limit| limit.1).min())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(directory: &str, unified: bool) -> Level {
        Level { directory: directory.into(), unified }
    }

    fn files(content: &[(&str, &str)]) -> impl Fn(&Path) -> Option<String> {
        let content: Vec<(String, String)> =
            content.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        move |path| content.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.clone())
    }

    #[test]
    fn a_quota_is_read_in_cpus_and_max_is_none() {
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cpu_max("20000 100000\n"), Some(0.2));
        assert_eq!(parse_cpu_max("250000 100000"), Some(2.5));
        assert_eq!(parse_cpu_max("50000"), Some(0.5));
        assert_eq!(parse_cpu_max("-1 100000"), None);
        for garbage in ["", "a b", "20000 0", "0 100000", "20000 x", "20000 -5"] {
            assert_eq!(parse_cpu_max(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn the_smallest_quota_of_all_groups_above_counts() {
        let read = files(&[
            ("/c/a/b/cpu.max", "max 100000\n"),
            ("/c/a/cpu.max", "150000 100000\n"),
            ("/c/cpu.max", "300000 100000\n"),
        ]);
        let levels = [level("/c/a/b", true), level("/c/a", true), level("/c", true)];
        assert_eq!(cpu_quota(&levels, &read), Some(1.5));
        assert_eq!(cpu_quota(&levels[..1], &read), None);
    }

    #[test]
    fn version_1_divides_its_two_files() {
        let read = files(&[
            ("/v1/cpu.cfs_quota_us", "-1\n"),
            ("/v1/cpu.cfs_period_us", "100000\n"),
            ("/v1/job/cpu.cfs_quota_us", "20000\n"),
            ("/v1/job/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(cpu_quota(&[level("/v1/job", false), level("/v1", false)], &read), Some(0.2));
        assert_eq!(cpu_quota(&[level("/v1", false)], &read), None);
    }

    #[test]
    fn the_tightest_limit_and_the_tightest_rest_may_be_of_different_groups() {
        let read = files(&[
            ("/p/a/pids.max", "20\n"),
            ("/p/a/pids.current", "5\n"),
            ("/p/pids.max", "100\n"),
            ("/p/pids.current", "98\n"),
        ]);
        assert_eq!(pids_limit(&[level("/p/a", true), level("/p", true)], &read), (Some(20), Some(2)));
        let read = files(&[("/p/pids.max", "max\n")]);
        assert_eq!(pids_limit(&[level("/p", true)], &read), (None, None));
    }
}
