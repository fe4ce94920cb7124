//! A process that does nothing but be in concprobe's process group: a signal that it got too was sent to
//! the whole group, and so the command has got it. Nothing else tells `kill PID` from `kill -- -GROUP`.

use std::{
    io::{self, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    ptr,
    time::Duration,
};

use super::undisturbed::{bit, set_mask};
use crate::environment::file;

/// How long its answer is waited for; one that was stopped does not answer.
const PATIENCE: Duration = Duration::from_millis(100);
/// Where the kernel cannot close a range of descriptors, those below this are closed one by one.
const DESCRIPTORS: i32 = 1024;

#[derive(Debug)]
pub(super) struct Witness {
    pid: i32,
    socket: UnixStream,
}

impl Witness {
    pub fn post() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        // In the process all stay blocked: what is sent to it is then kept until it is asked.
        let mask = set_mask(u64::MAX);
        // SAFETY: the process makes plain system calls only.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            watch(theirs.as_raw_fd());
        }
        let error = io::Error::last_os_error();
        set_mask(mask);
        if pid < 0 { Err(error) } else { Ok(Self { pid, socket: ours }) }
    }

    /// The signals that it got since it was asked last, bit `n - 1` for signal `n`.
    ///
    /// # Errors
    /// When it does not answer, since it gets no CPU or was stopped; it must not be asked again then.
    pub fn ask(&self) -> io::Result<u64> {
        (&self.socket).write_all(&[0])?;
        let mut seen = [0; size_of::<u64>()];
        (&self.socket).read_exact(&mut seen)?;
        Ok(u64::from_ne_bytes(seen))
    }

    /// The same, for one that does not answer: what the kernel keeps for it.
    pub fn unheard(&self) -> Option<u64> {
        let status = file::text(format!("/proc/{}/status", self.pid)).ok()?;
        u64::from_str_radix(file::field(&status, "ShdPnd")?, 16).ok()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: plain system calls; the number is still the child's, which nobody has waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            while libc::waitpid(self.pid, ptr::null_mut(), 0) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
    }
}

/// The whole life of the process. It ends with concprobe, which holds the other end of the socket.
fn watch(socket: i32) -> ! {
    close_others(socket);
    let name = c"signal-witness";
    // SAFETY: the name is a text of less than 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let mut question = 0_u8;
    // SAFETY: the kernel writes at most one byte.
    while unsafe { libc::read(socket, (&raw mut question).cast(), 1) } == 1 {
        let seen = take_pending();
        // SAFETY: the kernel reads eight bytes.
        unsafe { libc::send(socket, (&raw const seen).cast(), size_of::<u64>(), libc::MSG_NOSIGNAL) };
    }
    // SAFETY: ends the process without running what concprobe registered for its own end.
    unsafe { libc::_exit(0) }
}

/// Without this, whoever reads concprobe's output would wait for this process too.
fn close_others(socket: i32) {
    let close = |first: i32, last: i32| {
        // SAFETY: a plain system call on descriptors that the process does not use.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            // Before Linux 5.9.
            for descriptor in first..=last.min(DESCRIPTORS) {
                // SAFETY: as above.
                unsafe { libc::close(descriptor) };
            }
        }
    };
    close(0, socket - 1);
    close(socket + 1, i32::MAX);
}

fn take_pending() -> u64 {
    let (all, now) = (u64::MAX, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    let mut seen = 0;
    loop {
        // SAFETY: the kernel reads a mask of eight bytes and a time, and writes nothing.
        let signal = unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                &raw const all,
                ptr::null_mut::<libc::siginfo_t>(),
                &raw const now,
                size_of::<u64>(),
            )
        };
        match i32::try_from(signal) {
            Ok(signal) if signal > 0 => seen |= bit(signal),
            _ => return seen,
        }
    }
}
