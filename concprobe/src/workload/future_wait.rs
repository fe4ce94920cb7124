//! `get` on a promise that is fulfilled late: a blocking point that sleeps.

use super::{
    future_late::{self, Wait},
    one_shot::OneShot,
};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "future-wait",
    summary: "the price of waiting for a value that comes late: time, but no CPU time",
    op: "one wait for a promise that is fulfilled after --delay",
    claim: Claim::WaitsAsleep,
    default_ops: 20,
    crew: CrewSize::Fixed(2),
    parameters: &[future_late::DELAY],
    unavailable: None,
    build: |settings| future_late::build(settings, Blocking),
};

#[derive(Debug)]
struct Blocking;

impl Wait for Blocking {
    fn get(&self, future: &OneShot<u64>, _in_vain: &mut u64) -> u64 {
        future.get()
    }
}
