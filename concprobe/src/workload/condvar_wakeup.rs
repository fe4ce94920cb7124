//! A hand-over through a mutex and a condition variable: what waking a waiting thread costs.

use std::sync::{Condvar, Mutex, PoisonError};

use anyhow::Result;

use super::hand_over::{HandOver, PingPong, Side};
use crate::harness::{Claim, CrewSize, Entry, Place};

pub(super) static ENTRY: Entry = Entry {
    name: "condvar-wakeup",
    summary: "the price of waking a thread that waits on a condition variable",
    op: "one turn: set the other side's flag and notify it, wait until one's own flag is set",
    claim: Claim::OneSwitchPerOp,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[],
    unavailable: None,
    build: |_| Ok(Box::new(PingPong::new(Flags::default(), Place::Thread)?)),
};

#[derive(Debug, Default)]
#[repr(align(128))]
struct Flag {
    set: Mutex<bool>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Flags([Flag; 2]);

struct FlagSide<'a> {
    own: &'a Flag,
    other: &'a Flag,
}

impl HandOver for Flags {
    type Side<'a> = FlagSide<'a>;

    fn side(&self, member: usize) -> Result<FlagSide<'_>> {
        Ok(FlagSide { own: &self.0[member], other: &self.0[1 - member] })
    }
}

impl Side for FlagSide<'_> {
    #[inline]
    fn post(&self) -> Result<()> {
        *self.other.set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.other.changed.notify_one();
        Ok(())
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        let set = self.own.set.lock().unwrap_or_else(PoisonError::into_inner);
        let mut set = self.own.changed.wait_while(set, |set| !*set).unwrap_or_else(PoisonError::into_inner);
        *set = false;
        Ok(())
    }
}
