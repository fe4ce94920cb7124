//! Which file was mapped where, in which process and when, and the files themselves when they are needed.

use std::{mem, sync::Arc};

use anyhow::Result;

use crate::clock;

use super::{
    file::{Files, Image},
    proc_maps,
    processes::Processes,
    ring::{Event, Rings},
    table::Mapping,
};

/// What is missing, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Records that the kernel had no room for.
    pub records: u64,
    /// Mappings beyond what is kept for one process or for all.
    pub mappings: u64,
    /// Programs, run by processes that are followed, beyond what is kept.
    pub programs: u64,
}

/// A process that an address is not found in is not read more often.
const READ_AGAIN_NS: u64 = 20_000_000;

/// Which file was mapped where, in which process and when.
pub struct Mappings {
    rings: Option<Rings>,
    processes: Processes,
    files: Files,
    /// What has come in during the last [`Self::poll`]: a record of another CPU may have to go before it.
    pending: Vec<Event>,
}

impl Mappings {
    /// Has the kernel report from now on what processes map, on each CPU.
    ///
    /// # Errors
    /// If the kernel refuses; [`Self::from_proc_only`] works without its reports.
    pub fn watch() -> Result<Self> {
        Ok(Self { rings: Some(Rings::open()?), ..Self::from_proc_only() })
    }

    /// Reads `/proc/PID/maps` when an address of a process is asked for the first time, and again when one
    /// is not found. Of a process that has ended before, nothing is known.
    #[must_use]
    pub fn from_proc_only() -> Self {
        let (processes, files) = (Processes::default(), Files::default());
        Self { rings: None, processes, files, pending: Vec::new() }
    }

    /// Keeps what this process and its later children map. To be called before a process that is started
    /// for the purpose runs its program, and before [`Self::adopt`].
    pub fn follow(&mut self, pid: i32) {
        self.processes.follow(pid);
    }

    /// Follows a process that has been running, with what it has mapped already. Reads a process once.
    ///
    /// # Errors
    /// If `/proc/PID/maps` cannot be read.
    pub fn adopt(&mut self, pid: i32) -> std::io::Result<()> {
        if self.processes.follow(pid).read_ns.is_none() {
            let lines = proc_maps::read(pid)?;
            self.processes.read(pid, lines, clock::now_ns());
        }
        Ok(())
    }

    /// Takes in what the kernel has reported. To be called every 50 ms or so, and before captures are
    /// unwound that were taken before the call.
    pub fn poll(&mut self) {
        let Some(rings) = &mut self.rings else { return };
        // CPUs are read one after the other: what happened before the first was read is complete now.
        let begin_ns = clock::now_ns();
        let mut events = mem::take(&mut self.pending);
        self.processes.dropped.records += rings.drain(&mut events);
        if self.processes.is_empty() {
            return;
        }
        events.sort_by_key(|event| event.time_ns);
        let complete = events.partition_point(|event| event.time_ns < begin_ns);
        self.pending = events.split_off(complete);
        for event in events {
            self.processes.apply(event);
        }
    }

    /// What is missing so far.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.processes.dropped
    }

    /// Forgets processes and programs that ended before that time: no capture of theirs is left.
    pub fn release(&mut self, before_ns: u64) {
        self.processes.release(before_ns);
    }

    /// What was mapped at an address of a process at that time.
    pub fn find(&mut self, pid: i32, time_ns: u64, address: u64) -> Option<Mapping> {
        let found = self.processes.find(pid, time_ns, address).cloned();
        if found.is_some() || !self.read_again(pid, time_ns) {
            return found;
        }
        self.processes.find(pid, time_ns, address).cloned()
    }

    /// The closest file that is mapped below an address.
    pub(super) fn file_below(&self, pid: i32, time_ns: u64, address: u64) -> Option<Mapping> {
        self.processes.file_below(pid, time_ns, address).cloned()
    }

    /// The file of a mapping, opened if it has not been yet; the reason if it cannot be used.
    pub(super) fn image(&mut self, pid: i32, mapping: &Mapping) -> Result<Arc<Image>, Arc<str>> {
        self.files.get(pid, &mapping.origin)
    }

    /// Reads `/proc/PID/maps` if that can tell of the given time, and not too often.
    fn read_again(&mut self, pid: i32, time_ns: u64) -> bool {
        let now_ns = clock::now_ns();
        let read_ns = self.processes.get(pid).and_then(|process| process.read_ns);
        if read_ns.is_some_and(|read_ns| now_ns < read_ns.saturating_add(READ_AGAIN_NS))
            || !self.processes.is_current(pid, time_ns)
        {
            return false;
        }
        // A failure also counts as an attempt.
        let lines = proc_maps::read(pid).unwrap_or_default();
        self.processes.read(pid, lines, now_ns);
        true
    }
}
