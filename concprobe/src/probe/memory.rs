//! The maps that the kernel programs write, as memory of this process: reading them costs no system call.

use std::{
    marker::PhantomData,
    os::fd::{AsRawFd as _, BorrowedFd},
    ptr::NonNull,
};

use anyhow::{Context as _, Result, bail};
use concprobe_common::{
    block::{Block, CALL_NUMBERS, CALL_ROWS, CallCount, Counter, Ended, Loss, Losses, place},
    histogram::{Histogram, Kind},
    lock_calls::FUNCTIONS,
    site::{OVERFLOW, Site},
};

/// An mmap-able BPF array of `T`, mapped for reading.
#[derive(Debug)]
pub struct Mapping<T> {
    base: NonNull<T>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Copy> Mapping<T> {
    /// Maps `len` elements of the array behind `map`.
    ///
    /// # Errors
    /// What the kernel says when it refuses.
    pub fn new(map: BorrowedFd<'_>, len: usize) -> Result<Self> {
        let bytes = len * size_of::<T>();
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("cannot map a BPF array into memory");
        }
        let Some(base) = NonNull::new(address.cast()) else { bail!("a BPF array was mapped at address 0") };
        Ok(Self { base, len, element: PhantomData })
    }

    /// A copy of every element, field by field as it is at that moment.
    fn iter(&self) -> impl Iterator<Item = T> + '_ {
        // SAFETY: the index is within the mapping; the kernel may write at the same time, so the read is
        // volatile, and the fields are words, which are never torn.
        (0..self.len).map(|index| unsafe { self.base.add(index).read_volatile() })
    }
}

impl<T: Copy> Mapping<T> {
    /// A copy of one element.
    fn get(&self, index: usize) -> T {
        assert!(index < self.len, "within the mapping");
        // SAFETY: the index is within the mapping; see `iter`.
        unsafe { self.base.add(index).read_volatile() }
    }
}

impl Mapping<Block> {
    /// Whose block it is, without reading all of it.
    fn tid(&self, index: usize) -> u32 {
        assert!(index < self.len, "within the mapping");
        // SAFETY: the index is within the mapping; the kernel may write at the same time.
        unsafe { (&raw const (*self.base.add(index).as_ptr()).tid).read_volatile() }
    }
}

impl Mapping<Site> {
    /// Whether there is a site, without reading all of it. The one for what found no room always is.
    fn is_used(&self, index: usize) -> bool {
        assert!(index < self.len, "within the mapping");
        let site = self.base.as_ptr().wrapping_add(index);
        // SAFETY: the index is within the mapping; the kernel may write at the same time.
        index == OVERFLOW as usize || unsafe { (&raw const (*site).first_ns).read_volatile() } != 0
    }
}

/// How often a block is read again.
const TRIES: usize = 8;

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len * size_of::<T>()) };
    }
}

/// Everything that the programs sum up for the driver.
#[derive(Debug)]
pub struct Records {
    pub(super) ended: Mapping<Ended>,
    pub(super) histograms: Mapping<Histogram>,
    pub(super) losses: Mapping<Losses>,
    pub(super) calls: Mapping<CallCount>,
    pub(super) blocks: Mapping<Block>,
    pub(super) sites: Mapping<Site>,
    pub(super) lock_calls: Mapping<u64>,
}

impl Records {
    /// The sums over ended threads that recorded, of all CPUs.
    pub fn ended(&self) -> Ended {
        let mut sum = Ended { counters: [0; Counter::COUNT], threads: 0, wall_ns: 0 };
        for of_cpu in self.ended.iter() {
            for (total, value) in sum.counters.iter_mut().zip(of_cpu.counters) {
                *total += value;
            }
            sum.threads += of_cpu.threads;
            sum.wall_ns += of_cpu.wall_ns;
        }
        sum
    }

    /// One histogram of intervals, of all CPUs.
    pub fn histogram(&self, kind: Kind) -> Box<Histogram> {
        let mut total = Box::new(Histogram {
            counts: [0; concprobe_common::histogram::BUCKETS],
            sum: 0,
            max: 0,
            min_complement: 0,
            reserved: [0; 5],
        });
        for of_cpu in self.histograms.iter().skip(kind as usize).step_by(Kind::COUNT as usize) {
            for (sum, value) in total.counts.iter_mut().zip(of_cpu.counts) {
                *sum += value;
            }
            total.sum += of_cpu.sum;
            total.max = total.max.max(of_cpu.max);
            total.min_complement = total.min_complement.max(of_cpu.min_complement);
        }
        total
    }

    /// Calls of the lock functions, in the order of their table, of all CPUs.
    pub fn lock_calls(&self) -> Vec<u64> {
        let mut calls = vec![0; FUNCTIONS.len()];
        for (index, count) in self.lock_calls.iter().enumerate() {
            calls[index % FUNCTIONS.len()] += count;
        }
        calls
    }

    /// What is missing, by cause.
    pub fn losses(&self) -> Vec<(Loss, u64)> {
        Loss::ALL
            .iter()
            .map(|loss| (*loss, self.losses.iter().map(|of_cpu| of_cpu.counts[*loss as usize]).sum()))
            .collect()
    }

    /// Calls by number and table (`true`: the 32-bit one), of all CPUs; only those that were made.
    pub fn calls(&self) -> Vec<((u32, bool), CallCount)> {
        let mut totals = vec![CallCount::default(); CALL_ROWS as usize];
        for (index, of_cpu) in self.calls.iter().enumerate() {
            let total = &mut totals[index % CALL_ROWS as usize];
            total.calls += of_cpu.calls;
            total.errors += of_cpu.errors;
            total.again += of_cpu.again;
        }
        (0..CALL_ROWS)
            .map(|row| (row % CALL_NUMBERS, row >= CALL_NUMBERS))
            .zip(totals)
            .filter(|(_, count)| count.calls > 0)
            .collect()
    }

    /// The blocks in use, each with the moment (by `now_ns`) right after it was read.
    pub fn blocks(&self, now_ns: impl Fn() -> u64) -> Vec<(Block, u64)> {
        (0..self.blocks.len)
            .filter_map(|index| {
                if self.blocks.tid(index) == 0 {
                    return None;
                }
                let mut copy = self.blocks.get(index);
                let mut now = now_ns();
                // A thread that is switched meanwhile is read again, so that what is read belongs together.
                for _ in 0..TRIES {
                    let again = self.blocks.get(index);
                    if again.sequence == copy.sequence && again.place == copy.place {
                        break;
                    }
                    (copy, now) = (again, now_ns());
                }
                (copy.place != place::FREE && copy.tid != 0).then_some((copy, now))
            })
            .collect()
    }

    /// Whether a thread has announced itself under that number.
    pub fn has_announced(&self, cookie: u64) -> bool {
        (0..self.blocks.len)
            .filter(|index| self.blocks.tid(*index) != 0)
            .any(|index| self.blocks.get(index).cookie == cookie)
    }

    /// Whether a thread of that process (in the initial PID namespace) lives, as far as the programs have seen.
    pub fn is_tracked_process(&self, tgid: u32) -> bool {
        (0..self.blocks.len).filter(|index| self.blocks.tid(*index) != 0).any(|index| {
            let block = self.blocks.get(index);
            block.tgid == tgid && block.place != place::DEAD
        })
    }

    /// The sites that were slept at or called, with their index.
    pub fn sites(&self) -> impl Iterator<Item = (u32, Site)> + '_ {
        (0..self.sites.len)
            .filter(|index| self.sites.is_used(*index))
            .map(|index| (u32::try_from(index).unwrap_or(u32::MAX), self.sites.get(index)))
    }
}
