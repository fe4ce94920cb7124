//! What concprobe was started with, remembered before `main`: Rust's runtime ignores SIGPIPE and opens
//! `/dev/null` for closed standard descriptors, tokio installs handlers, and limits may be raised. The
//! command gets what was there before.

use std::{ops::BitOr, ptr, sync::OnceLock};

/// Signals are numbered from 1 to this (kernel: `_NSIG`).
const SIGNALS: i32 = 64;
/// Limits are numbered from 0 to below this (kernel: `RLIM_NLIMITS`).
const LIMITS: u32 = 16;
/// Where the kernel cannot mark a range of descriptors, those below this are marked one by one.
const DESCRIPTORS: i32 = 1024;

/// Dispositions, signal mask, limits and descriptors as concprobe itself was given them.
#[derive(Debug)]
pub struct Undisturbed {
    /// Bit `n - 1` is set when signal `n` was ignored.
    ignored: u64,
    /// Bit `n - 1` is set when signal `n` was blocked.
    blocked: u64,
    limits: Vec<(u32, libc::rlimit64)>,
    /// In ascending order; `None` where `/proc` could not be read.
    descriptors: Option<Vec<i32>>,
}

static REMEMBERED: OnceLock<Undisturbed> = OnceLock::new();

/// The C library calls this before it calls `main`, which is where Rust's runtime begins.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    Undisturbed::remembered();
}

/// The bit of a signal in a mask as the kernel writes it.
pub(super) fn bit(signal: i32) -> u64 {
    u32::try_from(signal - 1).ok().and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0)
}

/// Sets the calling thread's mask and returns the one that it had. The C library's own call would leave out
/// the signals that it keeps for itself.
pub(super) fn set_mask(mask: u64) -> u64 {
    let mut previous = 0_u64;
    // SAFETY: both point to eight bytes, the size that the kernel is told.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut previous,
            size_of::<u64>(),
        )
    };
    previous
}

impl Undisturbed {
    /// What was remembered before `main`.
    pub fn remembered() -> &'static Self {
        REMEMBERED.get_or_init(Self::now)
    }

    fn now() -> Self {
        let mut blocked = 0_u64;
        // SAFETY: without a new mask the call only reports the old one, into eight bytes.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK,
                ptr::null::<u64>(),
                &raw mut blocked,
                size_of::<u64>(),
            )
        };
        let ignored = (1..=SIGNALS).filter(|signal| is_ignored(*signal)).map(bit).fold(0, BitOr::bitor);
        Self { ignored, blocked, limits: limits(), descriptors: descriptors() }
    }

    /// Signals that were ignored, bit `n - 1` for signal `n`.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Whether the descriptor was open when concprobe was started.
    pub fn had_descriptor(&self, descriptor: i32) -> bool {
        self.descriptors.as_ref().is_none_or(|open| open.contains(&descriptor))
    }

    /// Puts dispositions and the mask back. Between fork and exec.
    pub(super) fn restore_signals(&self) {
        for signal in 1..=SIGNALS {
            let ignored = self.ignored & bit(signal) != 0;
            set_disposition(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
        }
        set_mask(self.blocked);
    }

    /// Puts the limits back. Between fork and exec.
    pub(super) fn restore_limits(&self) {
        for (resource, limit) in &self.limits {
            // SAFETY: the kernel reads one limit.
            unsafe {
                libc::syscall(
                    libc::SYS_prlimit64,
                    0,
                    *resource,
                    ptr::from_ref(limit),
                    ptr::null_mut::<libc::rlimit64>(),
                )
            };
        }
    }

    /// Lets exec close all descriptors but those that were there at the start. Between fork and exec.
    pub(super) fn mark_descriptors(&self) {
        // Without the list, what concprobe opened is closed all the same, since it opens with CLOEXEC.
        let Some(open) = &self.descriptors else { return };
        let mut next = 0;
        for descriptor in open {
            mark(next, descriptor - 1, open);
            next = descriptor + 1;
        }
        mark(next, i32::MAX, open);
    }
}

fn mark(first: i32, last: i32, open: &[i32]) {
    if first > last {
        return;
    }
    // SAFETY: a plain system call.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) } == 0;
    // Before Linux 5.11.
    if !marked {
        for descriptor in (first..=last.min(DESCRIPTORS)).filter(|descriptor| !open.contains(descriptor)) {
            // SAFETY: a plain system call; a descriptor that is not open is refused.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// The kernel's `struct sigaction` (x86-64 and aarch64). The C library's calls would leave out the signals
/// that it keeps for itself, which may be ignored too.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

impl Action {
    const fn without_handler(handler: usize) -> Self {
        Self { handler, flags: 0, restorer: 0, mask: 0 }
    }
}

/// Whether the calling process ignores the signal.
pub(super) fn is_ignored(signal: i32) -> bool {
    let mut action = Action::without_handler(libc::SIG_DFL);
    // SAFETY: without a new action the call only reports the old one.
    let known = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            ptr::null::<Action>(),
            &raw mut action,
            size_of::<u64>(),
        )
    } == 0;
    known && action.handler == libc::SIG_IGN
}

/// Gives the signal an effect without a handler.
fn set_disposition(signal: i32, disposition: usize) {
    let action = Action::without_handler(disposition);
    // SAFETY: there is no handler that could be wrong; a signal that cannot be set is refused.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const action,
            ptr::null_mut::<Action>(),
            size_of::<u64>(),
        )
    };
}

fn limits() -> Vec<(u32, libc::rlimit64)> {
    let limit = |resource: u32| {
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel writes one limit.
        let known = unsafe {
            libc::syscall(libc::SYS_prlimit64, 0, resource, ptr::null::<libc::rlimit64>(), &raw mut limit)
        } == 0;
        known.then_some((resource, limit))
    };
    (0..LIMITS).filter_map(limit).collect()
}

fn descriptors() -> Option<Vec<i32>> {
    let mut open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The folder's own descriptor is among them, and closed by now.
    // SAFETY: a plain system call; a descriptor that is not open is refused.
    open.retain(|descriptor| unsafe { libc::fcntl(*descriptor, libc::F_GETFD) } >= 0);
    open.sort_unstable();
    Some(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_bits_that_the_kernel_shows() {
        assert_eq!(bit(1), 1);
        assert_eq!(bit(libc::SIGPIPE), 0x1000);
        assert_eq!(bit(64), 1 << 63);
        assert_eq!(bit(0), 0);
        assert_eq!(bit(65), 0);
    }

    #[test]
    fn what_the_runtime_ignores_was_not_ignored_before_it() {
        // Whoever starts the tests may ignore it too; then there is nothing to tell apart.
        assert!(is_ignored(libc::SIGPIPE), "Rust's runtime ignores it in this process");
        let status = std::fs::read_to_string(format!("/proc/{}/status", std::os::unix::process::parent_id()));
        let parent_ignores = status.is_ok_and(|status| {
            let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
            u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & bit(libc::SIGPIPE) != 0
        });
        let remembered = Undisturbed::remembered().ignored() & bit(libc::SIGPIPE) != 0;
        assert!(!remembered || parent_ignores);
    }

    #[test]
    fn the_standard_descriptors_were_open_and_the_folder_is_not_among_them() {
        let open = Undisturbed::remembered().descriptors.as_ref().unwrap();
        assert!(open.is_sorted());
        assert!(open.starts_with(&[0, 1, 2]), "{open:?}");
    }
}
