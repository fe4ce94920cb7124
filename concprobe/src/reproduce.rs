//! The published measurements, made here: each set is a few runs, a table beside the published figures,
//! and claims judged from the kernel's counts. Prints nothing.

mod futures;
mod pools;
mod semaphores;
mod sharing;
mod waiting;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    clock,
    diagnose::claim::Judgement,
    environment::Environment,
    harness::{CrewSize, Settings},
    observation::{Depth, Observation},
    plan::{Length, Plan},
    run, workload,
};

/// Version of the format of a saved reproduction.
pub const SCHEMA: &str = "concprobe-reproduction/1";

/// A set of published measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
pub enum Name {
    /// Semaphore: one call, two prices
    #[value(name = "M1", alias = "m1")]
    M1,
    /// Thread per task against a pool
    #[value(name = "M2", alias = "m2")]
    M2,
    /// Futures
    #[value(name = "M3", alias = "m3")]
    M3,
    /// Blocking read, busy-poll, epoll
    #[value(name = "M4", alias = "m4")]
    M4,
    /// How to measure a change
    #[value(name = "M5", alias = "m5")]
    M5,
}

impl Name {
    /// Every set.
    pub const ALL: [Self; 5] = [Self::M1, Self::M2, Self::M3, Self::M4, Self::M5];

    /// What it is about.
    pub fn title(self) -> &'static str {
        match self {
            Self::M1 => "M1, semaphore: one call, two prices",
            Self::M2 => "M2, thread per task against a pool",
            Self::M3 => "M3, futures",
            Self::M4 => "M4, blocking read, busy-poll, epoll",
            Self::M5 => "M5, how to measure a change",
        }
    }
}

/// Everything that was reproduced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reproduction {
    /// [`SCHEMA`].
    pub schema: String,
    /// The sets, in the order of measuring.
    pub sets: Vec<Set>,
    /// Number of the signal that ended it early.
    pub interrupted_by: Option<i32>,
}

/// One set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Set {
    /// Which.
    pub name: Name,
    /// Published figures beside those of this machine.
    pub rows: Vec<Row>,
    /// What the figures are to show.
    pub claims: Vec<Claim>,
    /// The runs behind it, by what was run.
    pub observations: BTreeMap<String, Observation>,
}

/// A published figure beside that of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub measurement: String,
    /// The published figure, as published.
    pub published: String,
    /// The figure here.
    pub here: String,
    /// Published figure as a number of picoseconds, where it is one.
    pub published_ps: Option<u64>,
    /// The figure here, picoseconds.
    pub here_ps: Option<u64>,
}

/// A claim of the set, judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// What is claimed.
    pub claim: String,
    /// `None`: cannot be told here.
    pub holds: Option<bool>,
    /// The figures, or the reason.
    pub evidence: String,
}

impl Reproduction {
    /// Whether a claim was refuted.
    pub fn refuted(&self) -> bool {
        self.claims().any(|claim| claim.holds == Some(false))
    }

    /// Every claim of every set.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.sets.iter().flat_map(|set| &set.claims)
    }
}

/// Measures the named sets.
///
/// # Errors
/// When a run is impossible here.
pub async fn reproduce(names: &[Name]) -> Result<Reproduction> {
    let mut sets = Vec::new();
    let mut interrupted_by = None;
    for name in names {
        let mut bench = Bench::default();
        let set = match name {
            Name::M1 => semaphores::measure(&mut bench).await,
            Name::M2 => pools::measure(&mut bench).await,
            Name::M3 => futures::measure(&mut bench).await,
            Name::M4 => waiting::measure(&mut bench).await,
            Name::M5 => sharing::measure(&mut bench).await,
        };
        if let Some(signal) = bench.interrupted_by {
            interrupted_by = Some(signal);
            // What was measured of the set is kept, although its claims cannot be judged any more.
            sets.push(bench.into_set(*name, Vec::new(), Vec::new()));
            break;
        }
        sets.push(set.with_context(|| name.title())?);
    }
    Ok(Reproduction { schema: SCHEMA.to_owned(), sets, interrupted_by })
}

/// One run of a workload within a set.
#[derive(Clone, Debug)]
struct Trial {
    workload: &'static str,
    ops: u64,
    repeat: u64,
    threads: Option<usize>,
    warmup: Duration,
    depth: Depth,
    /// Pins the members to all usable CPUs in turn: where a scheduler packs threads onto few CPUs, nothing
    /// would be shared between cores.
    spread: bool,
    parameters: Vec<(&'static str, String)>,
}

impl Trial {
    fn new(workload: &'static str, ops: u64) -> Self {
        Self {
            workload,
            ops,
            repeat: 5,
            threads: None,
            warmup: Duration::from_millis(50),
            depth: Depth::Calls,
            spread: false,
            parameters: Vec::new(),
        }
    }

    fn with(mut self, parameter: &'static str, value: impl ToString) -> Self {
        self.parameters.push((parameter, value.to_string()));
        self
    }

    fn spread(mut self) -> Self {
        self.spread = true;
        self
    }

    fn once(mut self) -> Self {
        self.repeat = 1;
        self
    }

    /// What was run, as one would type it.
    fn label(&self) -> String {
        let mut label = self.workload.to_owned();
        for (name, value) in &self.parameters {
            label.push_str(&format!(" --{name} {value}"));
        }
        label
    }

    fn plan(&self) -> Result<Plan> {
        let Some(entry) = workload::find(self.workload) else { bail!("no workload {}", self.workload) };
        if let Some(reason) = entry.unavailable {
            bail!("{} is not available: {reason}", entry.name);
        }
        let mut parameters: BTreeMap<String, String> = entry
            .parameters
            .iter()
            .map(|parameter| (parameter.name.to_owned(), parameter.default.to_owned()))
            .collect();
        for (name, value) in &self.parameters {
            parameters.insert((*name).to_owned(), value.clone());
        }
        let threads = match (self.threads, entry.crew) {
            (Some(threads), _) => threads,
            (None, CrewSize::Threads(size) | CrewSize::Fixed(size)) => size,
            (None, CrewSize::OneMoreThan(name)) => {
                1 + parameters.get(name).map_or(Ok(0), |text| text.parse())?
            }
        };
        Ok(Plan {
            entry,
            settings: Settings { threads, parameters },
            length: Length::Ops(self.ops),
            repeat: self.repeat,
            warmup: self.warmup,
            pin: self.spread.then(|| Environment::read().cpus_usable).filter(|cpus| !cpus.is_empty()),
            depth: Some(self.depth),
            way: None,
            count_by_number: false,
            patience: Duration::from_secs(20),
            output: None,
            json: false,
            verbose: 0,
        })
    }
}

/// Carries trials out and keeps their observations.
#[derive(Debug, Default)]
struct Bench {
    observations: BTreeMap<String, Observation>,
    interrupted_by: Option<i32>,
}

impl Bench {
    /// Runs the trial; its observation is kept under its label.
    async fn run(&mut self, trial: &Trial) -> Result<Observation> {
        if self.interrupted_by.is_some() {
            bail!("interrupted");
        }
        let label = trial.label();
        let observation =
            run::run(&trial.plan()?, clock::now_ns()).await.with_context(|| format!("cannot run {label}"))?;
        self.interrupted_by = observation.interrupted_by;
        if self.interrupted_by.is_some() {
            bail!("interrupted");
        }
        self.observations.insert(label, observation.clone());
        Ok(observation)
    }

    fn into_set(self, name: Name, rows: Vec<Row>, claims: Vec<Claim>) -> Set {
        Set { name, rows, claims, observations: self.observations }
    }
}

impl Claim {
    fn new(claim: &str, holds: bool, evidence: String) -> Self {
        Self { claim: claim.to_owned(), holds: Some(holds), evidence }
    }

    fn cannot_tell(claim: &str, reason: &str) -> Self {
        Self { claim: claim.to_owned(), holds: None, evidence: reason.to_owned() }
    }

    fn judged(claim: &str, judgement: Judgement) -> Self {
        Self { claim: claim.to_owned(), holds: judgement.holds, evidence: judgement.evidence }
    }

    /// A workload's own claim, in the words of the set.
    fn of(claim: &str, observation: &Observation) -> Self {
        Self::judged(claim, crate::diagnose::claim::judge(observation))
    }
}

impl Row {
    fn time(measurement: &str, published: &str, published_ps: u64, here_ps: u64) -> Self {
        Self {
            measurement: measurement.to_owned(),
            published: published.to_owned(),
            here: crate::units::per_op_ps(here_ps),
            published_ps: Some(published_ps),
            here_ps: Some(here_ps),
        }
    }

    fn text(measurement: &str, published: &str, here: String) -> Self {
        Self {
            measurement: measurement.to_owned(),
            published: published.to_owned(),
            here,
            published_ps: None,
            here_ps: None,
        }
    }
}

/// What an op costs, picoseconds: the best undisturbed batch, or the best repetition's wall time by op.
fn per_op_ps(observation: &Observation) -> u64 {
    let of_batches = observation.batches.as_ref().and_then(|batches| batches.min_ps);
    let of_repetitions =
        || observation.repetitions.iter().filter(|one| one.ops > 0).map(|one| one.per_op_ps).min();
    of_batches.or_else(of_repetitions).unwrap_or(0)
}

/// How many times `left` is `right`.
fn times(left: u64, right: u64) -> f64 {
    left as f64 / right.max(1) as f64
}

/// Voluntary and involuntary switches for each op.
fn switches_per_op(observation: &Observation) -> f64 {
    let counts = &observation.counts;
    let switches = counts.voluntary_switches.unwrap_or(0) + counts.involuntary_switches.unwrap_or(0);
    switches as f64 / observation.ops.max(1) as f64
}

/// CPU time as a part of one core.
fn cores(observation: &Observation) -> f64 {
    observation.parts.on_cpu_ns.unwrap_or(0) as f64 / observation.wall_ns.max(1) as f64
}
