//! A producer and a consumer with a ring between them: semaphores that are nearly always positive, since
//! several slots are handed over ahead, each with a batch of items.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::Result;

use super::{
    hand_over::{self, BETWEEN},
    semaphore::Semaphore,
};
use crate::harness::{
    Claim, CrewSize, Entry, Kind, Ops, Parameter, Place, Role, SelfCheck, Settings, Workload, shared::Shared,
};

pub(super) static ENTRY: Entry = Entry {
    name: "sem-ring",
    summary: "the price of a hand-over that does not have to sleep: a ring of slots, each a batch of items",
    op: "one item: put into the ring by the producer, or taken out by the consumer",
    claim: Claim::HardlyEverSleeps,
    default_ops: 2_000_000,
    crew: CrewSize::Fixed(2),
    parameters: &[
        BETWEEN,
        Parameter {
            name: "slots",
            help: "Slots of the ring; with 1 the two sides take turns",
            default: "64",
            kind: Kind::Count(1, 1024),
        },
        Parameter {
            name: "batch",
            help: "Items in a slot, handed over by one sem_post",
            default: "16",
            kind: Kind::Count(1, LARGEST_BATCH as u64),
        },
    ],
    unavailable: None,
    build,
};

const LARGEST_BATCH: usize = 512;

/// What is handed over by one post. No items: the phase is over.
#[derive(Debug)]
struct Slot {
    len: AtomicU64,
    items: [AtomicU64; LARGEST_BATCH],
}

/// What both sides share beside the slots. Both counts are of slots.
#[derive(Debug)]
struct Table {
    free: Semaphore,
    filled: Semaphore,
    produced: AtomicU64,
    consumed: AtomicU64,
    misplaced: AtomicU64,
}

#[derive(Debug)]
struct SemRing {
    table: Shared<Table>,
    slots: Box<[Shared<Slot>]>,
    batch: usize,
    place: Place,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let place = hand_over::place(settings);
    let slots = settings.count("slots")?;
    let slot =
        |_| Shared::new(Slot { len: AtomicU64::new(0), items: [const { AtomicU64::new(0) }; LARGEST_BATCH] });
    let table = Shared::new(Table {
        free: Semaphore::zeroed(),
        filled: Semaphore::zeroed(),
        produced: AtomicU64::new(0),
        consumed: AtomicU64::new(0),
        misplaced: AtomicU64::new(0),
    })?;
    table.free.init(place == Place::Process, u32::try_from(slots)?)?;
    table.filled.init(place == Place::Process, 0)?;
    let slots = (0..slots).map(slot).collect::<Result<_>>()?;
    Ok(Box::new(SemRing { table, slots, batch: usize::try_from(settings.count("batch")?)?, place }))
}

impl SemRing {
    /// Hands a slot with that many items over, and tells which slot is the next.
    #[inline]
    fn publish(&self, slot: usize, items: usize) -> usize {
        self.slots[slot].len.store(items as u64, Ordering::Relaxed);
        self.table.filled.post();
        (slot + 1) % self.slots.len()
    }

    /// Items are numbers in a row. Every phase begins at the first slot, with all slots free.
    fn produce(&self, ops: &mut Ops<'_>) -> Result<()> {
        let (mut slot, mut position) = (0, 0);
        let mut number = self.table.produced.load(Ordering::Relaxed);
        ops.each(|| {
            if position == 0 {
                self.table.free.wait();
            }
            self.slots[slot].items[position].store(number, Ordering::Relaxed);
            number += 1;
            position += 1;
            if position == self.batch {
                slot = self.publish(slot, position);
                position = 0;
            }
            Ok(())
        })?;
        self.table.produced.store(number, Ordering::Relaxed);
        if position > 0 {
            slot = self.publish(slot, position);
        }
        self.table.free.wait();
        self.publish(slot, 0);
        Ok(())
    }

    #[inline]
    fn next_batch(&self, slot: usize) -> u64 {
        self.table.filled.wait();
        self.slots[slot].len.load(Ordering::Relaxed)
    }

    /// The last item of a batch carries the wait for the next batch.
    fn consume(&self, ops: &mut Ops<'_>) -> Result<()> {
        let (mut slot, mut position) = (0, 0);
        let mut number = self.table.consumed.load(Ordering::Relaxed);
        let mut misplaced = 0;
        let len = Cell::new(self.next_batch(slot));
        ops.follow(
            || len.get() > 0,
            || {
                let item = self.slots[slot].items[position].load(Ordering::Relaxed);
                misplaced += u64::from(item != number);
                number += 1;
                position += 1;
                if position as u64 == len.get() {
                    self.table.free.post();
                    slot = (slot + 1) % self.slots.len();
                    position = 0;
                    len.set(self.next_batch(slot));
                }
                Ok(())
            },
        )?;
        self.table.free.post();
        self.table.consumed.store(number, Ordering::Relaxed);
        self.table.misplaced.fetch_add(misplaced, Ordering::Relaxed);
        Ok(())
    }
}

impl Workload for SemRing {
    fn crew(&self) -> Vec<Role> {
        ["producer", "consumer"].map(|name| Role { place: self.place, ..Role::thread(name) }).to_vec()
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        if member == 0 { self.produce(ops) } else { self.consume(ops) }
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Table { produced, consumed, misplaced, .. } = &*self.table;
        let (produced, consumed, misplaced) = (read(produced), read(consumed), read(misplaced));
        SelfCheck {
            passed: produced == consumed && misplaced == 0 && produced + consumed == ops,
            detail: format!(
                "{produced} items put in, {consumed} taken out (expected {ops} together), {misplaced} of them \
                 out of order"
            ),
        }
    }
}
