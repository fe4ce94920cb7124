//! Everything that workloads share: threads and processes of the crew, clocks, phases, pinning, counting
//! and classing of ops. Runs in the workload's own process; knows the counter blocks, but nothing of BPF.

pub mod batch;
pub mod clock;
pub mod control;
pub mod crew;
pub mod estimate;
pub mod evidence;
pub mod ops;
pub mod protocol;
pub mod shared;
pub mod tally;

use std::collections::BTreeMap;

use anyhow::Result;

pub use ops::Ops;

/// Where a member of the crew runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A thread of the workload's process.
    Thread,
    /// A process of its own, forked from the workload's process.
    Process,
}

/// One member of the crew.
#[derive(Clone, Debug)]
pub struct Role {
    /// Its name in results.
    pub name: String,
    /// Where it runs.
    pub place: Place,
}

impl Role {
    /// A crew of equal threads.
    pub fn threads(name: &str, count: usize) -> Vec<Self> {
        (0..count).map(|index| Self { name: format!("{name}-{index}"), place: Place::Thread }).collect()
    }
}

/// Whether the workload did what it claims to do.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SelfCheck {
    /// The workload's invariants held.
    pub passed: bool,
    /// What was compared, with figures.
    pub detail: String,
}

/// A workload, made once for a run and shared by its crew.
pub trait Workload: Sync {
    /// Who takes part. A workload that can run with any number of threads makes that many.
    fn crew(&self) -> Vec<Role>;

    /// One phase of one member: performs ops through `ops` until it has enough.
    ///
    /// # Errors
    /// What made it impossible to go on.
    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()>;

    /// Compares what the workload did with the number of ops that the harness counted, over all phases,
    /// the warm-up included.
    fn check(&self, ops: u64) -> SelfCheck;
}

/// What the kernel's counts must show if the workload is what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// No op enters the kernel.
    NeverEntersKernel,
    /// Each op is one switch: the thread sleeps, or is preempted by the one it woke.
    OneSwitchPerOp,
    /// Each op creates one thread.
    OneThreadPerOp,
}

impl Claim {
    /// The claim as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NeverEntersKernel => "does not enter the kernel",
            Self::OneSwitchPerOp => "each op is one switch: it sleeps, or the thread it woke takes its CPU",
            Self::OneThreadPerOp => "each op creates one thread",
        }
    }
}

/// A parameter that only one workload has.
#[derive(Debug)]
pub struct Parameter {
    /// Option name without the dashes.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// What it is when not given.
    pub default: &'static str,
    /// Every value it can take.
    pub values: &'static [&'static str],
}

/// What a workload is built from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size of the crew, for workloads whose crew has no fixed size.
    pub threads: usize,
    /// The workload's own parameters, each with a value.
    pub parameters: BTreeMap<String, String>,
}

impl Settings {
    /// The value of one of the workload's own parameters.
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }
}

/// A row of the table of workloads.
#[derive(Debug)]
pub struct Entry {
    /// The word on the command line, and the file's stem with dashes.
    pub name: &'static str,
    /// What it shows, in one line.
    pub summary: &'static str,
    /// What one op is.
    pub op: &'static str,
    /// What its kernel counts must show.
    pub claim: Claim,
    /// Ops of a run when nothing else is asked for.
    pub default_ops: u64,
    /// Size of the crew: `None` when `--threads` sets it.
    pub fixed_crew: Option<usize>,
    /// Parameters beside the common ones.
    pub parameters: &'static [Parameter],
    /// Builds it.
    pub build: fn(&Settings) -> Result<Box<dyn Workload>>,
}
