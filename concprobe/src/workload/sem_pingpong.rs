//! Two processes (or threads) that hand a token back and forth: what a semaphore costs when each turn
//! must wait for the other side.

use anyhow::Result;

use super::{
    hand_over::{BETWEEN, HandOver, PingPong, Side, place},
    semaphore::Semaphore,
};
use crate::harness::{Claim, CrewSize, Entry, Place, Settings, Workload, shared::Shared};

pub(super) static ENTRY: Entry = Entry {
    name: "sem-pingpong",
    summary: "the price of a hand-over through two semaphores: sleeping, and being woken",
    op: "one turn: sem_post to the other side, sem_wait until it posts back (its latency spans two wake-ups)",
    claim: Claim::OneSwitchPerOp,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[BETWEEN],
    unavailable: None,
    build,
};

/// The semaphore on which each side waits.
#[derive(Debug)]
struct Semaphores(Shared<[Semaphore; 2]>);

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let place = place(settings);
    let semaphores = Shared::new([Semaphore::zeroed(), Semaphore::zeroed()])?;
    for semaphore in &*semaphores {
        semaphore.init(place == Place::Process, 0)?;
    }
    Ok(Box::new(PingPong::new(Semaphores(semaphores), place)?))
}

struct SemaphoreSide<'a> {
    own: &'a Semaphore,
    other: &'a Semaphore,
}

impl HandOver for Semaphores {
    type Side<'a> = SemaphoreSide<'a>;

    fn side(&self, member: usize) -> Result<SemaphoreSide<'_>> {
        Ok(SemaphoreSide { own: &self.0[member], other: &self.0[1 - member] })
    }
}

impl Side for SemaphoreSide<'_> {
    #[inline]
    fn post(&self) -> Result<()> {
        self.other.post();
        Ok(())
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        self.own.wait();
        Ok(())
    }
}
