//! A process that runs already and is to be observed: what it must be for that, its threads, and its end.

use std::{io, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    descriptor::ProcessDescriptor,
    stat::Stat,
    threads::{self, Thread},
};

/// How often a process is looked at where the kernel cannot tell that it ended (before Linux 5.3).
const LOOK: Duration = Duration::from_millis(50);

/// A running process. It is never taken for another one that gets its number later.
#[derive(Debug)]
pub struct Existing {
    pid: i32,
    name: String,
    start_ticks: u64,
    descriptor: Option<ProcessDescriptor>,
}

impl Existing {
    /// Finds the process.
    ///
    /// # Errors
    /// When there is none of that number, or it is nothing that could be observed: the message says why.
    pub fn open(pid: i64) -> Result<Self> {
        Self::find(pid, true)
    }

    /// As on a kernel that has no descriptors of processes (before Linux 5.3).
    ///
    /// # Errors
    /// As [`Existing::open`].
    #[doc(hidden)]
    pub fn open_without_descriptor(pid: i64) -> Result<Self> {
        Self::find(pid, false)
    }

    fn find(number: i64, with_descriptor: bool) -> Result<Self> {
        ensure!(number > 0, "a process has a positive number, and {number} is none");
        let missing = || format!("there is no process {number}");
        let pid = i32::try_from(number).with_context(missing)?;
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        ensure!(pid != own, "process {pid} is concprobe itself");
        // Before anything is read: what is read afterwards is then of this process or of none.
        let descriptor = if with_descriptor { ProcessDescriptor::open(pid).ok() } else { None };
        let stat = match Stat::read(&pid.to_string()) {
            Ok(stat) => stat,
            Err(error) if is_missing(&error) => bail!(missing()),
            Err(error) => return Err(error).with_context(|| format!("cannot look at process {pid}")),
        };
        let name = &stat.name;
        let process = process_of(pid).with_context(missing)?;
        if process != pid {
            ensure!(process != own, "{pid} is a thread of concprobe itself");
            let whose = Stat::read(&process.to_string())
                .map_or_else(|_| String::new(), |it| format!(" ({})", it.name));
            bail!(
                "{pid} ({name}) is a thread of process {process}{whose}, and not a process: use --pid {process}"
            );
        }
        ensure!(
            !stat.is_kernel_thread(),
            "process {pid} ({name}) is a thread of the kernel: it has no memory of a user's program and makes \
             no system calls, and these are what is observed"
        );
        let found = Self { pid, name: stat.name.clone(), start_ticks: stat.start_ticks, descriptor };
        ensure!(
            !found.has_ended(),
            "process {pid} ({name}) has ended already and only waits for its parent to notice (a zombie)"
        );
        Ok(found)
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The name of its main thread, at most 15 bytes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has ended, all of its threads.
    pub fn has_ended(&self) -> bool {
        if let Some(descriptor) = &self.descriptor {
            return descriptor.has_ended();
        }
        match Stat::read(&self.pid.to_string()) {
            Ok(stat) if stat.start_ticks != self.start_ticks => true,
            // The main thread may end before the others.
            Ok(stat) => stat.has_ended() && threads::list(self.pid).map_or(true, |list| list.is_empty()),
            Err(error) => is_missing(&error),
        }
    }

    /// Waits until it has ended. In a tokio runtime.
    ///
    /// # Errors
    /// When the system cannot wait for it.
    pub async fn ended(&self) -> Result<()> {
        if let Some(descriptor) = &self.descriptor {
            return descriptor
                .ended()
                .await
                .with_context(|| format!("cannot wait for the end of process {}", self.pid));
        }
        while !self.has_ended() {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Its threads, in ascending order of their ids. In a process that makes and ends threads all the time
    /// some may be missing.
    ///
    /// # Errors
    /// When it has ended.
    pub fn threads(&self) -> Result<Vec<Thread>> {
        let threads = threads::list(self.pid);
        ensure!(!self.has_ended(), "process {} ({}) has ended", self.pid, self.name);
        threads
    }
}

/// A file of a process that has ended is missing; one that was opened before cannot be read.
fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The process that a thread belongs to.
fn process_of(tid: i32) -> Option<i32> {
    let status = std::fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}
