//! Tries the BPF system call with what concprobe needs first: an array map that user space can map (Linux 5.5).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::capability::Rights;
use super::explanation;
use super::{Check, State};
use crate::environment::Environment;

pub(super) const NAME: &str = "BPF system call";

// linux/bpf.h: commands, map type and flag.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_ENABLE_STATS: libc::c_int = 32;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Room for `union bpf_attr` of every kernel so far; what a kernel does not know must be zero, and is.
type Attributes = [u32; 32];

pub(super) fn check(rights: &Rights, environment: &Environment) -> Check {
    judge(create_map(), rights, environment)
}

fn judge(result: Result<(), i32>, rights: &Rights, environment: &Environment) -> Check {
    match result {
        Ok(()) => Check::required(NAME, State::Met, "an array map that user space can map was created"),
        Err(errno) => {
            let text = io::Error::from_raw_os_error(errno).to_string();
            let found = format!("bpf(BPF_MAP_CREATE) failed: {text}");
            Check::required(NAME, State::Unmet, found).advise(explanation::refused_call(
                errno,
                rights,
                environment,
            ))
        }
    }
}

/// Creates the smallest array map and closes it; the error number on failure.
fn create_map() -> Result<(), i32> {
    let mut attributes: Attributes = [0; 32];
    // map_type, key_size, value_size, max_entries, map_flags: the first five fields for BPF_MAP_CREATE.
    attributes[..5].copy_from_slice(&[BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_MMAPABLE]);
    call(BPF_MAP_CREATE, &attributes).map(drop)
}

/// Switches the run-time statistics of BPF programs on for as long as the descriptor is open (Linux 5.8).
pub(super) fn enable_statistics() -> Result<OwnedFd, i32> {
    // The only field is the kind of statistics; 0 is BPF_STATS_RUN_TIME.
    call(BPF_ENABLE_STATS, &[0; 32])
}

fn call(command: libc::c_int, attributes: &Attributes) -> Result<OwnedFd, i32> {
    // SAFETY: the kernel reads `size` bytes of the array, which is that long and alive.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of::<Attributes>()) };
    match i32::try_from(result) {
        // SAFETY: both commands return a new descriptor, which nobody else owns.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_keeps_its_number_and_gets_an_advice_of_its_own() {
        let (rights, environment) = (Rights::all(), Environment::default());
        let checks = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EINVAL, libc::ENOMEM]
            .map(|errno| (errno, judge(Err(errno), &rights, &environment)));
        for (errno, check) in &checks {
            assert!(check.found.contains(&format!("(os error {errno})")), "{}", check.found);
            assert!(check.required && check.state == State::Unmet);
        }
        let advice: std::collections::BTreeSet<_> = checks.iter().map(|(_, check)| &check.advice).collect();
        assert_eq!(advice.len(), checks.len());
    }

    #[test]
    fn a_created_map_is_met() {
        assert_eq!(judge(Ok(()), &Rights::all(), &Environment::default()).state, State::Met);
    }
}
