//! Where threads sleep: a futex word of an address space, or a system call without one. Summed over
//! threads, so several CPUs add to the same site.

use crate::{block::slots, histogram::SPREAD_BUCKETS};

/// What tells one site from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct SiteKey {
    /// [`crate::block::Block::space`]; or [`ANY_SPACE`].
    pub space: u64,
    /// Futex word, or 0 for calls without one.
    pub address: u64,
    /// Number of the system call with [`COMPAT`], or [`NO_CALL`]; [`FUTEX`] for the whole futex family.
    pub call: u32,
    /// Keeps the size explicit.
    pub reserved: u32,
}

/// Set in [`SiteKey::call`] for a call by the 32-bit table of a 64-bit kernel.
pub const COMPAT: u32 = 1 << 30;
/// Slept outside a system call: a page fault, for instance.
pub const NO_CALL: u32 = u32::MAX;
/// A futex word, by whichever call.
pub const FUTEX: u32 = 1 << 29;

/// Of all processes together: where a call's sleeps go that find no room for a site of their process.
pub const ANY_SPACE: u64 = 0;

/// How a site is told by the number of the call and the first argument: `futex` says whether that is a word.
#[must_use]
#[inline(always)]
pub const fn key(space: u64, number: u32, compat: bool, futex: bool, word: u64) -> SiteKey {
    let (address, call) = if futex {
        (word, FUTEX)
    } else if number == NO_CALL {
        (0, NO_CALL)
    } else {
        (0, number | if compat { COMPAT } else { 0 })
    };
    SiteKey { space, address, call, reserved: 0 }
}

/// How many sites of futex words there can be when the user side asks for no other number.
pub const DEFAULT_SITES: u32 = 1024;
/// How many sites of calls without a futex word there can be beside them: many short processes, each of which
/// sleeps in a few calls, must not take the room of the locks.
pub const CALL_SITES: u32 = 1024;
/// The site that takes what found no room.
pub const OVERFLOW: u32 = 0;
/// How many pairs of site and thread are told apart.
pub const PAIRS: u32 = 65_536;

slots! {
    /// What is summed at a site.
    SiteSum {
        /// Switched out voluntarily until made runnable.
        BlockedNs = "blocked_ns",
        /// Runnable until running, after a sleep.
        RunQueueNs = "run_queue_ns",
        /// Threads that slept here.
        Threads = "threads",
        /// Sleeps with a time limit.
        Limited = "limited",
        /// Stacks that were copied.
        Copies = "copies",
    }
}

slots! {
    /// Futex calls that are counted at a site (depth *calls*).
    CallSum {
        /// Waits entered.
        Waits = "waits",
        /// Of these: the value had changed.
        Again = "again",
        /// Of these: timed out.
        TimedOut = "timed_out",
        /// Of these: cut short by a signal.
        Interrupted = "interrupted",
        /// Wakes and requeues entered.
        Wakes = "wakes",
    }
}

/// One site.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Site {
    /// What it is.
    pub key: SiteKey,
    /// When it was first slept at, `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// `op` argument of the first futex call here.
    pub operation: u32,
    /// Value that the first futex wait here expected.
    pub value: u32,
    /// Process in which it was first seen, in the initial PID namespace.
    pub tgid: u32,
    /// Number of the first system call here.
    pub number: u32,
    /// One sum per [`SiteSum`].
    pub sums: [u64; SiteSum::COUNT],
    /// One sum per [`CallSum`], without what the blocks of threads still keep.
    pub calls: [u64; CallSum::COUNT],
    /// Blocked times.
    pub blocked: Spread,
    /// Run-queue times after them.
    pub run_queue: Spread,
}

impl Site {
    /// Nothing summed.
    pub const EMPTY: Self = Self {
        key: SiteKey { space: 0, address: 0, call: 0, reserved: 0 },
        first_ns: 0,
        operation: 0,
        value: 0,
        tgid: 0,
        number: 0,
        sums: [0; SiteSum::COUNT],
        calls: [0; CallSum::COUNT],
        blocked: Spread::EMPTY,
        run_queue: Spread::EMPTY,
    };
}

/// How values are spread; buckets as in [`crate::histogram`], up to 2⁴⁰ ns (18 minutes).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Spread {
    /// Values in each bucket; greater ones lie in the last.
    pub counts: [u32; SPREAD_BUCKETS],
    /// Greatest value; exact unless two CPUs recorded at the same moment.
    pub max: u64,
    /// `u64::MAX` minus the least value, so that an empty record is all zeros; as exact.
    pub min_complement: u64,
}

impl Spread {
    /// No values.
    pub const EMPTY: Self = Self { counts: [0; SPREAD_BUCKETS], max: 0, min_complement: 0 };

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }
}

/// A site and a thread that slept there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pair {
    /// Index of the site.
    pub site: u32,
    /// Thread id in the initial PID namespace.
    pub tid: u32,
}

const _: () = assert!(size_of::<SiteKey>() == 24);
const _: () = assert!(size_of::<Spread>() == 4 * SPREAD_BUCKETS + 16);
const _: () =
    assert!(size_of::<Site>() == 48 + 8 * (SiteSum::COUNT + CallSum::COUNT) + 2 * size_of::<Spread>());
const _: () = assert!(size_of::<Pair>() == 8);
