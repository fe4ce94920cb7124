//! A thread's view of its own counter block: a handful of plain loads before and after an op.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    ptr::NonNull,
    sync::atomic::{Ordering, compiler_fence},
};

use anyhow::{Context as _, Result, bail};
use concprobe_common::{
    block::{Block, Counter, place},
    class::Class,
};

/// How often a thread announces itself at most.
const ANNOUNCEMENTS: u32 = 100;

/// The array of blocks, mapped into the workload's process (and into those it forks).
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    base: NonNull<Block>,
    len: usize,
    session: u64,
}

// SAFETY: shared memory; each thread touches only its own block.
unsafe impl Send for Blocks {}
// SAFETY: as above.
unsafe impl Sync for Blocks {}

impl Blocks {
    /// Maps the array; it stays mapped as long as the process lives.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map(fd: BorrowedFd<'_>, len: usize, session: u64) -> Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len * size_of::<Block>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("cannot map the counter blocks");
        }
        let Some(base) = NonNull::new(address.cast()) else { bail!("mapped at address 0") };
        Ok(Self { base, len, session })
    }

    /// Announces the calling thread to the kernel programs and finds the block that they gave it. The kernel
    /// leaves a program out where it would interrupt itself, so one call may go unheard, but not many.
    ///
    /// # Errors
    /// When they did not see the announcement, or had no block left.
    pub fn announce(&self, cookie: u64) -> Result<OwnBlock> {
        for _ in 0..ANNOUNCEMENTS {
            // SAFETY: `getppid` takes no arguments; the spare ones are for the kernel programs.
            unsafe { libc::syscall(libc::SYS_getppid, self.session, cookie) };
            if let Some(block) = self.find(cookie) {
                return Ok(OwnBlock { block: Some(block) });
            }
        }
        bail!(
            "the kernel programs did not see thread number {cookie} announce itself, or had no block for it"
        )
    }

    fn find(&self, cookie: u64) -> Option<NonNull<Block>> {
        (0..self.len)
            // SAFETY: the index is within the mapping.
            .map(|index| unsafe { self.base.add(index) })
            // SAFETY: as above; the kernel wrote the field before the call returned.
            .find(|block| unsafe { (&raw const (*block.as_ptr()).cookie).read_volatile() } == cookie)
    }
}

/// The calling thread's block, or nothing when there is no evidence from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct OwnBlock {
    block: Option<NonNull<Block>>,
}

/// What decides the class of an op and splits its time, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    voluntary: u64,
    involuntary: u64,
    syscalls: u64,
    created: u64,
    blocked_ns: u64,
    run_queue_ns: u64,
}

impl Counts {
    /// What came since `earlier`, as a class.
    #[inline]
    pub fn class_since(&self, earlier: &Self) -> Class {
        Class::of(
            self.created - earlier.created,
            self.voluntary - earlier.voluntary,
            self.involuntary - earlier.involuntary,
            self.syscalls - earlier.syscalls,
        )
    }

    /// Blocked and run-queue time since `earlier`, nanoseconds.
    #[inline]
    pub fn off_cpu_since(&self, earlier: &Self) -> (u64, u64) {
        (self.blocked_ns - earlier.blocked_ns, self.run_queue_ns - earlier.run_queue_ns)
    }
}

/// When the newest child was made, `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct ChildStamps {
    /// Its creator entered clone.
    pub clone_ns: u64,
    /// It was made runnable.
    pub runnable_ns: u64,
    /// It ran first.
    pub first_run_ns: u64,
}

impl OwnBlock {
    /// No evidence: every count stays 0.
    pub const NONE: Self = Self { block: None };

    /// Whether there is evidence from the kernel.
    pub fn exists(self) -> bool {
        self.block.is_some()
    }

    #[inline]
    fn counter(block: NonNull<Block>, counter: Counter) -> u64 {
        // SAFETY: the block is mapped, and the slot is an enum variant. Volatile, since the kernel writes it.
        unsafe { (&raw const (*block.as_ptr()).counters[counter as usize]).read_volatile() }
    }

    /// Reads again when the thread was switched out while it read, so that what it reads belongs together.
    #[inline]
    fn consistently<R>(block: NonNull<Block>, read: impl Fn() -> R) -> R {
        // SAFETY: the block is mapped. Volatile, since the kernel writes it.
        let sequence = || unsafe { (&raw const (*block.as_ptr()).sequence).read_volatile() };
        loop {
            let before = sequence();
            // Only the thread itself, interrupted, can be in between: no fence for the CPU is needed.
            compiler_fence(Ordering::SeqCst);
            let value = read();
            compiler_fence(Ordering::SeqCst);
            if sequence() == before {
                return value;
            }
        }
    }

    /// What the kernel has counted for this thread up to now.
    #[inline]
    pub fn counts(self) -> Counts {
        let Some(block) = self.block else { return Counts::default() };
        Self::consistently(block, || Counts {
            voluntary: Self::counter(block, Counter::Voluntary),
            involuntary: Self::counter(block, Counter::Involuntary),
            syscalls: Self::counter(block, Counter::Syscalls),
            created: Self::counter(block, Counter::ThreadsCreated)
                + Self::counter(block, Counter::ProcessesCreated),
            blocked_ns: Self::counter(block, Counter::BlockedNs),
            run_queue_ns: Self::counter(block, Counter::RunQueueNs),
        })
    }

    /// Every counter up to now, with the interval that goes on put where the kernel programs will put it: on
    /// the CPU, or where the thread last was if its switch-in went unseen, so that no sum ever falls.
    pub fn totals(self, now_ns: impl Fn() -> u64) -> ([u64; Counter::COUNT], u64) {
        let Some(block) = self.block else { return ([0; Counter::COUNT], now_ns()) };
        Self::consistently(block, || {
            let mut counters = [0; Counter::COUNT];
            for counter in Counter::ALL {
                counters[*counter as usize] = Self::counter(block, *counter);
            }
            // SAFETY: the block is mapped. Volatile, since the kernel writes it.
            let (place, since) = unsafe {
                (
                    (&raw const (*block.as_ptr()).place).read_volatile(),
                    (&raw const (*block.as_ptr()).since_ns).read_volatile(),
                )
            };
            let now = now_ns();
            if let Some(counter) = place::counter(place) {
                counters[counter as usize] += now.saturating_sub(since);
            }
            (counters, now)
        })
    }

    /// When the newest child was made.
    #[inline]
    pub fn child(self) -> Option<ChildStamps> {
        let block = self.block?.as_ptr();
        // SAFETY: the block is mapped. Volatile, since the kernel writes it.
        let stamps = unsafe {
            ChildStamps {
                clone_ns: (&raw const (*block).child_clone_ns).read_volatile(),
                runnable_ns: (&raw const (*block).child_runnable_ns).read_volatile(),
                first_run_ns: (&raw const (*block).child_first_run_ns).read_volatile(),
            }
        };
        Some(stamps)
    }

    /// Lets intervals go into the kernel's histograms, or not; and forgets a call that was entered when
    /// the hooks of another depth were on.
    pub fn set_recording(self, on: bool) {
        let Some(block) = self.block else { return };
        // SAFETY: the block is mapped for writing; the kernel reads the first field and writes the second
        // only inside a system call of this thread, which is not in one.
        unsafe {
            (&raw mut (*block.as_ptr()).call).write_volatile(0);
            (&raw mut (*block.as_ptr()).recording).write_volatile(u32::from(on));
        }
    }
}
