//! Two threads that hand a token back and forth with `park` and `unpark` of the standard library: what the
//! executors of futures and many channels sleep with.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
};

use anyhow::Result;

use super::hand_over::{HandOver, PingPong, Side};
use crate::harness::{Claim, CrewSize, Entry, Place, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "park-unpark",
    summary: "the price of a hand-over with std::thread::park: sleeping on one's own futex, and being woken",
    op: "one turn: set the other side's flag and unpark it, park until one's own flag is set",
    claim: Claim::OneSwitchPerOp,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[],
    unavailable: None,
    build,
};

/// A thread, and whether it may go on: `park` may return without reason.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Parker {
    thread: OnceLock<Thread>,
    posted: AtomicBool,
}

#[derive(Debug, Default)]
struct Parkers([Parker; 2]);

fn build(_settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(PingPong::new(Parkers::default(), Place::Thread)?))
}

struct ParkSide<'a> {
    own: &'a AtomicBool,
    other: &'a AtomicBool,
    other_thread: &'a Thread,
}

impl HandOver for Parkers {
    type Side<'a> = ParkSide<'a>;

    fn side(&self, member: usize) -> Result<ParkSide<'_>> {
        let (own, other) = (&self.0[member], &self.0[1 - member]);
        own.thread.get_or_init(thread::current);
        // The other side comes here too, at the start of its first phase.
        Ok(ParkSide { own: &own.posted, other: &other.posted, other_thread: other.thread.wait() })
    }
}

impl Side for ParkSide<'_> {
    #[inline]
    fn post(&self) -> Result<()> {
        self.other.store(true, Ordering::Release);
        self.other_thread.unpark();
        Ok(())
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        while !self.own.swap(false, Ordering::Acquire) {
            thread::park();
        }
        Ok(())
    }
}
