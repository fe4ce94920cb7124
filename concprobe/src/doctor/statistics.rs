//! Whether the kernel can time BPF programs, which tells the probes' own cost for each event (Linux 5.1; from a
//! program 5.8).

use super::bpf_call::enable_statistics;
use super::capability::{Rights, SYS_ADMIN};
use super::{Check, State};
use crate::environment::file;

const NAME: &str = "BPF statistics";
const SETTING: &str = "/proc/sys/kernel/bpf_stats_enabled";

pub(super) fn check(rights: &Rights) -> Check {
    let setting = file::text(SETTING);
    if setting.as_deref() == Ok("1") {
        return Check::optional(NAME, State::Met, "switched on for all programs, which makes each slower")
            .advise("switch them off when not needed: `sudo sysctl kernel.bpf_stats_enabled=0`");
    }
    judge(&setting, rights.has(SYS_ADMIN).then(|| enable_statistics().map(drop)))
}

/// `tried` is the outcome of switching them on, `None` when that was not tried for want of rights.
fn judge(setting: &Result<String, String>, tried: Option<Result<(), i32>>) -> Check {
    match (setting, tried) {
        (_, Some(Ok(()))) => {
            Check::optional(NAME, State::Met, "off, and can be switched on for the time of a measurement")
        }
        (_, Some(Err(errno))) => {
            let error = std::io::Error::from_raw_os_error(errno);
            Check::optional(NAME, State::Limited, format!("bpf(BPF_ENABLE_STATS) failed: {error}"))
                .advise("the probes' own cost is then not known; Linux 5.8 or newer tells it to root")
        }
        (Ok(_), None) => {
            Check::optional(NAME, State::Limited, "off, and CAP_SYS_ADMIN is needed to switch them on")
                .advise(
                    "the probes' own cost is then not known; run as root, or set `sudo sysctl \
                     kernel.bpf_stats_enabled=1` for the time of the measurement",
                )
        }
        (Err(reason), None) => Check::optional(NAME, State::Unknown, reason.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_never_required() {
        let off = Ok("0".to_owned());
        for tried in [None, Some(Ok(())), Some(Err(libc::EINVAL))] {
            let check = judge(&off, tried);
            assert!(!check.required && check.state != State::Unmet, "{check:?}");
        }
    }

    #[test]
    fn a_refusal_keeps_its_number() {
        let check = judge(&Ok("0".to_owned()), Some(Err(libc::EPERM)));
        assert!(check.found.contains("(os error 1)"), "{}", check.found);
    }

    #[test]
    fn without_the_setting_and_without_rights_nothing_is_known() {
        let check = judge(&Err(format!("{SETTING}: gone")), None);
        assert_eq!(
            (check.state, check.found.as_str()),
            (State::Unknown, "/proc/sys/kernel/bpf_stats_enabled: gone")
        );
    }
}
