//! A hand-over through an atomic flag that both sides poll: the fastest there is, for two whole cores.

use std::{
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::Result;

use super::hand_over::{HandOver, PingPong, Side};
use crate::harness::{Claim, CrewSize, Entry, Place};

/// A side that has polled so often gives its CPU to the other, which may be waiting for just that.
const POLLS: u32 = 1_000;

pub(super) static ENTRY: Entry = Entry {
    name: "flag-busypoll",
    summary: "the price of a hand-over between two threads that both poll: no sleep, and a core for each",
    op: "one turn: set the other side's flag, poll one's own until it is set",
    claim: Claim::BurnsACore,
    default_ops: 1_000_000,
    crew: CrewSize::Fixed(2),
    parameters: &[],
    unavailable: None,
    build: |_| Ok(Box::new(PingPong::new(Flags::default(), Place::Thread)?)),
};

#[derive(Debug, Default)]
#[repr(align(128))]
struct Flag(AtomicBool);

#[derive(Debug, Default)]
struct Flags([Flag; 2]);

struct FlagSide<'a> {
    own: &'a AtomicBool,
    other: &'a AtomicBool,
}

impl HandOver for Flags {
    type Side<'a> = FlagSide<'a>;

    fn side(&self, member: usize) -> Result<FlagSide<'_>> {
        Ok(FlagSide { own: &self.0[member].0, other: &self.0[1 - member].0 })
    }
}

impl Side for FlagSide<'_> {
    #[inline]
    fn post(&self) -> Result<()> {
        self.other.store(true, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        let mut polls = 0;
        while !self.own.load(Ordering::Acquire) {
            polls += 1;
            if polls == POLLS {
                polls = 0;
                thread::yield_now();
            }
            hint::spin_loop();
        }
        self.own.store(false, Ordering::Relaxed);
        Ok(())
    }
}
