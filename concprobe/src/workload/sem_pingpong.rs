//! Two processes (or threads) that hand a token back and forth: what a semaphore costs when each turn
//! must wait for the other side.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;

use super::semaphore::Semaphore;
use crate::harness::{
    Claim, CrewSize, Entry, Kind, Ops, Parameter, Place, Role, SelfCheck, Settings, Workload, shared::Shared,
};

pub(super) static ENTRY: Entry = Entry {
    name: "sem-pingpong",
    summary: "the price of a hand-over through two semaphores: sleeping, and being woken",
    op: "one turn: sem_post to the other side, sem_wait until it posts back (its latency spans two wake-ups)",
    claim: Claim::OneSwitchPerOp,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[Parameter {
        name: "between",
        help: "Who hands over to whom",
        default: "processes",
        kind: Kind::Choice(&["processes", "threads"]),
    }],
    unavailable: None,
    build,
};

/// What both sides share. The token is held by one side at a time; that is what the self-check proves.
#[derive(Debug)]
struct Table {
    turn: [Semaphore; 2],
    token: AtomicU64,
    finished: AtomicBool,
}

#[derive(Debug)]
struct SemPingpong {
    table: Shared<Table>,
    place: Place,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let place = if settings.choice("between") == "threads" { Place::Thread } else { Place::Process };
    let table = Shared::new(Table {
        turn: [Semaphore::zeroed(), Semaphore::zeroed()],
        token: AtomicU64::new(0),
        finished: AtomicBool::new(false),
    })?;
    for semaphore in &table.turn {
        semaphore.init(place == Place::Process, 0)?;
    }
    Ok(Box::new(SemPingpong { table, place }))
}

impl Table {
    /// Changes the token without an atomic addition: only one side may hold it, or turns would be lost.
    fn count_turn(&self) {
        self.token.store(self.token.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl Workload for SemPingpong {
    fn crew(&self) -> Vec<Role> {
        ["ping", "pong"].map(|name| Role { place: self.place, ..Role::thread(name) }).to_vec()
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let Table { turn: [ping, pong], finished, .. } = &*self.table;
        if member == 0 {
            ops.each(|| {
                self.table.count_turn();
                pong.post();
                ping.wait();
                Ok(())
            })?;
            finished.store(true, Ordering::Release);
            pong.post();
        } else {
            pong.wait();
            ops.follow(
                || !finished.load(Ordering::Acquire),
                || {
                    self.table.count_turn();
                    ping.post();
                    pong.wait();
                    Ok(())
                },
            )?;
            finished.store(false, Ordering::Release);
        }
        Ok(())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let token = self.table.token.load(Ordering::Relaxed);
        SelfCheck {
            passed: token == ops,
            detail: format!("the token counted {token} turns (expected {ops})"),
        }
    }
}
