//! A descriptor of a process (`pidfd`, Linux 5.3): it names one process for good, whoever gets its number
//! later, and becomes readable when that process has ended.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use tokio::io::{Interest, unix::AsyncFd};

#[derive(Debug)]
pub(super) struct ProcessDescriptor(OwnedFd);

impl ProcessDescriptor {
    pub fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: a plain system call; what it returns is a new descriptor, which exec closes.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let descriptor = i32::try_from(descriptor).unwrap_or(-1);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened just now and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Whether the process has ended, all of its threads.
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, and no waiting.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// Waits until the process has ended.
    pub async fn ended(&self) -> io::Result<()> {
        // A descriptor of its own for each waiting: one can be registered only once.
        // SAFETY: it owns the descriptor, which stays the same.
        let waiting = unsafe { AsyncFd::register_with_interest(self.0.try_clone()?, Interest::READABLE) }?;
        waiting.readable().await.map(drop)
    }
}
