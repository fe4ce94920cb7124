//! The machine a result was measured on, saved with every result.
//! A field that is `None` with an entry in `unavailable` was not measured; `None` without one means
//! "no limit" or "none seen", as the field says. Reading never fails and takes a few milliseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod affinity;
mod cgroup;
mod cpu_list;
pub(crate) mod file;
pub(crate) mod kernel;
mod machine;
pub(crate) mod namespace;
mod processor;
mod quota;
mod thread_limit;
pub mod tracefs;
mod warning;

pub use cpu_list::{HIGHEST_CPU, format_cpu_list, parse_cpu_list};
pub use thread_limit::{ThreadLimit, max_threads, thread_limits};

/// What the machine and the limits on this process were when the measurement began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of concprobe that measured.
    pub concprobe_version: String,
    /// C library and version (`gnu_get_libc_version`), such as `glibc 2.36`.
    pub libc_version: Option<String>,
    /// Kernel release, `uname -r`.
    pub kernel_release: Option<String>,
    /// Kernel build, `uname -v`.
    pub kernel_version: Option<String>,
    /// Machine name of the kernel, `uname -m`.
    pub architecture: Option<String>,
    /// Preemption model (`none`, `voluntary`, `full`, `lazy`, `rt`): debugfs `sched/preempt`, else the boot
    /// parameter, the kernel build string or the kernel's configuration.
    pub preemption_model: Option<String>,
    /// Processor name from `/proc/cpuinfo`.
    pub cpu_model: Option<String>,
    /// Number of online CPUs, `/sys/devices/system/cpu/online`.
    pub cpus_online: Option<usize>,
    /// Number of CPUs that the kernel could bring up, `/sys/devices/system/cpu/possible`.
    pub cpus_possible: Option<usize>,
    /// Numbers of the CPUs this process may run on, `sched_getaffinity(2)`; empty when unknown.
    pub cpus_usable: Vec<usize>,
    /// Number of different cores among the usable CPUs, from their `core_cpus_list`.
    pub cores_usable: Option<usize>,
    /// CPU time that the control groups allow, in CPUs: the smallest `cpu.max` or `cpu.cfs_quota_us` on the
    /// way from our group to the root. `None`: no quota.
    pub cpu_quota: Option<f64>,
    /// CPU frequency governor of the first usable CPU, `cpufreq/scaling_governor`.
    pub governor: Option<String>,
    /// Whether simultaneous multithreading is active, `/sys/devices/system/cpu/smt/active`.
    pub smt: Option<bool>,
    /// State of each processor vulnerability, `/sys/devices/system/cpu/vulnerabilities`.
    pub mitigations: BTreeMap<String, String>,
    /// Current clock source of the kernel, `/sys/devices/system/clocksource`.
    pub clock_source: Option<String>,
    /// Hypervisor and machine model when the machine is virtual (CPUID, DMI, `/sys/hypervisor`). `None`: no
    /// sign of one.
    pub virtualisation: Option<String>,
    /// Kind of container and what gave it away. `None`: no sign of one.
    pub container: Option<String>,
    /// Whether this process lives in a PID namespace that is not the machine's first.
    pub pid_namespace: Option<bool>,
    /// Average number of tasks that ran or wanted to, over the last minute, `/proc/loadavg`.
    pub load_average_1m: Option<f64>,
    /// Memory of the machine in bytes, `MemTotal` of `/proc/meminfo`.
    pub memory_total_bytes: Option<u64>,
    /// First thread number that is not given out, `/proc/sys/kernel/pid_max`.
    pub pid_max: Option<u64>,
    /// Threads that the kernel allows in all, `/proc/sys/kernel/threads-max`.
    pub threads_max: Option<u64>,
    /// Threads that exist on the machine, `/proc/loadavg`.
    pub threads_existing: Option<u64>,
    /// Threads allowed to this user, the soft `RLIMIT_NPROC`. `None`: unlimited.
    pub threads_limit: Option<u64>,
    /// Whether `threads_limit` binds this process; the kernel exempts root, `CAP_SYS_ADMIN` and
    /// `CAP_SYS_RESOURCE` (`fork(2)`, `EAGAIN`).
    pub threads_limit_applies: bool,
    /// Threads allowed to our control group, the smallest `pids.max` up to the root. `None`: no limit.
    pub pids_limit: Option<u64>,
    /// Threads that the control groups still allow, the smallest `pids.max` − `pids.current`. `None`: no limit.
    pub pids_available: Option<u64>,
    /// Memory mappings a process may have, `/proc/sys/vm/max_map_count`.
    pub map_count_limit: Option<u64>,
    /// Memory that may be locked, in bytes, the soft `RLIMIT_MEMLOCK`. `None`: unlimited.
    pub memlock_limit_bytes: Option<u64>,
    /// Name of each field above that could not be read → the reason.
    pub unavailable: BTreeMap<String, String>,
}

impl Environment {
    /// Reads everything; what cannot be read is listed in `unavailable`.
    #[must_use]
    pub fn read() -> Self {
        let mut environment =
            Self { concprobe_version: env!("CARGO_PKG_VERSION").to_owned(), ..Self::default() };
        kernel::fill(&mut environment);
        affinity::fill(&mut environment);
        processor::fill(&mut environment);
        machine::fill(&mut environment);
        quota::fill(&mut environment);
        namespace::fill(&mut environment);
        thread_limit::fill(&mut environment);
        environment
    }

    /// Number of CPUs this process may run on, by affinity, else those online; at least 1.
    #[must_use]
    pub fn usable_cpu_count(&self) -> usize {
        match self.cpus_usable.len() {
            0 => self.cpus_online.unwrap_or(1).max(1),
            count => count,
        }
    }

    /// Whether the clock is known to be read without a system call.
    #[must_use]
    pub fn has_fast_clock(&self) -> bool {
        self.clock_source.as_deref().is_some_and(warning::is_fast_clock)
    }

    /// What makes figures less trustworthy here, one line each: what was seen, why it matters, what helps.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        warning::all(self)
    }

    /// Takes the value, or keeps the reason why `field` has none.
    fn take<T>(&mut self, field: &str, reading: Result<T, String>) -> Option<T> {
        match reading {
            Ok(value) => Some(value),
            Err(reason) => {
                self.lack(&[field], &reason);
                None
            }
        }
    }

    fn lack(&mut self, fields: &[&str], reason: &str) {
        for field in fields {
            self.unavailable.insert((*field).to_owned(), reason.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_always_has_a_value_is_read_on_linux() {
        let environment = Environment::read();
        assert!(environment.kernel_release.is_some(), "{environment:?}");
        assert!(environment.memory_total_bytes > Some(1 << 20));
        assert!(environment.cpus_usable.len() <= environment.cpus_possible.unwrap_or(usize::MAX));
        assert!(max_threads(&environment) > 0);
    }

    #[test]
    fn a_saved_environment_reads_back_equal() {
        let environment = Environment::read();
        let text = serde_json::to_string(&environment).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), environment);
    }

    #[test]
    fn a_result_of_another_version_reads_with_what_it_has() {
        let environment: Environment =
            serde_json::from_str(r#"{"kernel_release": "6.1.0", "colour": "blue"}"#).unwrap();
        assert_eq!(environment.kernel_release.as_deref(), Some("6.1.0"));
        assert_eq!(environment.usable_cpu_count(), 1);
    }

    #[test]
    fn without_an_affinity_list_the_online_cpus_count_as_usable() {
        let environment = Environment { cpus_online: Some(4), ..Environment::default() };
        assert_eq!(environment.usable_cpu_count(), 4);
    }
}
