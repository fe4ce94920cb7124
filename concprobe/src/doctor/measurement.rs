//! What does not stop a measurement but bears on its figures: clock, frequency, CPUs, namespaces, limits.

use super::{Check, State};
use crate::environment::{Environment, format_cpu_list, kernel, max_threads, thread_limits};

pub(super) fn checks(environment: &Environment) -> Vec<Check> {
    vec![
        clock_source(environment),
        governor(environment),
        cpus(environment),
        pid_namespace(environment),
        virtualisation(environment),
        memlock(environment),
        threads(environment),
    ]
}

fn reason(environment: &Environment, field: &str) -> String {
    environment.unavailable.get(field).cloned().unwrap_or_else(|| "not known".to_owned())
}

fn clock_source(environment: &Environment) -> Check {
    let name = "clock source";
    match (&environment.clock_source, environment.has_fast_clock()) {
        (Some(source), true) => Check::optional(name, State::Met, source.clone()),
        (Some(source), false) => Check::optional(
            name,
            State::Limited,
            format!("{source}, which may need a system call"),
        )
        .advise(
            "choose one of /sys/devices/system/clocksource/clocksource0/available_clocksource that the vDSO \
                 reads",
        ),
        (None, _) => Check::optional(name, State::Unknown, reason(environment, "clock_source")),
    }
}

fn governor(environment: &Environment) -> Check {
    let name = "CPU frequency governor";
    match environment.governor.as_deref() {
        Some("performance") => Check::optional(name, State::Met, "performance"),
        Some(governor) => Check::optional(name, State::Limited, format!("{governor}, the frequency changes"))
            .advise("for the time of a measurement: `sudo cpupower frequency-set -g performance`"),
        None => Check::optional(name, State::Unknown, reason(environment, "governor")),
    }
}

fn cpus(environment: &Environment) -> Check {
    let usable = environment.usable_cpu_count();
    let online = environment.cpus_online.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let mut found =
        format!("{usable} of {online} online CPUs usable ({})", format_cpu_list(&environment.cpus_usable));
    let quota = environment.cpu_quota;
    found += &match quota {
        Some(quota) => format!(", a quota of {quota:.2} CPUs"),
        None if environment.unavailable.contains_key("cpu_quota") => {
            format!(", quota not known: {}", reason(environment, "cpu_quota"))
        }
        None => ", no quota".to_owned(),
    };
    let name = "CPU affinity and quota";
    #[allow(clippy::cast_precision_loss, reason = "CPU counts are small")]
    if quota.is_some_and(|quota| quota < usable as f64) {
        Check::optional(name, State::Limited, found).advise(
            "threads beyond the quota are stopped together: raise cpu.max (cpu.cfs_quota_us), or use fewer",
        )
    } else if usable < 2 {
        Check::optional(name, State::Limited, found)
            .advise("on one CPU threads only take turns: allow more with taskset or the cpuset")
    } else {
        Check::optional(name, State::Met, found)
    }
}

fn pid_namespace(environment: &Environment) -> Check {
    let name = "PID namespace";
    match environment.pid_namespace {
        Some(false) => Check::optional(name, State::Met, "the machine's first"),
        Some(true) => Check::optional(name, State::Met, "a nested one: process numbers are translated"),
        None => Check::optional(name, State::Unknown, reason(environment, "pid_namespace")),
    }
}

fn virtualisation(environment: &Environment) -> Check {
    let name = "virtualisation";
    let container =
        environment.container.as_ref().map(|kind| format!("; container: {kind}")).unwrap_or_default();
    match &environment.virtualisation {
        Some(kind) => Check::optional(name, State::Limited, format!("{kind}{container}"))
            .advise("the host may take the CPU away unseen: repeat, and compare minimum and spread"),
        None if environment.unavailable.contains_key(name) => {
            Check::optional(name, State::Unknown, reason(environment, name) + &container)
        }
        None => Check::optional(name, State::Met, format!("no sign of a virtual machine{container}")),
    }
}

fn memlock(environment: &Environment) -> Check {
    let name = "memlock limit";
    let matters = kernel::counts_maps_as_locked(environment);
    match environment.memlock_limit_bytes {
        None if environment.unavailable.contains_key("memlock_limit_bytes") => {
            Check::optional(name, State::Unknown, reason(environment, "memlock_limit_bytes"))
        }
        None => Check::optional(name, State::Met, "unlimited"),
        Some(bytes) if matters => Check::optional(
            name,
            State::Limited,
            format!("{bytes} bytes, and this kernel counts maps as locked"),
        )
        .advise("`ulimit -l unlimited`, or give CAP_SYS_RESOURCE"),
        Some(bytes) => Check::optional(
            name,
            State::Met,
            format!("{bytes} bytes, which does not count for maps (Linux 5.11 and newer)"),
        ),
    }
}

fn threads(environment: &Environment) -> Check {
    let name = "thread limit";
    match thread_limits(environment).first() {
        None => Check::optional(name, State::Unknown, "no limit could be read"),
        Some(limit) => Check::optional(
            name,
            State::Met,
            format!("{} more threads can be created, limited by {}", max_threads(environment), limit.source),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_here_is_required_whatever_is_known() {
        for environment in [Environment::default(), Environment::read()] {
            for check in checks(&environment) {
                assert!(!check.required && check.state != State::Unmet, "{check:?}");
            }
        }
    }

    #[test]
    fn a_quota_and_a_single_cpu_are_limits() {
        let two = Environment { cpus_online: Some(2), cpus_usable: vec![0, 1], ..Environment::default() };
        assert_eq!(cpus(&two).found, "2 of 2 online CPUs usable (0-1), no quota");
        assert_eq!(cpus(&two).state, State::Met);
        let throttled = Environment { cpu_quota: Some(0.2), ..two.clone() };
        assert_eq!(cpus(&throttled).found, "2 of 2 online CPUs usable (0-1), a quota of 0.20 CPUs");
        assert_eq!(cpus(&throttled).state, State::Limited);
        assert_eq!(cpus(&Environment { cpus_usable: vec![1], ..two }).state, State::Limited);
    }

    #[test]
    fn the_memory_limit_matters_on_old_kernels_only() {
        let at = |release: &str| Environment {
            kernel_release: Some(release.to_owned()),
            memlock_limit_bytes: Some(65_536),
            ..Environment::default()
        };
        assert_eq!(memlock(&at("5.4.0-generic")).state, State::Limited);
        assert_eq!(memlock(&at("5.11.0")).state, State::Met);
        assert_eq!(memlock(&at("6.18.44")).state, State::Met);
    }

    #[test]
    fn what_could_not_be_read_is_unknown_with_its_reason() {
        let mut environment = Environment::default();
        environment.unavailable.insert("clock_source".to_owned(), "no /sys".to_owned());
        let check = clock_source(&environment);
        assert_eq!((check.state, check.found.as_str()), (State::Unknown, "no /sys"));
    }
}
