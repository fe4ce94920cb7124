//! Which rights this process has, and which it needs: `CAP_BPF` to load and `CAP_PERFMON` to trace, or
//! `CAP_SYS_ADMIN` for both (and alone before Linux 5.8).

use super::command::executable;
use super::{Check, State};
use crate::environment::{Environment, file, kernel, namespace};

pub(super) const NAME: &str = "capabilities";

/// A capability: its name and its bit (linux/capability.h).
type Capability = (&'static str, u32);

const DAC_READ_SEARCH: Capability = ("CAP_DAC_READ_SEARCH", 2);
pub(super) const SYS_ADMIN: Capability = ("CAP_SYS_ADMIN", 21);
const SYS_RESOURCE: Capability = ("CAP_SYS_RESOURCE", 24);
const PERFMON: Capability = ("CAP_PERFMON", 38);
const BPF: Capability = ("CAP_BPF", 39);

/// The rights of this process, as far as they bear on BPF.
#[derive(Debug, Clone)]
pub(super) struct Rights {
    /// Effective capabilities, one bit each; `None` when they could not be read.
    pub(super) effective: Option<u64>,
    /// Whether they are those of a user namespace, which the BPF system call does not accept.
    pub(super) in_user_namespace: bool,
    /// Whether a seccomp filter watches the system calls of this process.
    pub(super) filtered: bool,
    /// Whether the kernel has `CAP_BPF` and `CAP_PERFMON` (Linux 5.8).
    pub(super) has_fine_capabilities: bool,
    /// Whether maps count against `RLIMIT_MEMLOCK` (before Linux 5.11).
    pub(super) accounts_memlock: bool,
}

impl Rights {
    pub(super) fn read(environment: &Environment) -> Self {
        let status = file::text("/proc/self/status").unwrap_or_default();
        let last: Result<u32, String> = file::value("/proc/sys/kernel/cap_last_cap");
        Self {
            effective: effective(&status),
            in_user_namespace: namespace::in_user_namespace(),
            filtered: file::field(&status, "Seccomp").is_some_and(|mode| mode != "0"),
            has_fine_capabilities: last.map_or(true, |last| last >= BPF.1),
            accounts_memlock: kernel::counts_maps_as_locked(environment),
        }
    }

    pub(super) fn has(&self, capability: Capability) -> bool {
        self.effective.is_some_and(|effective| effective >> capability.1 & 1 == 1)
    }

    /// The capabilities that are needed and missing.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let needed: &[Capability] = if self.has_fine_capabilities { &[BPF, PERFMON] } else { &[SYS_ADMIN] };
        if self.has(SYS_ADMIN) {
            return Vec::new();
        }
        needed.iter().filter(|capability| !self.has(**capability)).map(|capability| capability.0).collect()
    }

    #[cfg(test)]
    pub(super) fn of(capabilities: &[Capability]) -> Self {
        Self {
            effective: Some(capabilities.iter().map(|capability| 1 << capability.1).sum()),
            in_user_namespace: false,
            filtered: false,
            has_fine_capabilities: true,
            accounts_memlock: false,
        }
    }

    #[cfg(test)]
    pub(super) fn all() -> Self {
        Self::of(&[DAC_READ_SEARCH, SYS_ADMIN, SYS_RESOURCE, PERFMON, BPF])
    }
}

/// The effective set in `/proc/self/status`, hexadecimal.
fn effective(status: &str) -> Option<u64> {
    u64::from_str_radix(file::field(status, "CapEff")?, 16).ok()
}

pub(super) fn check(rights: &Rights, has_btf: bool) -> Check {
    judge(rights, has_btf, &executable())
}

/// The BPF system call accepts only rights of the machine's first user namespace.
pub(super) fn user_namespace(rights: &Rights) -> Check {
    let name = "user namespace";
    if rights.in_user_namespace {
        Check::required(
            name,
            State::Unmet,
            "a nested one, whose capabilities do not reach the BPF system call",
        )
        .advise("run outside of it, not in a rootless container")
    } else {
        Check::required(name, State::Met, "the machine's first")
    }
}

fn judge(rights: &Rights, has_btf: bool, executable: &str) -> Check {
    if rights.effective.is_none() {
        return Check::required(NAME, State::Unknown, "/proc/self/status has no CapEff");
    }
    let missing = rights.missing();
    if !missing.is_empty() {
        return Check::required(NAME, State::Unmet, format!("lacks {}", missing.join(" and ")))
            .advise(advice(rights, has_btf, executable));
    }
    let relevant = [BPF, PERFMON, SYS_ADMIN, SYS_RESOURCE, DAC_READ_SEARCH];
    let held: Vec<_> = relevant.iter().filter(|it| rights.has(**it)).map(|it| it.0).collect();
    let held = held.join(", ");
    if rights.accounts_memlock && !rights.has(SYS_RESOURCE) {
        return Check::required(NAME, State::Limited, format!("has {held}, and lacks {}", SYS_RESOURCE.0))
            .advise(
                "before Linux 5.11 maps count as locked memory, whose limit only CAP_SYS_RESOURCE may \
                     raise: see the memlock limit",
            );
    }
    Check::required(NAME, State::Met, format!("has {held}"))
}

fn advice(rights: &Rights, has_btf: bool, executable: &str) -> String {
    let mut wanted =
        if rights.has_fine_capabilities { vec!["cap_bpf", "cap_perfmon"] } else { vec!["cap_sys_admin"] };
    if !has_btf {
        // tracefs belongs to root alone, mode 0700 by default.
        wanted.push("cap_dac_read_search");
    }
    if rights.accounts_memlock {
        wanted.push("cap_sys_resource");
    }
    let wanted = wanted.join(",");
    format!("run `sudo {executable} …`, or once `sudo setcap {wanted}=ep {executable}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_from_its_line() {
        let status = "CapPrm:\t0000000000000000\nCapEff:\t000000c000000000\n";
        assert_eq!(effective(status), Some(1 << 38 | 1 << 39));
        assert_eq!(effective("CapEff:\tffffffffffffffff"), Some(u64::MAX));
        assert_eq!(effective("CapEff:\tnonsense"), None);
        assert_eq!(effective(""), None);
    }

    #[test]
    fn loading_and_tracing_need_two_capabilities_or_the_one_that_holds_both() {
        assert_eq!(Rights::of(&[]).missing(), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(Rights::of(&[BPF]).missing(), ["CAP_PERFMON"]);
        assert_eq!(Rights::of(&[PERFMON]).missing(), ["CAP_BPF"]);
        assert_eq!(Rights::of(&[BPF, PERFMON]).missing(), [""; 0]);
        assert_eq!(Rights::of(&[SYS_ADMIN]).missing(), [""; 0]);
    }

    #[test]
    fn an_old_kernel_knows_only_the_old_capability() {
        let old = Rights { has_fine_capabilities: false, ..Rights::of(&[]) };
        assert_eq!(old.missing(), ["CAP_SYS_ADMIN"]);
        assert!(advice(&old, true, "/bin/concprobe").contains("setcap cap_sys_admin=ep /bin/concprobe"));
    }

    #[test]
    fn the_advice_is_a_command_with_the_path_of_this_program() {
        let check = judge(&Rights::of(&[]), true, "/opt/concprobe");
        assert_eq!(check.state, State::Unmet);
        assert_eq!(check.found, "lacks CAP_BPF and CAP_PERFMON");
        assert_eq!(
            check.advice.as_deref(),
            Some("run `sudo /opt/concprobe …`, or once `sudo setcap cap_bpf,cap_perfmon=ep /opt/concprobe`")
        );
    }

    #[test]
    fn without_kernel_types_the_files_of_tracefs_must_be_readable_too() {
        let advice = judge(&Rights::of(&[BPF]), false, "/opt/concprobe").advice.unwrap();
        assert!(advice.contains("setcap cap_bpf,cap_perfmon,cap_dac_read_search=ep"), "{advice}");
    }

    #[test]
    fn rights_of_a_user_namespace_do_not_count() {
        let check = user_namespace(&Rights { in_user_namespace: true, ..Rights::all() });
        assert!(check.required && check.state == State::Unmet);
        assert_eq!(user_namespace(&Rights::all()).state, State::Met);
    }

    #[test]
    fn an_old_kernel_may_need_the_right_to_raise_the_memory_limit() {
        let rights = Rights { accounts_memlock: true, ..Rights::of(&[BPF, PERFMON]) };
        assert_eq!(judge(&rights, true, "/opt/concprobe").state, State::Limited);
        let rights = Rights { effective: None, ..rights };
        assert_eq!(judge(&rights, true, "/opt/concprobe").state, State::Unknown);
    }
}
