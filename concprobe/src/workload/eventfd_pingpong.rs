//! Two processes (or threads) that hand a token back and forth through two eventfds: a hand-over through
//! descriptors, which always enters the kernel, on both sides.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{FromRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result};

use super::hand_over::{BETWEEN, HandOver, PingPong, Side, place};
use crate::harness::{Claim, CrewSize, Entry, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "eventfd-pingpong",
    summary: "the price of a hand-over through two eventfds: a write, a read, and being woken",
    op: "one turn: write to the other side's eventfd, read one's own until it is written back",
    claim: Claim::OneSwitchPerOp,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[BETWEEN],
    unavailable: None,
    build,
};

/// The eventfd that each side reads.
#[derive(Debug)]
struct EventFds([File; 2]);

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let fds = EventFds([eventfd()?, eventfd()?]);
    Ok(Box::new(PingPong::new(fds, place(settings))?))
}

fn eventfd() -> Result<File> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error()).context("cannot make an eventfd");
    }
    // SAFETY: the descriptor is new and owned here alone.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

struct EventFdSide<'a> {
    own: &'a File,
    other: &'a File,
}

impl HandOver for EventFds {
    type Side<'a> = EventFdSide<'a>;

    fn side(&self, member: usize) -> Result<EventFdSide<'_>> {
        Ok(EventFdSide { own: &self.0[member], other: &self.0[1 - member] })
    }
}

impl Side for EventFdSide<'_> {
    #[inline]
    fn post(&self) -> Result<()> {
        let mut other = self.other;
        other.write_all(&1_u64.to_ne_bytes()).context("cannot write to an eventfd")
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        let mut own = self.own;
        own.read_exact(&mut [0; size_of::<u64>()]).context("cannot read an eventfd")
    }
}
