//! A read that waits: it sleeps until there is data, and costs nothing meanwhile.

use std::io::PipeWriter;

use anyhow::{Context as _, Result};

use super::{
    data_wait::{self, Way},
    pipe::Pipe,
    watched,
};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "read-blocking",
    summary: "the price of waiting in read: no CPU time, and a wake-up before the data is noticed",
    op: "one wait for data in a blocking read of a pipe; the data comes after --delay",
    claim: Claim::WaitsAsleep,
    default_ops: 20,
    crew: CrewSize::Fixed(2),
    parameters: &[watched::DELAY],
    unavailable: None,
    build: |settings| data_wait::build(settings, ReadBlocking { pipe: Pipe::blocking()? }),
};

#[derive(Debug)]
struct ReadBlocking {
    pipe: Pipe,
}

impl Way for ReadBlocking {
    fn receive(&self, _empty_reads: &mut u64) -> Result<u64> {
        self.pipe.read()?.context("a blocking read came back without data")
    }

    fn inlet(&self, _number: u64) -> &PipeWriter {
        &self.pipe.inlet
    }
}
