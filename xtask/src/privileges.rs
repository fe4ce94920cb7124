//! Whether this process may load and attach eBPF programs, and what stands in front of one that may.

use std::fs;

use anyhow::{Result, bail};

use crate::command::which;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Whether root's rights, or the capabilities for eBPF and tracing, are in effect.
pub(crate) fn suffice() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    user == 0 || effective(&status).is_some_and(allow_tracing)
}

/// An error that says what helps, when there is no sudo; `task` is what to run again.
pub(crate) fn require_sudo(task: &str) -> Result<()> {
    if which("sudo").is_none() {
        bail!(
            "loading eBPF programs needs root's rights (or the capabilities CAP_BPF and CAP_PERFMON), and \
             there is no sudo: run `{task}` as root, or install sudo"
        );
    }
    Ok(())
}

/// The effective capabilities in the text of `/proc/PID/status`, one bit each.
fn effective(status: &str) -> Option<u64> {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

fn allow_tracing(capabilities: u64) -> bool {
    let has = |capability: u32| capabilities >> capability & 1 == 1;
    has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_from_its_own_line() {
        let status = "Name:\tsh\nCapPrm:\t0000000000000001\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n";
        assert_eq!(effective(status), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("Name:\tsh\n"), None);
        assert_eq!(effective("CapEff:\tmany\n"), None);
    }

    #[test]
    fn both_narrow_capabilities_or_the_broad_one_are_needed() {
        assert!(!allow_tracing(0));
        assert!(!allow_tracing(1 << CAP_BPF));
        assert!(!allow_tracing(1 << CAP_PERFMON));
        assert!(allow_tracing(1 << CAP_BPF | 1 << CAP_PERFMON));
        assert!(allow_tracing(1 << CAP_SYS_ADMIN));
        assert!(!allow_tracing(!(1 << CAP_SYS_ADMIN | 1 << CAP_BPF)));
    }
}
