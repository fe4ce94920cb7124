//! Everything that workloads share: threads and processes of the crew, clocks, phases, pinning, counting
//! and classing of ops. Runs in the workload's own process; knows the counter blocks, but nothing of BPF.

pub mod batch;
pub mod control;
pub mod crew;
pub mod estimate;
pub mod evidence;
pub mod ops;
pub mod protocol;
pub mod shared;
pub mod tally;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};

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
    /// It performs no ops of its own, only what the others need: its time and counts are shown, but not
    /// summed.
    pub supports: bool,
}

impl Role {
    /// A thread.
    pub fn thread(name: &str) -> Self {
        Self { name: name.to_owned(), place: Place::Thread, supports: false }
    }

    /// A process.
    pub fn process(name: &str) -> Self {
        Self { name: name.to_owned(), place: Place::Process, supports: false }
    }

    /// A crew of equal threads.
    pub fn threads(name: &str, count: usize) -> Vec<Self> {
        (0..count).map(|index| Self::thread(&format!("{name}-{index}"))).collect()
    }

    /// The same member, performing no ops of its own.
    #[must_use]
    pub fn supporting(self) -> Self {
        Self { supports: true, ..self }
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
    /// Each op enters the kernel, and does not sleep there.
    EntersKernelWithoutSleep,
    /// Each op is one switch: the thread sleeps, or is preempted by the one it woke.
    OneSwitchPerOp,
    /// Some ops sleep, because another thread is in the way.
    SometimesSleeps,
    /// Hardly any op sleeps.
    HardlyEverSleeps,
    /// Each op creates one thread.
    OneThreadPerOp,
    /// Each op creates one process.
    OneProcessPerOp,
    /// No thread is created.
    CreatesNoThread,
    /// Waiting takes hardly any CPU time.
    WaitsAsleep,
    /// Waiting takes a whole core.
    BurnsACore,
    /// The wait is uninterruptible: state D.
    WaitsUninterruptibly,
}

impl Claim {
    /// The claim as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NeverEntersKernel => "does not enter the kernel",
            Self::EntersKernelWithoutSleep => "each op enters the kernel and does not sleep",
            Self::OneSwitchPerOp => "each op is one switch: it sleeps, or the thread it woke takes its CPU",
            Self::SometimesSleeps => "some ops sleep, because another thread is in the way",
            Self::HardlyEverSleeps => "hardly any op sleeps",
            Self::OneThreadPerOp => "each op creates one thread",
            Self::OneProcessPerOp => "each op creates one process",
            Self::CreatesNoThread => "creates no thread",
            Self::WaitsAsleep => "waits asleep: hardly any CPU time",
            Self::BurnsACore => "waits awake: a whole core",
            Self::WaitsUninterruptibly => "waits uninterruptibly: state D",
        }
    }
}

/// What a parameter can be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A number within these bounds.
    Count(u64, u64),
    /// A duration: `500us`, `2s`.
    Duration,
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
    /// What it can be.
    pub kind: Kind,
}

/// What a workload is built from. Its parameters were checked when the command line was read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size of the crew, for workloads whose crew has no fixed size.
    pub threads: usize,
    /// The workload's own parameters, each with a value.
    pub parameters: BTreeMap<String, String>,
}

impl Settings {
    /// The value of a [`Kind::Choice`].
    pub fn choice(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// The value of a [`Kind::Count`].
    ///
    /// # Errors
    /// When it is no number; the command line does not let that through.
    pub fn count(&self, name: &str) -> Result<u64> {
        self.choice(name).parse().with_context(|| format!("--{name} is not a number"))
    }

    /// The value of a [`Kind::Duration`].
    ///
    /// # Errors
    /// When it is no duration; the command line does not let that through.
    pub fn duration(&self, name: &str) -> Result<Duration> {
        humantime::parse_duration(self.choice(name)).with_context(|| format!("--{name} is not a duration"))
    }
}

/// How large the crew is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrewSize {
    /// As large as `--threads` says, by default this.
    Threads(usize),
    /// Always the same.
    Fixed(usize),
    /// One more than what this parameter says.
    OneMoreThan(&'static str),
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
    /// How large the crew is.
    pub crew: CrewSize,
    /// Parameters beside the common ones.
    pub parameters: &'static [Parameter],
    /// Why this build of the program does not have it, if so.
    pub unavailable: Option<&'static str>,
    /// Builds it.
    pub build: fn(&Settings) -> Result<Box<dyn Workload>>,
}
