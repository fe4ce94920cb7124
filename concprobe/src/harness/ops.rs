//! One member's phase: performs ops until there are enough, times each, and puts it into the class that
//! the kernel's counts around it give.

use std::{array, collections::BTreeMap};

use anyhow::Result;
use concprobe_common::class::Class;

use super::{
    batch::{self, Batches, Gauge},
    control::Control,
    evidence::{Counts, OwnBlock},
    protocol::{Creation, Phase},
    tally::Tally,
};
use crate::clock;

/// What a member does its ops with.
#[derive(Debug)]
pub struct Ops<'a> {
    block: OwnBlock,
    control: &'a Control,
    /// The first member shows how far the crew is.
    leads: bool,
    limit: u64,
    deadline_ns: u64,
    gauge: &'a mut Option<Gauge>,
    done: u64,
    trials: u64,
    /// All made beforehand, so that no allocation shows as a system call of an op.
    classes: [Box<Tally>; Class::ALL.len()],
    batches: Batches,
    creation: Creation,
    extras: Extras,
}

/// Figures of a workload beside its ops.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Extras {
    /// Times in nanoseconds, by name.
    pub times: BTreeMap<String, Tally>,
    /// Counts, by name.
    pub counts: BTreeMap<String, u64>,
}

/// What a member's phase yielded.
#[derive(Debug)]
pub struct Yield {
    /// Ops performed and classed.
    pub done: u64,
    /// Ops performed to find the size of a batch, not classed.
    pub trials: u64,
    /// By class; ops without evidence from the kernel all lie in the last, `fast`.
    pub classes: [Box<Tally>; Class::ALL.len()],
    /// Ops timed in batches; none of them for ops timed one by one.
    pub batches: Batches,
    /// Where ops created something.
    pub creation: Creation,
    /// Figures beside the ops.
    pub extras: Extras,
}

impl<'a> Ops<'a> {
    /// Ops of a member for one phase, of which it is to do `limit`, or as many as fit in the duration.
    pub(super) fn new(
        block: OwnBlock,
        control: &'a Control,
        leads: bool,
        limit: u64,
        phase: &Phase,
        gauge: &'a mut Option<Gauge>,
    ) -> Self {
        let now = clock::now_ns();
        Self {
            block,
            control,
            leads,
            limit,
            deadline_ns: phase.duration_ns.map_or(u64::MAX, |duration| now.saturating_add(duration)),
            gauge,
            done: 0,
            trials: 0,
            classes: array::from_fn(|_| Box::new(Tally::default())),
            batches: Batches::default(),
            creation: Creation::default(),
            extras: Extras::default(),
        }
    }

    /// Ops that this member is to do in this phase; of a supporting member, those of all others together.
    /// `u64::MAX` when the phase is limited by its duration.
    pub fn wanted(&self) -> u64 {
        self.limit
    }

    /// Whether the phase is to end although not all ops are done.
    pub fn expired(&self) -> bool {
        self.control.stopped() || clock::now_ns() >= self.deadline_ns
    }

    /// Notes a time beside those of the ops.
    pub fn extra_time(&mut self, name: &str, ns: u64) {
        self.extras.times.entry(name.to_owned()).or_default().record(ns, 1, (0, 0));
    }

    /// Adds to a count beside those of the ops.
    pub fn extra_count(&mut self, name: &str, count: u64) {
        *self.extras.counts.entry(name.to_owned()).or_default() += count;
    }

    /// Performs `count` ops at once, timed as a whole: each carries the mean, and the class of the whole.
    ///
    /// # Errors
    /// The ops' own.
    pub fn bulk(&mut self, count: u64, ops: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = self.block.counts();
        let start = clock::now_ns();
        ops()?;
        let took_ns = clock::elapsed_ns(start);
        let after = self.block.counts();
        let class = after.class_since(&before);
        let mean_ns = took_ns / count.max(1);
        self.classes[class as usize].record(mean_ns, count, after.off_cpu_since(&before));
        self.count(count);
        Ok(())
    }

    /// Performs and times `op` one by one, until there are enough.
    ///
    /// # Errors
    /// The op's own.
    pub fn each(&mut self, mut op: impl FnMut() -> Result<()>) -> Result<()> {
        let mut now = clock::now_ns();
        while self.done < self.limit && now < self.deadline_ns && !self.control.stopped() {
            now = self.one(&mut op)?;
        }
        Ok(())
    }

    /// Performs and times `op` one by one as long as another member wants it.
    ///
    /// # Errors
    /// The op's own.
    pub fn follow(&mut self, wanted: impl Fn() -> bool, mut op: impl FnMut() -> Result<()>) -> Result<()> {
        while wanted() {
            self.one(&mut op)?;
        }
        Ok(())
    }

    /// Performs and times `op` one by one until it says that there was nothing left to do; that attempt is
    /// no op.
    ///
    /// # Errors
    /// The op's own.
    pub fn while_given(&mut self, mut op: impl FnMut() -> Result<bool>) -> Result<()> {
        loop {
            let before = self.block.counts();
            let start = clock::now_ns();
            if !op()? {
                return Ok(());
            }
            let end = clock::now_ns();
            let after = self.block.counts();
            self.record(start, end, &before, &after);
        }
    }

    #[inline]
    fn one(&mut self, op: &mut impl FnMut() -> Result<()>) -> Result<u64> {
        let before = self.block.counts();
        let start = clock::now_ns();
        op()?;
        let end = clock::now_ns();
        let after = self.block.counts();
        self.record(start, end, &before, &after);
        Ok(end)
    }

    fn record(&mut self, start: u64, end: u64, before: &Counts, after: &Counts) {
        let class = after.class_since(before);
        let latency = end.saturating_sub(start);
        self.classes[class as usize].record(latency, 1, after.off_cpu_since(before));
        if class == Class::Created {
            self.creation.record(start, end, self.block.child());
        }
        self.count(1);
    }

    #[inline]
    fn count(&mut self, ops: u64) {
        self.done += ops;
        if self.leads {
            self.control.set_done(self.done);
        }
    }

    /// Performs `op` in batches, for ops that are cheaper than reading the clock. A batch inside which
    /// the kernel was entered is classed as a whole, and its ops carry its mean.
    ///
    /// # Errors
    /// None of its own; the signature is that of [`Self::each`].
    pub fn batched(&mut self, mut op: impl FnMut()) -> Result<()> {
        let gauge = match *self.gauge {
            Some(gauge) => gauge,
            None => self.calibrate(&mut op),
        };
        self.batches.gauge = Some(gauge);
        let mut now = clock::now_ns();
        while self.done < self.limit && now < self.deadline_ns && !self.control.stopped() {
            let ops = gauge.ops.min(self.limit - self.done);
            let before = self.block.counts();
            let took_ns = batch::time(ops, &mut op);
            let after = self.block.counts();
            now = clock::now_ns();
            self.record_batch(&gauge, ops, took_ns, &before, &after);
        }
        Ok(())
    }

    fn calibrate(&mut self, op: &mut impl FnMut()) -> Gauge {
        let (gauge, performed) = Gauge::find(op);
        *self.gauge = Some(gauge);
        self.trials += performed;
        gauge
    }

    fn record_batch(&mut self, gauge: &Gauge, ops: u64, took_ns: u64, before: &Counts, after: &Counts) {
        let class = after.class_since(before);
        let op_ps = gauge.op_ps(took_ns, ops);
        if class != Class::Fast {
            self.batches.disturbed += 1;
        } else if ops == gauge.ops {
            self.batches.record(op_ps);
        }
        self.classes[class as usize].record((op_ps + 500) / 1_000, ops, after.off_cpu_since(before));
        self.count(ops);
    }

    pub(super) fn finish(self) -> Yield {
        Yield {
            done: self.done,
            trials: self.trials,
            classes: self.classes,
            batches: self.batches,
            creation: self.creation,
            extras: self.extras,
        }
    }
}
