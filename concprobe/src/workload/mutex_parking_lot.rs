//! Threads that want one mutex of the crate `parking_lot`: one byte, a queue of sleepers in a table of the
//! process, and a longer spin before sleeping.

use parking_lot::Mutex;

use super::contention::{self, Lock};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "mutex-parking-lot",
    summary: "a contended parking_lot::Mutex: how often taking it sleeps, and what that costs",
    op: "think, lock, stay in the section, unlock",
    claim: Claim::SometimesSleeps,
    default_ops: 1_000_000,
    crew: CrewSize::Threads(4),
    parameters: &contention::PARAMETERS,
    unavailable: None,
    build: contention::build::<Mutex<u64>>,
};

impl Lock for Mutex<u64> {
    #[inline]
    fn locked<R>(&self, section: impl FnOnce(&mut u64) -> R) -> R {
        section(&mut self.lock())
    }
}
