//! Lockdown in confidentiality mode keeps BPF programs from reading kernel memory (`lockdown(7)`).

use super::{Check, State};
use crate::environment::file;

pub(super) const NAME: &str = "lockdown";

const FILE: &str = "/sys/kernel/security/lockdown";

pub(super) fn check() -> Check {
    let text = file::text(FILE);
    let mode = match &text {
        Ok(text) => file::chosen(text).ok_or_else(|| format!("{FILE}: unexpected content {text:?}")),
        Err(reason) => Err(explain(reason, &file::text("/proc/mounts").unwrap_or_default())),
    };
    judge(mode)
}

/// Why the mode cannot be read.
fn explain(reason: &str, mounts: &str) -> String {
    let mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some("securityfs"));
    if reason.contains("Permission denied") {
        reason.to_owned()
    } else if mounted {
        format!("{reason}; the kernel has no lockdown")
    } else {
        "unknown, securityfs is not mounted".to_owned()
    }
}

pub(super) fn judge(mode: Result<&str, String>) -> Check {
    match mode {
        Ok("confidentiality") => {
            Check::required(NAME, State::Unmet, "confidentiality: BPF may not read kernel memory").advise(
                "boot without `lockdown=confidentiality` (with Secure Boot, `lockdown=integrity` is enough)",
            )
        }
        Ok(mode) => Check::required(NAME, State::Met, mode),
        Err(reason) if reason.ends_with("the kernel has no lockdown") => {
            Check::required(NAME, State::Met, reason)
        }
        Err(reason) => {
            let check = Check::required(NAME, State::Unknown, reason);
            if check.found.contains("not mounted") {
                check.advise("`sudo mount -t securityfs securityfs /sys/kernel/security` shows it")
            } else {
                check
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: &str = "/sys/kernel/security/lockdown: No such file or directory (os error 2)";

    #[test]
    fn only_confidentiality_stops_a_measurement() {
        assert_eq!(judge(Ok("none")).state, State::Met);
        assert_eq!(judge(Ok("integrity")).state, State::Met);
        let check = judge(Ok("confidentiality"));
        assert!(check.required && check.state == State::Unmet);
    }

    #[test]
    fn without_securityfs_the_mode_is_unknown_and_the_mount_is_named() {
        let check = judge(Err(explain(ABSENT, "sysfs /sys sysfs rw 0 0\n")));
        assert_eq!(
            (check.state, check.found.as_str()),
            (State::Unknown, "unknown, securityfs is not mounted")
        );
        assert!(check.advice.unwrap().contains("mount -t securityfs"));
    }

    #[test]
    fn with_securityfs_an_absent_file_means_no_lockdown() {
        let mounts = "securityfs /sys/kernel/security securityfs rw 0 0\n";
        assert_eq!(judge(Err(explain(ABSENT, mounts))).state, State::Met);
    }

    #[test]
    fn a_file_that_may_not_be_read_is_unknown() {
        let check = judge(Err(explain("/x: Permission denied (os error 13)", "")));
        assert_eq!((check.state, check.advice), (State::Unknown, None));
    }
}
