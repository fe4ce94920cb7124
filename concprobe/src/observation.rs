//! What was measured, as plain data: the only thing that verdicts and renderers read, and what is saved.
//! Times are integer nanoseconds in keys that end in `_ns`; what was not measured is `null`, with its
//! reason under `unavailable`.

pub mod compare;
pub mod trace;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    environment::Environment,
    harness::{Claim, SelfCheck},
};

/// Version of the format.
pub const SCHEMA: &str = "concprobe/1";

/// How deep the kernel programs look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// Switches, wake-ups, creations, and the futex sleeps among them; nothing at system calls
    Switches,
    /// Every system call too: exact counts of calls that did not sleep, their outcome, kernel time
    Calls,
}

impl Depth {
    /// The word for it in results and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Switches => "switches",
            Self::Calls => "calls",
        }
    }
}

/// The whole result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program that measured.
    pub concprobe: String,
    /// Seconds since 1970 at the start.
    pub started_at: u64,
    /// Name of the workload.
    pub workload: String,
    /// What one op is.
    pub op: String,
    /// What the workload says of itself.
    pub claim: Claim,
    /// Whether the kernel's counts say so; `None` when it cannot be told.
    #[serde(default)]
    pub claim_holds: Option<bool>,
    /// Everything that was asked for, defaults included.
    pub parameters: BTreeMap<String, String>,
    /// The machine.
    pub environment: Environment,
    /// How deep it looked; `None` without kernel programs.
    pub depth: Option<Depth>,
    /// How the kernel programs were attached.
    pub attached_by: Option<String>,
    /// The figures are estimates: no kernel programs were used.
    pub estimate: bool,
    /// Number of the signal that ended the run early.
    pub interrupted_by: Option<i32>,
    /// Ops measured, warm-up not counted.
    pub ops: u64,
    /// Wall time of the measured repetitions, summed.
    pub wall_ns: u64,
    /// Each repetition by itself.
    pub repetitions: Vec<Repetition>,
    /// The ops by class; a class that the depth cannot tell is `null`.
    pub classes: Classes,
    /// All ops together.
    pub latency: Option<Latencies>,
    /// Ops timed in batches.
    pub batches: Option<Batches>,
    /// Where the threads' time went, summed over threads.
    pub parts: Parts,
    /// What the kernel counted, summed over threads.
    pub counts: Counts,
    /// Where the time of creating ops went.
    pub creation: Option<CreationParts>,
    /// Figures of the workload beside its ops: times, by name.
    #[serde(default)]
    pub extra_times: BTreeMap<String, Latencies>,
    /// The same: counts, by name.
    #[serde(default)]
    pub extra_counts: BTreeMap<String, u64>,
    /// Intervals from the kernel's own histograms.
    pub intervals: Option<Intervals>,
    /// System calls by number, where asked for.
    pub calls: Option<Vec<Call>>,
    /// The threads of the crew, and ended threads as one row.
    pub threads: Vec<Thread>,
    /// Locks; only `trace` and `attach` look at them.
    pub locks: Vec<serde_json::Value>,
    /// What is missing, all causes together; `None` without kernel programs.
    pub lost: Option<u64>,
    /// What is missing, by cause.
    pub losses: BTreeMap<String, u64>,
    /// Events that the kernel did not report, where no count is wrong but the border between two parts of
    /// time is where the thread was next seen.
    #[serde(default)]
    pub blurs: BTreeMap<String, u64>,
    /// Mean cost of one run of a kernel program.
    pub probe_cost_ns_per_event: Option<u64>,
    /// More about the programs' cost.
    pub probe: Option<Probe>,
    /// One repetition at depth *switches*, to tell what the deeper look cost.
    pub depth_check: Option<DepthCheck>,
    /// Start-up and memory of concprobe itself.
    pub footprint: Footprint,
    /// Whether workload and measurement are consistent.
    pub self_check: SelfCheck,
    /// What to make of it.
    pub verdict: Vec<String>,
    /// What makes the figures less trustworthy.
    pub warnings: Vec<String>,
    /// Key → why it is `null`.
    pub unavailable: BTreeMap<String, String>,
}

/// One repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// Ops.
    pub ops: u64,
    /// Longest wall time of a member.
    pub wall_ns: u64,
    /// Wall time of the crew for one op, picoseconds.
    pub per_op_ps: u64,
}

/// The ops by class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classes {
    /// Never entered the kernel.
    pub fast: Option<Latencies>,
    /// Made a system call, was not switched out.
    pub kernel: Option<Latencies>,
    /// Involuntary switch only.
    pub preempted: Option<Latencies>,
    /// At least one voluntary switch.
    pub slept: Option<Latencies>,
    /// Created a thread or process.
    pub created: Option<Latencies>,
    /// Depth *switches* only: `fast` and `kernel` together, which it cannot tell apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_switched: Option<Latencies>,
}

impl Classes {
    /// Name and figures of every class that was measured, in the order of the report.
    pub fn measured(&self) -> impl Iterator<Item = (&'static str, &Latencies)> {
        [
            ("fast", &self.fast),
            ("not_switched", &self.not_switched),
            ("kernel", &self.kernel),
            ("preempted", &self.preempted),
            ("slept", &self.slept),
            ("created", &self.created),
        ]
        .into_iter()
        .filter_map(|(name, class)| Some((name, class.as_ref()?)))
    }
}

/// Latencies of some ops. Percentiles of nothing are `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// Ops.
    pub count: u64,
    /// Least, exact.
    pub min_ns: Option<u64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// Greatest, exact.
    pub max_ns: Option<u64>,
    /// Sum.
    pub sum_ns: u64,
    /// Of the sum: blocked.
    pub blocked_ns: Option<u64>,
    /// Of the sum: waiting for a CPU.
    pub run_queue_ns: Option<u64>,
    /// HdrHistogram V2, compressed, base64.
    pub histogram: Option<String>,
}

/// Ops timed in batches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batches {
    /// Ops in a batch.
    pub ops: u64,
    /// Empty loop taken off, picoseconds an op.
    pub empty_ps: u64,
    /// Batches inside which the kernel was not entered.
    pub undisturbed: u64,
    /// Batches inside which it was.
    pub disturbed: u64,
    /// Least time of an op, picoseconds.
    pub min_ps: Option<u64>,
    /// Median over batches.
    pub p50_ps: Option<u64>,
    /// 99th percentile.
    pub p99_ps: Option<u64>,
    /// Greatest.
    pub max_ps: Option<u64>,
    /// Times of an op in picoseconds: HdrHistogram V2, compressed, base64.
    pub histogram: Option<String>,
}

/// Where time went: `on_cpu + blocked + run_queue + unaccounted = wall`; `user + kernel = on_cpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// From the first run, or the start of the phase, to the end of both.
    pub wall_ns: u64,
    /// Running.
    pub on_cpu_ns: Option<u64>,
    /// Running outside system calls.
    pub user_ns: Option<u64>,
    /// Running inside system calls.
    pub kernel_ns: Option<u64>,
    /// Asleep.
    pub blocked_ns: Option<u64>,
    /// Waiting for a CPU.
    pub run_queue_ns: Option<u64>,
    /// Apart from the wall time: clone entered until first run, of the threads created.
    pub creation_ns: Option<u64>,
    /// What does not add up.
    pub unaccounted_ns: Option<i64>,
}

/// What the kernel counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the counters in concprobe-common")]
pub struct Counts {
    pub syscalls: Option<u64>,
    pub futex_waits: Option<u64>,
    pub futex_wakes: Option<u64>,
    pub futex_wait_slept: Option<u64>,
    pub futex_wait_again: Option<u64>,
    pub futex_wait_timed_out: Option<u64>,
    pub futex_wait_interrupted: Option<u64>,
    pub voluntary_switches: Option<u64>,
    pub involuntary_switches: Option<u64>,
    pub threads_created: Option<u64>,
    pub processes_created: Option<u64>,
    pub migrations: Option<u64>,
}

/// Where the time of the ops that created something went, summed; the parts add up to `op_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreationParts {
    /// Ops whose stamps were complete and in order.
    pub ops: u64,
    /// Ops whose stamps were not, left out of the sums.
    pub unordered: u64,
    /// Whole ops.
    pub op_ns: u64,
    /// Before clone: the library's own work.
    pub setup_ns: u64,
    /// Clone entered until runnable.
    pub clone_ns: u64,
    /// Runnable until the first run.
    pub first_run_wait_ns: u64,
    /// First run until the op ends.
    pub exit_and_join_ns: u64,
    /// Not one of the parts, as it goes on after the join: the ended threads' exits, until their last switch.
    #[serde(default)]
    pub exit_ns: Option<u64>,
}

/// Intervals of all tracked threads, from the kernel's log-linear histograms (1.6 % wide).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervals {
    /// Switched out voluntarily until runnable.
    pub blocked: Latencies,
    /// Runnable until running.
    pub run_queue: Latencies,
    /// Clone entered until the first run.
    pub creation: Latencies,
}

/// Calls of one number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its name, or `nr N` for one that the table does not have.
    #[serde(default)]
    pub name: String,
    /// Number of the system call.
    pub number: u32,
    /// It is one of the 32-bit table of a 64-bit kernel.
    #[serde(default)]
    pub compat: bool,
    /// Calls that returned.
    pub calls: u64,
    /// Of these, errors.
    pub errors: u64,
    /// Of these, `EAGAIN`.
    pub again: u64,
}

/// One thread of the crew, or all ended ones together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Thread id in the workload's PID namespace; `None` for a sum of threads.
    pub tid: Option<i32>,
    /// It performs no ops of its own: its time and counts are in no sum.
    #[serde(default)]
    pub supports: bool,
    /// How many threads this row stands for.
    pub threads: u64,
    /// Ops.
    pub ops: u64,
    /// Where its time went.
    pub parts: Parts,
    /// What the kernel counted.
    pub counts: Counts,
}

/// What the kernel programs cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Runs of programs during the warm-up, while the kernel timed them.
    pub timed_runs: u64,
    /// Their time.
    pub timed_ns: u64,
    /// Runs that the kernel left out, over the whole session.
    pub missed_runs: Option<u64>,
}

/// What looking at every call changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepthCheck {
    /// Best repetition at depth *calls*, picoseconds an op.
    pub calls_per_op_ps: u64,
    /// Worst repetition at depth *calls*: how much the figure varies by itself.
    pub calls_worst_per_op_ps: u64,
    /// The repetition at depth *switches*.
    pub switches_per_op_ps: u64,
}

/// What concprobe itself took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// From the start of the program to the first op, which may be one of the warm-up.
    pub start_to_first_op_ns: Option<u64>,
    /// Making the crew, until every member was ready; in no other figure.
    #[serde(default)]
    pub crew_setup_ns: Option<u64>,
    /// Peak memory of the driver, bytes.
    pub driver_peak_bytes: Option<u64>,
    /// Peak memory of the workload's process, bytes.
    pub workload_peak_bytes: Option<u64>,
}
