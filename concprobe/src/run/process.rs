//! The workload's process: this program again, with the descriptors that it needs and nothing else of the
//! driver. It dies with the driver, and leaves the terminal's signals to it.

use std::{
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::net::UnixStream,
    },
};

use anyhow::{Context as _, Result};
use tokio::process::{Child, Command};

/// The hidden command by which this program serves as a workload's process.
pub const COMMAND: &str = "serve-workload";

/// Starts the process; it inherits `descriptors` under their numbers, and the other end of the socket.
///
/// # Errors
/// When the system cannot start it.
pub fn start(descriptors: &[BorrowedFd<'_>]) -> Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
    let mut inherited: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    inherited.push(theirs.as_raw_fd());
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = Command::new(program);
    command.arg(COMMAND).arg(theirs.as_raw_fd().to_string()).kill_on_drop(true);
    // SAFETY: between fork and exec only plain system calls are made.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::signal(libc::SIGINT, libc::SIG_IGN);
            libc::signal(libc::SIGTERM, libc::SIG_IGN);
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            raise_descriptor_limit();
            for fd in &inherited {
                if libc::fcntl(*fd, libc::F_SETFD, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let child = command.spawn().context("cannot start the workload's process")?;
    Ok((child, ours))
}

/// Each member of the crew takes two descriptors; the hard limit stays what it is.
fn raise_descriptor_limit() {
    // SAFETY: plain system calls on a local value.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
