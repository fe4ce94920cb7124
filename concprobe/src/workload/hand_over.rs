//! Two members that hand a token back and forth, whatever they wake each other with: the loop, the end of
//! a phase and the self-check that the ping-pong workloads share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;

use crate::harness::{Kind, Ops, Parameter, Place, Role, SelfCheck, Settings, Workload, shared::Shared};

/// Whether the sides are processes or threads.
pub(super) const BETWEEN: Parameter = Parameter {
    name: "between",
    help: "Who hands over to whom",
    default: "processes",
    kind: Kind::Choice(&["processes", "threads"]),
};

/// What [`BETWEEN`] says.
pub(super) fn place(settings: &Settings) -> Place {
    if settings.choice(BETWEEN.name) == "threads" { Place::Thread } else { Place::Process }
}

/// What two sides wake each other with. It works between processes if the workload lets it run there.
pub(super) trait HandOver: Sync {
    /// One side of it, in the hands of its member for one phase.
    type Side<'a>: Side
    where
        Self: 'a;

    /// The side of that member, 0 or 1; called by the member itself.
    fn side(&self, member: usize) -> Result<Self::Side<'_>>;
}

/// One side. A post that comes before the wait is kept for it.
pub(super) trait Side {
    /// Lets the other side go on.
    fn post(&self) -> Result<()>;

    /// Waits until the other side posted. A signal does not end the wait.
    fn wait(&self) -> Result<()>;
}

/// What both sides share. The token is held by one side at a time; that is what the self-check proves.
#[derive(Debug, Default)]
struct Table {
    token: AtomicU64,
    finished: AtomicBool,
}

impl Table {
    /// Changes the token without an atomic addition: only one side may hold it, or turns would be lost.
    fn count_turn(&self) {
        self.token.store(self.token.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// The workload: each op is one turn.
#[derive(Debug)]
pub(super) struct PingPong<H> {
    hand_over: H,
    table: Shared<Table>,
    place: Place,
}

impl<H: HandOver> PingPong<H> {
    /// Two members at `place` that use `hand_over`.
    pub(super) fn new(hand_over: H, place: Place) -> Result<Self> {
        Ok(Self { hand_over, table: Shared::new(Table::default())?, place })
    }
}

impl<H: HandOver> Workload for PingPong<H> {
    fn crew(&self) -> Vec<Role> {
        ["ping", "pong"].map(|name| Role { place: self.place, ..Role::thread(name) }).to_vec()
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let side = self.hand_over.side(member)?;
        let table = &*self.table;
        if member == 0 {
            ops.each(|| {
                table.count_turn();
                side.post()?;
                side.wait()
            })?;
            table.finished.store(true, Ordering::Release);
            // The other side waits for a turn that does not come.
            side.post()?;
        } else {
            side.wait()?;
            ops.follow(
                || !table.finished.load(Ordering::Acquire),
                || {
                    table.count_turn();
                    side.post()?;
                    side.wait()
                },
            )?;
            table.finished.store(false, Ordering::Release);
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
