//! What a comparison measured and found, as plain data. Times of trials are integer picoseconds in keys that
//! end in `_ps`; a ratio is always the second side by the first.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;

/// Version of the format.
pub const SCHEMA: &str = "concprobe-compare/1";

/// The whole result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program that measured.
    pub concprobe: String,
    /// Seconds since 1970 at the start.
    pub started_at: u64,
    /// The machine; of saved results, that of the first.
    pub environment: Environment,
    /// What was compared.
    pub kind: Kind,
    /// What the figure of a trial is.
    pub figure: String,
    /// What was compared, first and second.
    pub sides: [Side; 2],
    /// Names of the variables in which the sides differ.
    pub differ: Vec<String>,
    /// How it was measured.
    pub method: Method,
    /// Every trial that counts, in the order of measuring.
    pub trials: Vec<Trial>,
    /// When it was decided whether to go on.
    pub looks: Vec<Look>,
    /// What was found.
    pub answer: Answer,
    /// The same for the 99th percentile of the ops; `None` where a trial has none.
    pub tail: Option<Question>,
    /// Whether it matters which of a pair is first; `None` for saved results, and for too few pairs.
    pub order_effect: Option<Effect>,
    /// Whether the figures rise or fall with time, from the first trial to the last.
    pub drift: Option<Effect>,
    /// Medians of the parts of an op's time, in thread time.
    pub parts: Option<[PartsOfOp; 2]>,
    /// Number of the signal that ended it early.
    pub interrupted_by: Option<i32>,
    /// Trials that yielded no figure, or lost events.
    pub lost: u64,
    /// What to make of it.
    pub verdict: Vec<String>,
    /// What makes the figures less trustworthy.
    pub warnings: Vec<String>,
    /// Key → why it is `null`.
    pub unavailable: BTreeMap<String, String>,
}

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Workloads, each trial a run.
    Workloads,
    /// Commands, each trial a run of it.
    Commands,
    /// The same, each trial looked at by the kernel programs.
    TracedCommands,
    /// Saved results: one of each side, whose repetitions are the trials.
    SavedRepetitions,
    /// Saved results: several of each side, each a trial.
    SavedRuns,
}

impl Kind {
    /// The trials were measured here, in pairs.
    pub fn is_paired(self) -> bool {
        matches!(self, Self::Workloads | Self::Commands | Self::TracedCommands)
    }
}

/// One of the two sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// As it was typed.
    pub label: String,
    /// Everything that was asked for, defaults included; of a command, its words.
    pub parameters: BTreeMap<String, String>,
    /// Its trials together.
    pub summary: Option<Summary>,
    /// The same for the 99th percentile of its ops.
    pub tail: Option<Summary>,
}

/// Figures of a side's trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Summary {
    pub trials: u64,
    pub min_ps: u64,
    pub p25_ps: u64,
    pub median_ps: u64,
    pub p75_ps: u64,
    pub max_ps: u64,
}

/// In which order the trials of a round are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Drawn for each round: with this the test needs no assumption about the noise
    #[default]
    Random,
    /// There and back: AB BA
    Alternating,
}

/// Which figure of a trial is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Wall time of the command, or of the crew for one op in the middle repetition
    #[default]
    Wall,
    /// Time of an op in the middle undisturbed batch, of workloads whose ops are timed in batches
    Batch,
    /// CPU time, of all threads together: less noise where other work competes, but blind for waiting
    Cpu,
}

impl By {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Batch => "batch",
            Self::Cpu => "cpu",
        }
    }
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// Which figure of a trial is compared.
    pub by: By,
    /// Order within a round.
    pub order: Order,
    /// Where the random order starts.
    pub seed: u64,
    /// Pairs at most.
    pub runs: u64,
    /// Time at most, nanoseconds.
    pub max_time_ns: u64,
    /// Each round measured the first side twice.
    pub same_arm: bool,
    /// A difference below this part is not called one.
    pub smallest: f64,
    /// How often equals may be called different, over all looks.
    pub level: f64,
    /// After how many pairs to look.
    pub looks: Vec<u64>,
    /// Uncounted trials of each side before the first round.
    pub warmup_runs: u64,
}

/// Which arm of the comparison a trial belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The first side.
    A,
    /// The first side once more, to see what a difference between equals looks like.
    Same,
    /// The second side.
    B,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The round it belongs to, from 0.
    pub round: u64,
    /// Which arm.
    pub arm: Arm,
    /// When it began, since the start of the comparison.
    pub began_ns: u64,
    /// Wall time: of a workload's crew for one op in the middle repetition, or of the command.
    pub wall_ps: u64,
    /// Time of an op in the middle undisturbed batch, where ops are timed in batches.
    pub batch_ps: Option<u64>,
    /// 99th percentile of its ops.
    pub p99_ps: Option<u64>,
    /// Where an op's time went.
    pub parts: Option<PartsOfOp>,
}

impl Trial {
    /// The figure that is compared.
    pub fn figure(&self, by: By) -> Option<u64> {
        match by {
            By::Wall => Some(self.wall_ps),
            By::Batch => self.batch_ps,
            By::Cpu => self.parts.and_then(|parts| parts.on_cpu_ps),
        }
    }
}

/// Where the time of an op (of a command: of a run) went, summed over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the parts of an observation")]
pub struct PartsOfOp {
    pub on_cpu_ps: Option<u64>,
    pub user_ps: Option<u64>,
    pub kernel_ps: Option<u64>,
    pub blocked_ps: Option<u64>,
    pub run_queue_ps: Option<u64>,
    pub creation_ps: Option<u64>,
}

/// A look at what there was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Pairs.
    pub pairs: u64,
    /// Signed-rank test of the pairs.
    pub p_value: f64,
    /// What it had to be below.
    pub level: f64,
    /// It was.
    pub decided: bool,
}

/// Which side takes less time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The first.
    AFaster,
    /// The second.
    BFaster,
    /// Not to be told.
    CannotTell,
}

/// Why it cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// So few trials cannot tell, whatever they show.
    TooFew,
    /// What was seen happens by chance too often.
    Noise,
    /// It is below what is called a difference.
    Small,
    /// The first side differs from itself as much.
    Floor,
    /// The repetitions of one run share a process and a moment: no runs of their own.
    OneRun,
}

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio, second by first.
    pub ratio: f64,
    /// Lower and upper end; `None` when there are too few trials for one.
    pub interval: Option<(f64, f64)>,
    /// How sure the interval is.
    pub confidence: f64,
}

/// The answer to one question.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Which side takes less.
    pub outcome: Outcome,
    /// Why that cannot be told.
    pub doubt: Option<Doubt>,
    /// Pairs, or of saved results trials of the smaller side.
    pub pairs: u64,
    /// Of the signed-rank test, or of saved results the rank-sum test.
    pub p_value: Option<f64>,
    /// What it had to be below.
    pub level: f64,
    /// Ratio of the least.
    pub ratio_of_minima: Option<f64>,
    /// Ratio of the medians, with its bootstrap interval.
    pub ratio_of_medians: Option<Ratio>,
    /// Ratio within a pair, with the interval of the very test.
    pub ratio_in_pairs: Option<Ratio>,
    /// How probable it is that one single run each would have said the opposite.
    pub reversal: Option<f64>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The answer.
    #[serde(flatten)]
    pub question: Question,
    /// The first side against itself, by the same method.
    pub same: Option<Ratio>,
    /// p-value of the same.
    pub same_p_value: Option<f64>,
    /// Within how many times of each other 95 % of two single runs of the same side lie.
    pub noise: Option<f64>,
    /// About how many more pairs would tell.
    pub more_pairs: Option<u64>,
}

/// Something that disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// How many times.
    pub ratio: f64,
    /// p-value of there being none.
    pub p_value: f64,
}
