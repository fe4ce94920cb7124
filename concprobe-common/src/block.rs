//! The counter block of a tracked thread, written by the kernel programs and read by the thread itself
//! with plain loads, and the records into which ended threads and losses are summed.

use crate::site::CallSum;

/// How many threads can be tracked at the same time when the user side asks for no other number.
pub const DEFAULT_SLOTS: u32 = 1024;

/// An enum whose variants index an array, with a name for each in results.
macro_rules! slots {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every slot, in the order of the array.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];
            /// Length of the array.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in results, `snake_case`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

pub(crate) use slots;

slots! {
    /// What is counted or summed for a thread. Times are nanoseconds of `CLOCK_MONOTONIC`.
    Counter {
        /// Switched out to sleep.
        Voluntary = "voluntary_switches",
        /// Switched out while runnable: preempted or yielded.
        Involuntary = "involuntary_switches",
        /// System calls entered (depth *calls*).
        Syscalls = "syscalls",
        /// Threads created.
        ThreadsCreated = "threads_created",
        /// Processes created.
        ProcessesCreated = "processes_created",
        /// Switched out voluntarily until made runnable.
        BlockedNs = "blocked_ns",
        /// Runnable until running.
        RunQueueNs = "run_queue_ns",
        /// Running, up to the last switch-out.
        OnCpuNs = "on_cpu_ns",
        /// Running inside a system call (depth *calls*).
        KernelNs = "kernel_ns",
        /// Futex waits entered (depth *calls*).
        FutexWaits = "futex_waits",
        /// Futex wakes and requeues entered (depth *calls*).
        FutexWakes = "futex_wakes",
        /// Futex waits inside which the thread slept.
        FutexWaitSlept = "futex_wait_slept",
        /// Futex waits that returned `EAGAIN`: the value had changed (depth *calls*).
        FutexWaitAgain = "futex_wait_again",
        /// Futex waits that timed out (depth *calls*).
        FutexWaitTimedOut = "futex_wait_timed_out",
        /// Futex waits cut short by a signal (depth *calls*).
        FutexWaitInterrupted = "futex_wait_interrupted",
        /// Switched in on another CPU than before.
        Migrations = "migrations",
        /// Of a new thread: from its creator's entry into clone until it was runnable.
        CloneNs = "clone_ns",
        /// Of a new thread: from runnable until its first run.
        FirstRunWaitNs = "first_run_wait_ns",
        /// Of a thread that exits: from its first run until it began to exit.
        LifeNs = "life_ns",
        /// System calls that returned `EAGAIN` (depth *calls*).
        CallsAgain = "calls_again",
        /// Polls that found nothing and did not sleep (depth *calls*).
        EmptyPolls = "empty_polls",
    }
}

slots! {
    /// Why something is missing from the counts.
    Loss {
        /// A new thread found no free block.
        NoBlock = "no_block",
        /// The table of tracked threads refused a thread.
        TableFull = "table_full",
        /// A thread ran again without a wake-up having been seen; its whole absence counts as blocked.
        MissedWakeup = "missed_wakeup",
        /// A time stamp lay before the one it is measured from; the interval counts as 0.
        ClockBackwards = "clock_backwards",
        /// A system call returned that was not seen to start, and what it was cannot be told any more.
        UnknownCall = "unknown_call",
        /// A futex wait was not seen to return: how it ended is not known.
        UnknownWaitEnd = "unknown_wait_end",
        /// A thread was switched in without having been seen to leave: a switch is missing.
        MissedSwitchOut = "missed_switch_out",
        /// A thread ran without having been seen to be switched in. No count is missing, since switches are
        /// counted on the way out; its wait counts until the first sign of it.
        MissedSwitchIn = "missed_switch_in",
        /// A system call was not seen to start, and was counted when it returned.
        MissedCallEntry = "missed_call_entry",
        /// A system call was not seen to return: its kernel time ends at the next one.
        MissedCallExit = "missed_call_exit",
        /// A sleep whose place found no room in the table of sites; it is summed with others like it.
        NoSite = "no_site",
        /// The table of which threads wait where is full: numbers of threads are too low.
        NoPair = "no_pair",
        /// A copy of a stack found no room in the ring buffer.
        NoStack = "no_stack",
        /// A stack could not be read: not in memory.
        UnreadStack = "unread_stack",
        /// An ended thread's name found no room in the table; the thread is summed with the nameless.
        NoName = "no_name",
    }
}

impl Loss {
    /// No sum is wrong because of it: only the border between two parts of time, or how far a sum is broken
    /// down.
    #[must_use]
    pub const fn is_blur(self) -> bool {
        matches!(
            self,
            Self::MissedWakeup
                | Self::MissedSwitchIn
                | Self::MissedCallEntry
                | Self::MissedCallExit
                | Self::NoSite
                | Self::NoPair
                | Self::NoStack
                | Self::UnreadStack
                | Self::NoName
        )
    }
}

/// Where a thread is; the time in that place runs since [`Block::since_ns`].
pub mod place {
    /// Slot not in use.
    pub const FREE: u32 = 0;
    /// Created, not yet runnable.
    pub const NEW: u32 = 1;
    /// On a CPU.
    pub const RUNNING: u32 = 2;
    /// Asleep.
    pub const BLOCKED: u32 = 3;
    /// Waiting for a CPU.
    pub const RUNNABLE: u32 = 4;
    /// Ended; the block is kept for its reader.
    pub const DEAD: u32 = 5;
    /// It was there before the programs were on: its first event tells where it was.
    pub const UNSEEN: u32 = 6;

    /// The sum into which the time in a place goes.
    #[must_use]
    pub const fn counter(place: u32) -> Option<super::Counter> {
        match place {
            RUNNING => Some(super::Counter::OnCpuNs),
            BLOCKED => Some(super::Counter::BlockedNs),
            RUNNABLE => Some(super::Counter::RunQueueNs),
            _ => None,
        }
    }
}

/// What is special about a block.
pub mod keep {
    /// Nothing.
    pub const NOTHING: u32 = 0;
    /// It outlives its thread, because somebody will read it.
    pub const FOR_READER: u32 = 1;
    /// Nothing counts until its thread executes the command that it is held for.
    pub const UNTIL_EXEC: u32 = 2;
}

/// The counters of one tracked thread.
///
/// The kernel programs of the thread's own CPU write it; a wake-up, by whatever CPU, writes only while
/// the thread is off its CPU. So no field ever has two writers at the same time.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Block {
    /// One value per [`Counter`].
    pub counters: [u64; Counter::COUNT],
    /// Number of switch-ins: lets a reader tell that it was switched out while it read.
    pub sequence: u64,
    /// Since when the thread is where it is (`CLOCK_MONOTONIC`, ns).
    pub since_ns: u64,
    /// First run, or binding for the thread that announced itself; 0 before.
    pub started_ns: u64,
    /// Last switch-out of the ended thread; 0 while it lives.
    pub ended_ns: u64,
    /// When the system call in progress was entered (depth *calls*).
    pub call_entered_ns: u64,
    /// From when the on-CPU time of the call in progress is not yet in [`Counter::KernelNs`].
    pub kernel_since_ns: u64,
    /// Newest child: when its clone was entered (or, at depth *switches*, when the kernel had made it).
    pub child_clone_ns: u64,
    /// Newest child: when it was made runnable.
    pub child_runnable_ns: u64,
    /// Newest child: when it ran first; 0 until then.
    pub child_first_run_ns: u64,
    /// The number by which a thread finds its own block, whatever PID namespace it lives in.
    pub cookie: u64,
    /// For a new thread: when its clone was entered.
    pub clone_ns: u64,
    /// For a new thread: when it was made runnable.
    pub runnable_ns: u64,
    /// Thread id in the initial PID namespace.
    pub tid: u32,
    /// Process id in the initial PID namespace, 0 when not known yet.
    pub tgid: u32,
    /// One of [`place`].
    pub place: u32,
    /// CPU of the last run.
    pub cpu: u32,
    /// System call in progress plus 1, 0 outside (depth *calls*).
    pub call: u32,
    /// 1 when the call in progress is a futex wait.
    pub futex_wait: u32,
    /// 1 when the thread slept inside the call in progress.
    pub slept_in_call: u32,
    /// 1 while intervals go into the kernel's histograms. Written by the thread itself.
    pub recording: u32,
    /// Slot of the creator.
    pub creator: u32,
    /// Thread id of the creator, to notice that its slot was used again; 0 for none.
    pub creator_tid: u32,
    /// One of [`keep`].
    pub keep: u32,
    /// How often the thread was renamed.
    pub renames: u32,
    /// Address space: process id in the upper half, a stamp of its beginning in the lower, so that what is
    /// executed, and what reuses an id, has another one.
    pub space: u64,
    /// First arguments of the system call in progress (depth *calls*).
    pub call_arguments: [u64; 4],
    /// Of the sleep in progress or just ended: time blocked, until its end is recorded.
    pub slept_ns: u64,
    /// Of the sleep in progress: number of its stack's copy, 0 for none.
    pub stack_id: u64,
    /// Of the sleep in progress: index of its site plus 1, 0 for none.
    pub site: u32,
    /// The same of the sleep before, which a restarted call goes on with.
    pub last_site: u32,
    /// Which of the known sites the futex call in progress is at, plus 1 (depth *calls*); 0 for none.
    pub call_way: u32,
    /// Threads and processes that it created and whose stacks were thought of.
    pub creations: u32,
    /// Where this thread slept lately: spares looking the site up.
    pub known_sites: [KnownSite; KNOWN_SITES],
    /// Process id of the creator of this thread's process, in the initial PID namespace.
    pub parent: u32,
    /// 1 when the thread was there before the programs were on.
    pub existed: u32,
    /// Thread id in the PID namespace of the user side, 0 when not known.
    pub own_tid: u32,
    /// Name, as far as it is known: at the creation, after a renaming, at the exit.
    pub name: [u8; 16],
    /// Name before the first renaming, empty without one.
    pub first_name: [u8; 16],
}

/// How many sites a thread's block remembers.
pub const KNOWN_SITES: usize = 4;

/// A site that a thread slept at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct KnownSite {
    /// Futex word, or 0.
    pub address: u64,
    /// [`crate::site::SiteKey::call`].
    pub call: u32,
    /// Index of the site plus 1, 0 for none.
    pub site: u32,
    /// Sleeps of this thread there since it is remembered.
    pub sleeps: u32,
    /// Keeps the size explicit.
    pub reserved: u32,
    /// One count per [`CallSum`]: added to the site when something else is remembered here, or the thread
    /// ends, so that threads that call at the same word need not share its cache line.
    pub calls: [u64; CallSum::COUNT],
}

impl KnownSite {
    /// Nothing remembered.
    pub const NONE: Self =
        Self { address: 0, call: 0, site: 0, sleeps: 0, reserved: 0, calls: [0; CallSum::COUNT] };
}

impl Block {
    /// A block of zeros: place [`place::FREE`].
    pub const EMPTY: Self = Self {
        counters: [0; Counter::COUNT],
        sequence: 0,
        since_ns: 0,
        started_ns: 0,
        ended_ns: 0,
        call_entered_ns: 0,
        kernel_since_ns: 0,
        child_clone_ns: 0,
        child_runnable_ns: 0,
        child_first_run_ns: 0,
        cookie: 0,
        clone_ns: 0,
        runnable_ns: 0,
        tid: 0,
        tgid: 0,
        place: place::FREE,
        cpu: 0,
        call: 0,
        futex_wait: 0,
        slept_in_call: 0,
        recording: 0,
        creator: 0,
        creator_tid: 0,
        keep: 0,
        renames: 0,
        space: 0,
        call_arguments: [0; 4],
        slept_ns: 0,
        stack_id: 0,
        site: 0,
        last_site: 0,
        call_way: 0,
        creations: 0,
        known_sites: [KnownSite::NONE; KNOWN_SITES],
        parent: 0,
        existed: 0,
        own_tid: 0,
        name: [0; 16],
        first_name: [0; 16],
    };
}

/// Sums over ended threads whose block was given back, of one CPU.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Ended {
    /// One sum per [`Counter`].
    pub counters: [u64; Counter::COUNT],
    /// Threads summed here.
    pub threads: u64,
    /// First run to last switch-out, summed.
    pub wall_ns: u64,
}

/// Which ended threads are summed together: those of a process that ended under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct EndedKey {
    /// Process id in the initial PID namespace; 0 for those that found no room.
    pub tgid: u32,
    /// Keeps the size explicit.
    pub reserved: u32,
    /// Name at the end.
    pub name: [u8; 16],
}

/// Sums over ended threads of one process and name; added to by several CPUs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EndedNamed {
    /// One sum per [`Counter`].
    pub counters: [u64; Counter::COUNT],
    /// Threads summed here.
    pub threads: u64,
    /// First run, or the beginning of the look, to last switch-out, summed.
    pub wall_ns: u64,
    /// When the first of them ran first.
    pub first_started_ns: u64,
    /// When the newest of them ended.
    pub last_ended_ns: u64,
    /// Process id of the creator of the process.
    pub parent: u32,
    /// 1 when the process's first thread is among them, and so the whole process has ended or executed.
    pub leader: u32,
}

impl EndedNamed {
    /// Nothing summed.
    pub const EMPTY: Self = Self {
        counters: [0; Counter::COUNT],
        threads: 0,
        wall_ns: 0,
        first_started_ns: 0,
        last_ended_ns: 0,
        parent: 0,
        leader: 0,
    };
}

/// The ids of a thread, as the task iterator lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ids {
    /// Thread id in the initial PID namespace.
    pub tid: u32,
    /// Process id there.
    pub tgid: u32,
    /// Thread id in the PID namespace of the reader.
    pub own_tid: u32,
    /// How deep that namespace is nested.
    pub level: u32,
}

/// Which thread a CPU runs, as the last switch there said.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Running {
    /// Thread id in the initial PID namespace, 0 when not known.
    pub tid: u32,
    /// Slot of its block plus 1, 0 for a thread that is not tracked.
    pub slot: u32,
}

/// Orders of the user side that the programs look at on rare occasions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Control {
    /// 1 once the look is over: nothing changes any more in what the user side reads.
    pub stopped: u32,
    /// How deep the PID namespace of the user side is nested; 0 in the machine's first one.
    pub level: u32,
}

/// How many ended threads keep their blocks to be listed one by one; later ones are summed by name.
pub const KEPT: u32 = 256;
/// A thread that lived shorter than this is never listed by itself, nanoseconds.
pub const SHORT_LIFE_NS: u64 = 10_000_000;

/// How many rows of ended threads there can be.
pub const ENDED_NAMES: u32 = 16_384;

/// Count per [`Loss`], of one CPU.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Losses {
    /// One count per [`Loss`].
    pub counts: [u64; Loss::COUNT],
}

/// Calls of one system call number, of one CPU.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CallCount {
    /// Calls that returned.
    pub calls: u64,
    /// Of these, calls that returned an error.
    pub errors: u64,
    /// Of these, calls that returned `EAGAIN`.
    pub again: u64,
}

/// System call numbers that are counted one by one; greater ones are counted under the last.
pub const CALL_NUMBERS: u32 = 512;
/// Rows of counted calls: the numbers of the native table, then those of the 32-bit one.
pub const CALL_ROWS: u32 = 2 * CALL_NUMBERS;

/// The row of a call.
#[must_use]
#[inline(always)]
pub const fn call_row(number: u32, compat: bool) -> u32 {
    let number = if number < CALL_NUMBERS { number } else { CALL_NUMBERS - 1 };
    if compat { CALL_NUMBERS + number } else { number }
}

const _: () = assert!(size_of::<Block>() == 704 && size_of::<Block>().is_multiple_of(64));
const _: () = assert!(size_of::<KnownSite>() == 64);
const _: () = assert!(size_of::<Ended>() == 192);
const _: () = assert!(size_of::<EndedKey>() == 24);
const _: () = assert!(size_of::<EndedNamed>() == 8 * Counter::COUNT + 40);
const _: () = assert!(size_of::<Losses>() == 128);
const _: () = assert!(size_of::<CallCount>() == 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_that_decide_the_class_share_the_first_cache_line() {
        for counter in [
            Counter::Voluntary,
            Counter::Involuntary,
            Counter::Syscalls,
            Counter::ThreadsCreated,
            Counter::ProcessesCreated,
        ] {
            assert!((counter as usize) < 8, "{}", counter.name());
        }
    }

    #[test]
    fn only_threads_that_run_or_could_have_time_that_goes_on() {
        for (place, expected) in [
            (place::FREE, None),
            (place::NEW, None),
            (place::RUNNING, Some(Counter::OnCpuNs)),
            (place::BLOCKED, Some(Counter::BlockedNs)),
            (place::RUNNABLE, Some(Counter::RunQueueNs)),
            (place::DEAD, None),
            (u32::MAX, None),
        ] {
            assert_eq!(place::counter(place), expected, "{place}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::COUNT);
    }
}
