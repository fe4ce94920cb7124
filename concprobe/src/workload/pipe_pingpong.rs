//! Two processes (or threads) that send a byte back and forth through two pipes: the oldest hand-over
//! between processes.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};

use anyhow::{Context as _, Result};

use super::hand_over::{BETWEEN, HandOver, PingPong, Side, place};
use crate::harness::{Claim, CrewSize, Entry, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "pipe-pingpong",
    summary: "the price of a hand-over through two pipes: a write, a read, and being woken",
    op: "one turn: write a byte to the other side's pipe, read one's own until a byte comes back",
    claim: Claim::OneSwitchPerOp,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[BETWEEN],
    unavailable: None,
    build,
};

/// The pipe that each side reads. Both processes keep all four ends.
#[derive(Debug)]
struct Pipes([(PipeReader, PipeWriter); 2]);

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let make = || pipe().context("cannot make a pipe");
    Ok(Box::new(PingPong::new(Pipes([make()?, make()?]), place(settings))?))
}

struct PipeSide<'a> {
    own: &'a PipeReader,
    other: &'a PipeWriter,
}

impl HandOver for Pipes {
    type Side<'a> = PipeSide<'a>;

    fn side(&self, member: usize) -> Result<PipeSide<'_>> {
        Ok(PipeSide { own: &self.0[member].0, other: &self.0[1 - member].1 })
    }
}

impl Side for PipeSide<'_> {
    #[inline]
    fn post(&self) -> Result<()> {
        let mut other = self.other;
        other.write_all(&[0]).context("cannot write to a pipe")
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        let mut own = self.own;
        own.read_exact(&mut [0]).context("cannot read a pipe")
    }
}
