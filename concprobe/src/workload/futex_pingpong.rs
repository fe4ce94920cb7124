//! Two processes (or threads) that hand a token back and forth with the futex call itself: the sleep and the
//! wake-up that every primitive is built on, with no library around them.

use std::{
    io, ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result};

use super::hand_over::{BETWEEN, HandOver, PingPong, Side, place};
use crate::harness::{Claim, CrewSize, Entry, Place, Settings, Workload, shared::Shared};

pub(super) static ENTRY: Entry = Entry {
    name: "futex-pingpong",
    summary: "the price of a hand-over through bare futexes: what anything that sleeps is built on",
    op: "one turn: FUTEX_WAKE to the other side, FUTEX_WAIT until it wakes back",
    claim: Claim::OneSwitchPerOp,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[BETWEEN],
    unavailable: None,
    build,
};

/// A word that is 1 when its side may go on.
#[derive(Debug, Default)]
struct Word(AtomicU32);

/// The word that each side waits on.
#[derive(Debug)]
struct Futexes {
    words: Shared<[Word; 2]>,
    /// The kernel finds a word more cheaply when only threads of one process use it.
    flags: i32,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let place = place(settings);
    let flags = if place == Place::Thread { libc::FUTEX_PRIVATE_FLAG } else { 0 };
    let futexes = Futexes { words: Shared::new(Default::default())?, flags };
    Ok(Box::new(PingPong::new(futexes, place)?))
}

struct FutexSide<'a> {
    own: &'a Word,
    other: &'a Word,
    flags: i32,
}

impl HandOver for Futexes {
    type Side<'a> = FutexSide<'a>;

    fn side(&self, member: usize) -> Result<FutexSide<'_>> {
        Ok(FutexSide { own: &self.words[member], other: &self.words[1 - member], flags: self.flags })
    }
}

impl Side for FutexSide<'_> {
    #[inline]
    fn post(&self) -> Result<()> {
        self.other.0.store(1, Ordering::Release);
        self.other.call(libc::FUTEX_WAKE | self.flags, 1).context("cannot wake a waiter of a futex")
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        while self.own.0.swap(0, Ordering::Acquire) == 0 {
            match self.own.call(libc::FUTEX_WAIT | self.flags, 0) {
                // The word changed before the kernel looked, or a signal came.
                Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                    return Err(error).context("cannot wait on a futex");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Word {
    #[inline]
    fn call(&self, operation: i32, argument: u32) -> io::Result<()> {
        let forever = ptr::null::<libc::timespec>();
        // SAFETY: the word is aligned and lives as long as `self`.
        let result = unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, argument, forever) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
