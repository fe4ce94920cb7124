//! A reader that waits for data which a writer sends after a while, for the ways of waiting that differ in
//! CPU time and in how soon the data is noticed.

use std::{
    fmt::Debug,
    io::{PipeWriter, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};

use super::{pipe, watched::Watched};
use crate::{
    clock,
    harness::{Ops, Role, SelfCheck, Settings, Workload},
};

/// How a reader waits.
pub(super) trait Way: Debug + Sync {
    /// Waits until there is data and reads it: the time at which it was sent. Adds up the reads that found
    /// nothing.
    fn receive(&self, empty_reads: &mut u64) -> Result<u64>;

    /// Where the message of that number is to go in.
    fn inlet(&self, number: u64) -> &PipeWriter;
}

/// Messages that one side has seen, and the sum of their content.
#[derive(Debug, Default)]
struct Messages {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Messages {
    fn add(&self, message: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(message, Ordering::Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.sum.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct DataWait<W> {
    way: W,
    watched: Watched,
    sent: Messages,
    received: Messages,
    /// When the reader had the newest message.
    noticed_ns: AtomicU64,
    /// Reads of this phase that found nothing.
    empty_reads: AtomicU64,
}

/// A reader that waits in that way, and its writer.
pub(super) fn build<W: Way + 'static>(settings: &Settings, way: W) -> Result<Box<dyn Workload>> {
    let workload = Box::new(DataWait {
        way,
        watched: Watched::new(settings.duration("delay")?),
        sent: Messages::default(),
        received: Messages::default(),
        noticed_ns: AtomicU64::new(0),
        empty_reads: AtomicU64::new(0),
    });
    workload.watched.init()?;
    Ok(workload)
}

impl<W: Way> DataWait<W> {
    /// The reader leaves its figures to the writer: its CPU time is the one that is looked at.
    fn read(&self, ops: &mut Ops<'_>) -> Result<()> {
        self.watched.enter();
        let mut empty_reads = 0;
        ops.each(|| {
            self.watched.begin();
            let sent_ns = self.way.receive(&mut empty_reads)?;
            self.noticed_ns.store(clock::now_ns(), Ordering::Relaxed);
            self.received.add(sent_ns);
            Ok(())
        })?;
        self.empty_reads.store(empty_reads, Ordering::Relaxed);
        self.watched.finish();
        Ok(())
    }

    /// What the reader noted of a message is there when its next wait begins or its phase ends.
    fn write(&self, ops: &mut Ops<'_>) -> Result<()> {
        let mut begins = self.watched.next_begins();
        while begins {
            self.watched.watch(ops)?;
            let sent_ns = self.send()?;
            begins = self.watched.next_begins();
            let noticed_ns = self.noticed_ns.load(Ordering::Relaxed);
            ops.extra_time("notice delay", noticed_ns.saturating_sub(sent_ns));
        }
        match self.empty_reads.swap(0, Ordering::Relaxed) {
            0 => {}
            empty_reads => ops.extra_count("EAGAIN", empty_reads),
        }
        Ok(())
    }

    fn send(&self) -> Result<u64> {
        let (number, _) = self.sent.read();
        let now_ns = clock::now_ns();
        self.sent.add(now_ns);
        let mut inlet = self.way.inlet(number);
        inlet.write_all(&now_ns.to_ne_bytes()).context("cannot write into a pipe")?;
        Ok(now_ns)
    }
}

impl<W: Way> Workload for DataWait<W> {
    fn crew(&self) -> Vec<Role> {
        vec![Role::thread("reader"), Role::thread("writer").supporting()]
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        if member == 0 { self.read(ops) } else { self.write(ops) }
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let ((sent, sent_sum), (received, received_sum)) = (self.sent.read(), self.received.read());
        let sums = if sent_sum == received_sum { "the same" } else { "not the same" };
        SelfCheck {
            passed: sent == received && received == ops && sent_sum == received_sum,
            detail: format!(
                "{} bytes sent, {} bytes received (expected {}), their checksums {sums}",
                sent * pipe::MESSAGE as u64,
                received * pipe::MESSAGE as u64,
                ops * pipe::MESSAGE as u64
            ),
        }
    }
}
