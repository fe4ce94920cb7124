//! Waiting for a promise a little at a time: the caller can do other things in between.

use std::time::Duration;

use super::{
    future_late::{self, Wait},
    one_shot::OneShot,
};
use crate::harness::{Claim, CrewSize, Entry, Kind, Parameter};

pub(super) static ENTRY: Entry = Entry {
    name: "future-wait-timeout",
    summary: "the price of polling for a value with a timeout: some wake-ups, hardly any CPU time",
    op: "one wait for a promise that is fulfilled after --delay, in steps of --poll",
    claim: Claim::WaitsAsleep,
    default_ops: 20,
    crew: CrewSize::Fixed(2),
    parameters: &[
        future_late::DELAY,
        Parameter { name: "poll", help: "Timeout of one step", default: "5ms", kind: Kind::Duration },
    ],
    unavailable: None,
    build: |settings| {
        // A step of nothing would be busy-polling.
        let step = settings.duration("poll")?.max(Duration::from_micros(100));
        future_late::build(settings, Polling { step })
    },
};

#[derive(Debug)]
struct Polling {
    step: Duration,
}

impl Wait for Polling {
    fn get(&self, future: &OneShot<u64>, in_vain: &mut u64) -> u64 {
        loop {
            match future.get_timeout(self.step) {
                Some(value) => return value,
                None => *in_vain += 1,
            }
        }
    }
}
