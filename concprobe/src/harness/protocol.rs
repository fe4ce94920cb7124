//! What the driver, the workload's process and its members say to each other: one JSON value a line.
//! A peer that ends shows as the end of the stream, so nobody waits for ever.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    os::{
        fd::{AsRawFd as _, RawFd},
        unix::net::UnixStream,
    },
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Role, SelfCheck,
    batch::Batches,
    estimate::Estimate,
    evidence::ChildStamps,
    ops::{Extras, Yield},
    tally,
    tally::Tally,
};

/// The first message to the workload's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assignment {
    /// Name of the workload.
    pub workload: String,
    /// Size of the crew.
    pub threads: usize,
    /// The workload's own parameters.
    pub parameters: BTreeMap<String, String>,
    /// CPUs to pin the members to, in turn.
    pub pin: Option<Vec<usize>>,
    /// The counter blocks; `None` without evidence from the kernel.
    pub evidence: Option<Evidence>,
    /// Descriptor of the control page.
    pub control: RawFd,
}

/// Where the counter blocks are.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Evidence {
    /// Descriptor of the array.
    pub blocks: RawFd,
    /// Number of blocks.
    pub slots: u32,
    /// The session that announcements must name.
    pub session: u64,
}

/// What to do next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Perform ops.
    Phase(Phase),
    /// Check what was done, and end.
    Finish,
}

/// A stretch of ops under the same conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Ops of the whole crew; `None` for as many as the duration allows.
    pub ops: Option<u64>,
    /// How long, nanoseconds; `None` for as long as the ops take.
    pub duration_ns: Option<u64>,
    /// Whether intervals go into the kernel's histograms and ended threads into its sums.
    pub record: bool,
}

/// What came of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Every member exists, is pinned and has announced itself.
    Ready {
        /// From the first member's creation to the last one's readiness, nanoseconds; a member says 0.
        setup_ns: u64,
    },
    /// A phase is over.
    Phase(Vec<MemberResult>),
    /// The end.
    Checked(SelfCheck),
    /// It cannot go on.
    Failed(String),
}

/// What one member did in one phase.
#[derive(Debug, Serialize, Deserialize)]
pub struct MemberResult {
    /// Name of the member.
    pub name: String,
    /// It performs no ops of its own.
    pub supports: bool,
    /// Thread id, in the PID namespace of the workload.
    pub tid: i32,
    /// Ops.
    pub ops: u64,
    /// Ops performed beside them, to find the size of a batch.
    pub trials: u64,
    /// By class, in the order of `Class::ALL`.
    pub classes: Vec<Option<Tally>>,
    /// Where ops were timed in batches.
    pub batches: Option<BatchResult>,
    /// Where ops created something.
    pub creation: Creation,
    /// Figures beside the ops.
    pub extras: Extras,
    /// `CLOCK_MONOTONIC` at the phase's start, nanoseconds.
    pub start_ns: u64,
    /// Same at its end.
    pub end_ns: u64,
    /// What the kernel counted, in the order of `Counter::ALL`; `None` without evidence.
    pub counters: Option<Vec<u64>>,
    /// What an ordinary user can read.
    pub estimate: Estimate,
}

/// The undisturbed batches of a member.
#[derive(Debug, Serialize, Deserialize)]
pub struct BatchResult {
    /// Ops in a batch.
    pub ops: u64,
    /// Empty loop taken off, picoseconds an op.
    pub empty_ps: u64,
    /// Batches without the kernel.
    pub undisturbed: u64,
    /// Batches with it.
    pub disturbed: u64,
    /// Least time of an op, picoseconds.
    pub min_ps: u64,
    /// Greatest, picoseconds.
    pub max_ps: u64,
    /// Times of an op in picoseconds: HdrHistogram V2, compressed, base64.
    pub histogram: String,
}

impl BatchResult {
    fn new(batches: &Batches) -> Result<Option<Self>> {
        let Some(gauge) = batches.gauge else { return Ok(None) };
        Ok(Some(Self {
            ops: gauge.ops,
            empty_ps: gauge.empty_ps,
            undisturbed: batches.undisturbed,
            disturbed: batches.disturbed,
            min_ps: batches.min_ps,
            max_ps: batches.max_ps,
            histogram: tally::encode(&batches.histogram)?,
        }))
    }
}

/// Where the time of the ops that created something went, nanoseconds summed over `ops`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Creation {
    /// Ops whose stamps were complete and in order.
    pub ops: u64,
    /// Ops whose stamps were not.
    pub unordered: u64,
    /// Whole ops.
    pub op_ns: u64,
    /// Op begun until clone entered: the library's own work.
    pub setup_ns: u64,
    /// Clone entered until the new thread is runnable.
    pub clone_ns: u64,
    /// Runnable until its first run.
    pub first_run_wait_ns: u64,
    /// First run until the op ends: the thread's work, its exit and the join.
    pub exit_and_join_ns: u64,
}

impl Creation {
    /// Adds the op from `start` to `end` that made the child with these stamps.
    pub fn record(&mut self, start: u64, end: u64, child: Option<ChildStamps>) {
        let Some(child) = child else { return };
        let ordered = start <= child.clone_ns
            && child.clone_ns <= child.runnable_ns
            && child.runnable_ns <= child.first_run_ns
            && child.first_run_ns <= end;
        if !ordered {
            self.unordered += 1;
            return;
        }
        self.ops += 1;
        self.op_ns += end - start;
        self.setup_ns += child.clone_ns - start;
        self.clone_ns += child.runnable_ns - child.clone_ns;
        self.first_run_wait_ns += child.first_run_ns - child.runnable_ns;
        self.exit_and_join_ns += end - child.first_run_ns;
    }

    /// Adds another's ops.
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.unordered += other.unordered;
        self.op_ns += other.op_ns;
        self.setup_ns += other.setup_ns;
        self.clone_ns += other.clone_ns;
        self.first_run_wait_ns += other.first_run_wait_ns;
        self.exit_and_join_ns += other.exit_and_join_ns;
    }
}

impl MemberResult {
    /// Puts a member's phase together.
    pub(super) fn new(
        role: &Role,
        tid: i32,
        result: Yield,
        (start_ns, end_ns): (u64, u64),
        counters: Option<Vec<u64>>,
        estimate: Estimate,
    ) -> Result<Self> {
        Ok(Self {
            name: role.name.clone(),
            supports: role.supports,
            tid,
            ops: result.done,
            trials: result.trials,
            classes: result.classes.into_iter().map(|tally| (tally.count > 0).then_some(*tally)).collect(),
            batches: BatchResult::new(&result.batches)?,
            creation: result.creation,
            extras: result.extras,
            start_ns,
            end_ns,
            counters,
            estimate,
        })
    }
}

/// One end of a conversation.
#[derive(Debug)]
pub struct Line {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Line {
    /// Speaks over `stream`.
    ///
    /// # Errors
    /// When the descriptor cannot be duplicated.
    pub fn new(stream: UnixStream) -> Result<Self> {
        let writer = stream.try_clone().context("cannot duplicate a socket")?;
        Ok(Self { reader: BufReader::new(stream), writer })
    }

    /// The descriptor on which messages arrive. One message answers one order, so when it is readable no
    /// message waits in the buffer before it.
    pub fn descriptor(&self) -> RawFd {
        self.writer.as_raw_fd()
    }

    /// Sends one message.
    ///
    /// # Errors
    /// When the peer has gone.
    pub fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.writer.write_all(&line).context("the peer has gone")
    }

    /// Waits for one message.
    ///
    /// # Errors
    /// When the peer has gone, or speaks another language.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            bail!("the peer has gone");
        }
        serde_json::from_str(&line).context("unexpected message")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_creation_add_up_to_its_op() {
        let mut creation = Creation::default();
        let child = ChildStamps { clone_ns: 110, runnable_ns: 140, first_run_ns: 150 };
        creation.record(100, 190, Some(child));
        assert_eq!(creation.op_ns, 90);
        let parts =
            creation.setup_ns + creation.clone_ns + creation.first_run_wait_ns + creation.exit_and_join_ns;
        assert_eq!(parts, creation.op_ns);
    }

    #[test]
    fn stamps_of_another_op_are_counted_apart() {
        let mut creation = Creation::default();
        for child in [
            ChildStamps { clone_ns: 90, runnable_ns: 140, first_run_ns: 150 },
            ChildStamps { clone_ns: 110, runnable_ns: 140, first_run_ns: 0 },
            ChildStamps { clone_ns: 110, runnable_ns: 140, first_run_ns: 200 },
        ] {
            creation.record(100, 190, Some(child));
        }
        assert_eq!((creation.ops, creation.unordered), (0, 3));
    }
}
