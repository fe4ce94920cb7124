//! The command while it runs: waits for its end, passes signals on, and says how it ended and what it used.

use std::{io, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{descriptor::ProcessDescriptor, signals::Signals, wish::Wish};
use crate::clock;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By a signal.
    Signal {
        /// Its number.
        number: i32,
        /// Whether the kernel wrote a core file.
        core_dumped: bool,
    },
}

impl Exit {
    fn of(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal { number: libc::WTERMSIG(status), core_dumped: libc::WCOREDUMP(status) }
        } else {
            Self::Status(libc::WEXITSTATUS(status))
        }
    }

    /// As a shell's `$?` shows it.
    pub fn shell_status(self) -> i32 {
        match self {
            Self::Status(status) => status,
            Self::Signal { number, .. } => 128 + number,
        }
    }
}

/// What a process used (getrusage(2)), together with those descendants that it waited for; the moments
/// between fork and exec are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// On the CPU in the program.
    pub user: Duration,
    /// On the CPU in the kernel.
    pub system: Duration,
    /// The largest resident memory of any one of these processes, bytes. `None`: smaller than concprobe's
    /// own, whose memory the process had before exec, so that the kernel cannot tell.
    pub peak_bytes: Option<u64>,
    /// Page faults that took no reading from a disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Times that it gave up the CPU.
    pub voluntary_switches: u64,
    /// Times that the CPU was taken from it.
    pub involuntary_switches: u64,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How it ended.
    pub exit: Exit,
    /// What it used.
    pub usage: Usage,
}

/// A child of concprobe. Its number is its own until it is waited for, which happens here alone.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    /// Not the command yet: it ends when this is dropped.
    held: bool,
    ending: Option<Ending>,
    /// When it had been made and signals were not kept back any more, `CLOCK_MONOTONIC`.
    made_ns: u64,
    /// concprobe's own peak memory when the child was made, in KiB.
    inherited_peak_kib: i64,
}

impl Child {
    pub(super) fn held(pid: i32) -> Self {
        let inherited_peak_kib = own_usage().ru_maxrss;
        Self { pid, held: true, ending: None, made_ns: clock::now_ns(), inherited_peak_kib }
    }

    /// Whether a signal that concprobe handled then may have been sent before the child was made.
    pub(super) fn may_have_missed(&self, at_ns: u64) -> bool {
        at_ns <= self.made_ns
    }

    pub(super) fn set_free(&mut self) {
        self.held = false;
    }

    /// Its id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends it a signal, unless it has ended. A command that has become another user than concprobe does
    /// not get it; whoever wished it ended sees that it has not.
    pub fn send(&self, signal: i32) {
        if self.ending.is_none() {
            // SAFETY: a plain system call; the number is still the child's, which nobody has waited for.
            unsafe { libc::kill(self.pid, signal) };
        }
    }

    /// How it ended, if it has.
    fn reap(&mut self, flags: i32) -> io::Result<Option<Ending>> {
        while self.ending.is_none() {
            let mut status = 0;
            // SAFETY: all-zero is a valid value of this type.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: both are written to, and nothing else.
            let pid = unsafe { libc::wait4(self.pid, &raw mut status, flags, &raw mut usage) };
            if pid == self.pid {
                let usage = convert(&usage, self.inherited_peak_kib);
                self.ending = Some(Ending { exit: Exit::of(status), usage });
            } else if pid == 0 {
                break;
            } else {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
        Ok(self.ending)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.held {
            self.send(libc::SIGKILL);
            let _ = self.reap(0);
        }
    }
}

/// What happens to a command that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wishes it to end; it knows.
    Wish(Wish),
    /// It has ended.
    Ended(Ending),
}

/// The command, which runs. Dropped, it runs on.
#[derive(Debug)]
pub struct Running {
    child: Child,
    end: End,
}

/// How concprobe learns that the child has ended.
#[derive(Debug)]
enum End {
    Descriptor(ProcessDescriptor),
    /// Before Linux 5.3, or where a sandbox forbids the other.
    Signal(Signal),
}

impl End {
    /// The child may have ended.
    async fn comes(&mut self) -> io::Result<()> {
        match self {
            Self::Descriptor(descriptor) => descriptor.ended().await,
            Self::Signal(signal) => signal
                .recv()
                .await
                .ok_or_else(|| io::Error::other("the runtime does not listen to signals any more")),
        }
    }
}

impl Running {
    pub(super) fn new(child: Child) -> io::Result<Self> {
        let end = match ProcessDescriptor::open(child.pid) {
            Ok(descriptor) => End::Descriptor(descriptor),
            Err(_) => End::Signal(signal(SignalKind::child())?),
        };
        Ok(Self { child, end })
    }

    /// From now on as on a kernel that has no descriptors of processes (before Linux 5.3).
    ///
    /// # Errors
    /// When the runtime cannot listen to signals.
    #[doc(hidden)]
    pub fn without_descriptor(mut self) -> io::Result<Self> {
        self.end = End::Signal(signal(SignalKind::child())?);
        Ok(self)
    }

    /// The process.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// The id of the process.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// Waits for the end; may be given up and begun again, and answers the same ever after.
    ///
    /// # Errors
    /// When the system cannot wait for it.
    pub async fn wait(&mut self) -> io::Result<Ending> {
        loop {
            if let Some(ending) = self.child.reap(libc::WNOHANG)? {
                return Ok(ending);
            }
            self.end.comes().await?;
        }
    }

    /// Waits for what comes first: a signal that asks for the end, which the command is given too, or the
    /// end. May be given up and begun again.
    ///
    /// # Errors
    /// When the system cannot wait for it.
    pub async fn next(&mut self, signals: &mut Signals) -> io::Result<Event> {
        loop {
            if let Some(ending) = self.child.reap(libc::WNOHANG)? {
                return Ok(Event::Ended(ending));
            }
            let Self { child, end } = self;
            tokio::select! {
                wish = signals.next(Some(child)) => return Ok(Event::Wish(wish)),
                came = end.comes() => came?,
            }
        }
    }
}

fn own_usage() -> libc::rusage {
    // SAFETY: all-zero is a valid value of this type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one value.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage
}

fn convert(usage: &libc::rusage, inherited_peak_kib: i64) -> Usage {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let time = |time: libc::timeval| {
        Duration::from_secs(count(time.tv_sec)) + Duration::from_micros(count(time.tv_usec))
    };
    Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        // exec keeps the peak of the memory that it throws away (kernel: `exec_mmap`).
        peak_bytes: (usage.ru_maxrss > inherited_peak_kib).then(|| count(usage.ru_maxrss) * 1024),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_from_a_signal() {
        assert_eq!(Exit::of(42 << 8), Exit::Status(42));
        assert_eq!(Exit::of(9), Exit::Signal { number: 9, core_dumped: false });
        assert_eq!(Exit::of(6 | 0x80), Exit::Signal { number: 6, core_dumped: true });
        assert_eq!(Exit::of(255 << 8).shell_status(), 255);
        assert_eq!(Exit::of(9).shell_status(), 137);
    }

    #[test]
    fn a_peak_that_may_be_concprobes_own_is_unknown() {
        // SAFETY: all-zero is a valid value of this type.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        usage.ru_maxrss = 100;
        assert_eq!(convert(&usage, 100).peak_bytes, None);
        assert_eq!(convert(&usage, 99).peak_bytes, Some(102_400));
        usage.ru_utime = libc::timeval { tv_sec: 1, tv_usec: 500_000 };
        assert_eq!(convert(&usage, 0).user, Duration::from_millis(1_500));
    }
}
