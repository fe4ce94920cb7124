//! What an error of the BPF system call means, and what helps: different causes get different words.

use super::bpf_call;
use super::capability::Rights;
use crate::environment::{Environment, file};

/// Advice for a refused `bpf(2)` call by its error number.
pub(super) fn refused_call(errno: i32, rights: &Rights, environment: &Environment) -> String {
    match errno {
        libc::EPERM => not_permitted(rights, environment),
        libc::EACCES => {
            "a security policy refuses the call, whatever the capabilities are: look for a denial \
                         in the kernel log (`dmesg`, `ausearch -m avc`) from SELinux, AppArmor or a BPF LSM, \
                         and at the container's seccomp profile"
                .to_owned()
        }
        libc::ENOSYS => format!(
            "the kernel is built without CONFIG_BPF_SYSCALL, or a seccomp filter hides the call{}",
            seccomp_note(rights)
        ),
        libc::EINVAL => {
            "the kernel does not know maps that user space can map (BPF_F_MMAPABLE); Linux 5.5 or \
                         newer does"
                .to_owned()
        }
        libc::ENOMEM => {
            "the kernel has no memory for the map: see the memory limit of the control group".to_owned()
        }
        _ => "this error is not expected here: see the kernel log (`dmesg`)".to_owned(),
    }
}

fn not_permitted(rights: &Rights, environment: &Environment) -> String {
    let missing = rights.missing();
    if !missing.is_empty() {
        let path = "/proc/sys/kernel/unprivileged_bpf_disabled";
        let setting = file::text(path).map_or_else(|reason| reason, |value| format!("is {value} here"));
        return format!(
            "{} would allow it, see capabilities (kernel.unprivileged_bpf_disabled {setting}; tracing needs \
             the capabilities with every setting)",
            missing.join(" and ")
        );
    }
    if rights.in_user_namespace {
        return "the capabilities are those of a user namespace, and count only outside of it".to_owned();
    }
    if rights.accounts_memlock
        && let Some(limit) = environment.memlock_limit_bytes
    {
        return format!(
            "before Linux 5.11 maps count as locked memory, of which {limit} bytes are allowed: run \
             `ulimit -l unlimited`, or give CAP_SYS_RESOURCE"
        );
    }
    format!(
        "the capabilities are there, so something else refuses: a seccomp filter{}, or a security module \
         (`dmesg`)",
        seccomp_note(rights)
    )
}

fn seccomp_note(rights: &Rights) -> &'static str {
    if rights.filtered {
        " (this process has one; in a container allow bpf and perf_event_open in its seccomp profile)"
    } else {
        " (this process has none)"
    }
}

/// Advice for a program that the kernel did not load, by error number and the verifier's log; `None` when the
/// log says all there is to say. The caller keeps the log in its message.
#[must_use]
pub fn explain_load_failure(errno: i32, verifier_log: &str) -> Option<String> {
    let refused_helper =
        ["cannot use helper", "unknown func"].iter().any(|words| verifier_log.contains(words));
    if refused_helper && verifier_log.contains("probe_read") {
        return Some(
            "the kernel does not allow reading its memory; a possible cause is lockdown in confidentiality mode \
             (/sys/kernel/security/lockdown), another that it is older than the helper"
                .to_owned(),
        );
    }
    if refused_helper {
        return Some(
            "the kernel does not offer a helper that this program calls; it may be too old".to_owned(),
        );
    }
    if errno == libc::E2BIG {
        return Some("the program is too large for this kernel or its verifier".to_owned());
    }
    (verifier_log.is_empty() && matches!(errno, libc::EPERM | libc::EACCES)).then(|| {
        let environment = Environment::read();
        format!("{}: {}", bpf_call::NAME, refused_call(errno, &Rights::read(&environment), &environment))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_memory_read_names_lockdown_as_a_possible_cause() {
        let advice = explain_load_failure(libc::EINVAL, "0: cannot use helper bpf_probe_read#4").unwrap();
        assert!(advice.contains("lockdown in confidentiality mode"), "{advice}");
        let advice = explain_load_failure(libc::EINVAL, "unknown func bpf_probe_read_kernel#113").unwrap();
        assert!(advice.contains("lockdown"), "{advice}");
    }

    #[test]
    fn another_missing_helper_does_not_blame_lockdown() {
        let advice = explain_load_failure(libc::EINVAL, "unknown func bpf_get_current_task_btf#158").unwrap();
        assert!(!advice.contains("lockdown"), "{advice}");
        assert_eq!(explain_load_failure(libc::EACCES, "R1 invalid mem access 'scalar'"), None);
    }

    #[test]
    fn a_refusal_without_capabilities_names_them_and_the_setting() {
        let advice = refused_call(libc::EPERM, &Rights::of(&[]), &Environment::default());
        assert!(advice.starts_with("CAP_BPF and CAP_PERFMON would allow it"), "{advice}");
        assert!(advice.contains("kernel.unprivileged_bpf_disabled"), "{advice}");
    }

    #[test]
    fn a_refusal_in_spite_of_all_capabilities_names_what_else_it_can_be() {
        let none = Environment::default();
        let filtered = Rights { filtered: true, ..Rights::all() };
        assert!(
            refused_call(libc::EPERM, &filtered, &none).contains("seccomp filter (this process has one;")
        );
        let nested = Rights { in_user_namespace: true, ..Rights::all() };
        assert!(refused_call(libc::EPERM, &nested, &none).contains("user namespace"));
    }

    #[test]
    fn an_old_kernel_names_the_memory_limit() {
        let old = Rights { accounts_memlock: true, ..Rights::all() };
        let environment = Environment { memlock_limit_bytes: Some(65_536), ..Environment::default() };
        assert!(refused_call(libc::EPERM, &old, &environment).contains("65536 bytes are allowed"));
    }
}
