//! What was seen of a program: its threads, where they slept, who woke them, what they created. Keys that it
//! shares with the result of a run mean the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Call, Counts, Depth, Latencies, Parts, Probe};
use crate::{environment::Environment, harness::SelfCheck};

/// Version of the format.
pub const SCHEMA: &str = "concprobe-trace/1";

/// The whole result of `trace` and `attach`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program that measured.
    pub concprobe: String,
    /// Seconds since 1970 at the start.
    pub started_at: u64,
    /// The command that was started, `None` for a process that ran already.
    pub command: Option<Vec<String>>,
    /// Process id of the command or of the process attached to, as the caller sees it.
    pub pid: i32,
    /// Everything that was asked for, defaults included.
    pub parameters: BTreeMap<String, String>,
    /// The machine.
    pub environment: Environment,
    /// How deep it looked.
    pub depth: Depth,
    /// Whether stacks were copied.
    pub stacks: bool,
    /// How the kernel programs were attached.
    pub attached_by: String,
    /// Number of the first signal that asked concprobe to end.
    pub interrupted_by: Option<i32>,
    /// How the command ended, `None` while it runs.
    pub exit: Option<Exit>,
    /// From the start of the look to its end.
    pub wall_ns: u64,
    /// Where the threads' time went, summed over threads.
    pub parts: Parts,
    /// What the kernel counted, summed over threads.
    pub counts: Counts,
    /// The processes.
    pub processes: Vec<Process>,
    /// Threads one by one, and sums of short-lived ones.
    pub threads: Vec<Thread>,
    /// Sleeps by futex word, the greatest time first.
    pub locks: Vec<Lock>,
    /// All other sleeps, by system call.
    pub sleeps: Vec<Sleep>,
    /// Threads that poll: calls that yielded nothing, by the thousand. `None` where the depth cannot tell.
    pub polling: Option<Vec<Polling>>,
    /// Threads and processes created.
    pub creation: Creation,
    /// System calls by number, where asked for.
    pub calls: Option<Vec<Call>>,
    /// Calls of lock functions, where asked for.
    pub lock_calls: Option<LockCalls>,
    /// What became of the copies of stacks; `None` where none were asked for.
    pub stack_copies: Option<StackCopies>,
    /// What this look cannot see.
    pub not_visible: Vec<String>,
    /// What is missing, all causes together.
    pub lost: u64,
    /// What is missing, by cause.
    pub losses: BTreeMap<String, u64>,
    /// Where no sum is wrong, but the border between two parts of time or a breakdown is.
    pub blurs: BTreeMap<String, u64>,
    /// Mean cost of one run of a kernel program.
    pub probe_cost_ns_per_event: Option<u64>,
    /// More about the programs' cost.
    pub probe: Probe,
    /// Memory of concprobe.
    pub memory: Memory,
    /// Whether what was measured is consistent.
    pub self_check: SelfCheck,
    /// What to make of it.
    pub verdict: Vec<String>,
    /// What makes the figures less trustworthy.
    pub warnings: Vec<String>,
    /// Key → why it is `null`.
    pub unavailable: BTreeMap<String, String>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit status.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id as the caller sees it, if it could be told.
    pub pid: Option<i32>,
    /// Process id in the initial PID namespace.
    pub host_pid: u32,
    /// Process id of its creator, in the initial PID namespace; 0 for one that is not followed.
    pub host_parent: u32,
    /// Name of its first thread at the end.
    pub name: String,
    /// It still ran when the look ended.
    pub running: bool,
    /// Threads that it had.
    pub threads: u64,
    /// Where its threads' time went.
    pub parts: Parts,
    /// What the kernel counted.
    pub counts: Counts,
}

/// One thread, or the sum of short-lived ones of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its name at the end.
    pub name: String,
    /// Its name before the first renaming.
    pub first_name: Option<String>,
    /// How often it was renamed.
    pub renames: u32,
    /// Thread id as the caller sees it, `None` for a sum, or if it could not be told.
    pub tid: Option<i32>,
    /// Thread id in the initial PID namespace.
    pub host_tid: Option<u32>,
    /// Process id in the initial PID namespace.
    pub host_pid: u32,
    /// How many threads this row stands for.
    pub threads: u64,
    /// It was there before the look began; its time before is not counted.
    pub existed_before: bool,
    /// It was still there when the look ended.
    pub running: bool,
    /// What it was doing when the look ended, and for how long: the interval is clipped there.
    pub open: Option<Open>,
    /// Where its time went.
    pub parts: Parts,
    /// What the kernel counted.
    pub counts: Counts,
    /// Calls that returned `EAGAIN` (depth *calls*).
    pub calls_again: Option<u64>,
    /// Polls that found nothing and did not sleep (depth *calls*).
    pub empty_polls: Option<u64>,
}

/// An interval that had no end yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// `on_cpu`, `blocked` or `run_queue`.
    pub part: String,
    /// Its length within the look.
    pub duration_ns: u64,
    /// It had begun before the look.
    pub since_before: bool,
}

/// Sleeps at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sleeps {
    /// Sleeps that ended.
    pub slept: u64,
    /// Threads that slept there.
    pub threads: u64,
    /// Of the sleeps, those with a time limit.
    pub limited: u64,
    /// Switched out voluntarily until made runnable.
    pub blocked: Latencies,
    /// Runnable until running, after these sleeps.
    pub run_queue: Latencies,
    /// Sleeps that had no end yet when the look ended.
    pub open: u64,
    /// Their time within the look; in no other figure of this place.
    pub open_ns: u64,
    /// Stacks of those who slept, the greatest time first.
    pub waiters: Vec<StackShare>,
}

impl Sleeps {
    /// Time asleep, with that of sleeps that had no end yet.
    pub fn blocked_ns(&self) -> u64 {
        self.blocked.sum_ns.saturating_add(self.open_ns)
    }
}

/// A stack, and how much of a place's blocked time it stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackShare {
    /// Part of the time of all sampled sleeps, 0 to 1.
    pub share: f64,
    /// Copies of this stack.
    pub samples: u64,
    /// Threads' names, as far as they differ.
    pub threads: Vec<String>,
    /// The innermost function first.
    pub frames: Vec<String>,
    /// Why it ends where it ends, unless it is complete.
    pub incomplete: Option<String>,
}

/// A futex word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// Symbol, mapping and offset, or file and offset.
    pub name: String,
    /// What kind of thing it is.
    pub kind: Kind,
    /// Why it is taken for that.
    pub kind_because: String,
    /// Those who wait have nothing to do; their time is no cost.
    pub idle: bool,
    /// Address, hexadecimal.
    pub address: String,
    /// Process id in the initial PID namespace, of the first one that slept there.
    pub host_pid: u32,
    /// File and offset, when processes share it.
    pub shared: Option<Shared>,
    /// Futex operation of the first call, as the kernel's header names it.
    pub operation: String,
    /// The sleeps.
    #[serde(flatten)]
    pub sleeps: Sleeps,
    /// Waits entered (depth *calls*).
    pub waits: Option<u64>,
    /// Of these, the value had changed (depth *calls*).
    pub again: Option<u64>,
    /// Of these, timed out (depth *calls*).
    pub timed_out: Option<u64>,
    /// Of these, cut short by a signal (depth *calls*).
    pub interrupted: Option<u64>,
    /// Wakes entered (depth *calls*).
    pub wakes: Option<u64>,
    /// Who ended the sleeps, the greatest time first.
    pub wakers: Vec<Waker>,
}

/// What a futex word belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Mutual exclusion.
    Mutex,
    /// Reader-writer lock.
    Rwlock,
    /// Waiting for a condition, a message or a task.
    Condition,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// Waiting for a thread to end.
    Join,
    /// A thread parked by its runtime.
    Park,
    /// Not to be told.
    Unknown,
}

impl Kind {
    /// The word for it in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Rwlock => "rwlock",
            Self::Condition => "condition",
            Self::Semaphore => "semaphore",
            Self::Barrier => "barrier",
            Self::Join => "join",
            Self::Park => "park",
            Self::Unknown => "unknown",
        }
    }

    /// Somebody else holds what the waiter wants.
    pub fn excludes(self) -> bool {
        matches!(self, Self::Mutex | Self::Rwlock)
    }
}

/// A word in memory that processes share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shared {
    /// Path of the file.
    pub path: String,
    /// Its inode.
    pub inode: u64,
    /// Offset of the word in it.
    pub offset: u64,
}

/// Who ended sleeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waker {
    /// Name of the thread.
    pub thread: String,
    /// Its id in the initial PID namespace.
    pub host_tid: u32,
    /// Part of the time of all sampled sleeps, 0 to 1.
    pub share: f64,
    /// Sampled sleeps that it ended.
    pub samples: u64,
    /// Its stack when it did so most.
    pub frames: Vec<String>,
}

/// Sleeps in one system call of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sleep {
    /// Name of the system call, or that it was none.
    pub call: String,
    /// Process id in the initial PID namespace; 0 for those together that found no room in the table.
    pub host_pid: u32,
    /// The sleeps.
    #[serde(flatten)]
    pub sleeps: Sleeps,
}

impl Sleep {
    /// Instead of a call: everything that found no room in the table of places.
    pub const BEYOND: &str = "beyond the table of places";
}

/// A thread that polls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Polling {
    /// Its name.
    pub thread: String,
    /// Its id in the initial PID namespace.
    pub host_tid: Option<u32>,
    /// Calls that yielded nothing.
    pub in_vain: u64,
    /// All its calls.
    pub calls: u64,
    /// Its time on the CPU.
    pub on_cpu_ns: u64,
    /// CPUs that it kept busy: that time over its wall time.
    pub cpus: f64,
}

/// Threads and processes created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Creation {
    /// Threads.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
    /// Clone entered (at depth *switches*: the kernel had made it) until the first run.
    pub latency: Latencies,
    /// First run until the end, of those that began and ended while looked at.
    pub life: Latencies,
    /// Of all creations: the clone calls, or the part of them after the kernel had made the thread.
    pub clone_ns: u64,
    /// Of all creations: runnable until the first run.
    pub first_run_wait_ns: u64,
    /// Where they were created, the most first.
    pub creators: Vec<StackShare>,
}

/// Calls of the lock functions in a slice of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockCalls {
    /// Length of the slice.
    pub slice_ns: u64,
    /// Calls by function.
    pub calls: BTreeMap<String, u64>,
    /// Sleeps at locks in that slice.
    pub slept: u64,
    /// What counting cost the program, by the kernel's own clock of the programs and an estimate of the trap.
    pub cost_ns: u64,
}

/// What became of the copies of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackCopies {
    /// Copies taken.
    pub taken: u64,
    /// Of these, unwound to the thread's beginning.
    pub complete: u64,
    /// Of these, the copied part ended first.
    pub truncated: u64,
    /// Of these, code without unwind information came first.
    pub without_unwind_info: u64,
    /// Copies that found no room, or could not be read.
    pub lost: u64,
}

/// Memory that the look took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Of the kernel's maps, fixed before the start.
    pub map_bytes: u64,
    /// Peak of this program.
    pub driver_peak_bytes: Option<u64>,
}
