//! A read that is tried again and again: the data is noticed sooner, and a whole core is the price.

use std::io::PipeWriter;

use anyhow::Result;

use super::{
    data_wait::{self, Way},
    pipe::Pipe,
    watched,
};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "read-busypoll",
    summary: "the price of not sleeping: data is noticed soon, and the wait takes a whole core",
    op: "one wait for data with non-blocking reads of a pipe in a tight loop; the data comes after --delay",
    claim: Claim::BurnsACore,
    default_ops: 20,
    crew: CrewSize::Fixed(2),
    parameters: &[watched::DELAY],
    unavailable: None,
    build: |settings| data_wait::build(settings, ReadBusypoll { pipe: Pipe::non_blocking()? }),
};

#[derive(Debug)]
struct ReadBusypoll {
    pipe: Pipe,
}

impl Way for ReadBusypoll {
    fn receive(&self, empty_reads: &mut u64) -> Result<u64> {
        loop {
            if let Some(sent_ns) = self.pipe.read()? {
                return Ok(sent_ns);
            }
            *empty_reads += 1;
        }
    }

    fn inlet(&self, _number: u64) -> &PipeWriter {
        &self.pipe.inlet
    }
}
