//! Processes that do nothing: what copying the address space, and ending the copy, costs.

use std::io;

use anyhow::{Context as _, Result};

use super::processes::Processes;
use crate::harness::{Claim, CrewSize, Entry, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "fork",
    summary: "the price of a process that does nothing: copied page tables, exit and wait",
    op: "one fork of a child that exits at once, and waitpid",
    claim: Claim::OneProcessPerOp,
    default_ops: 500,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Processes::new(settings.threads, fork)))
}

fn fork() -> Result<libc::pid_t> {
    // SAFETY: other threads may hold locks that nobody in the child will release, so the child takes none:
    // it does nothing but a plain system call.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("cannot fork"),
        // SAFETY: as above.
        0 => unsafe { libc::_exit(0) },
        child => Ok(child),
    }
}
