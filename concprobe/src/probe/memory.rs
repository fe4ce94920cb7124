//! The maps that the kernel programs write, as memory of this process: reading them costs no system call.

use std::{
    marker::PhantomData,
    os::fd::{AsRawFd as _, BorrowedFd},
    ptr::NonNull,
};

use anyhow::{Context as _, Result, bail};
use concprobe_common::{
    block::{CALL_NUMBERS, CallCount, Counter, Ended, Loss, Losses},
    histogram::{Histogram, Kind},
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

    /// What is missing, by cause.
    pub fn losses(&self) -> Vec<(Loss, u64)> {
        Loss::ALL
            .iter()
            .map(|loss| (*loss, self.losses.iter().map(|of_cpu| of_cpu.counts[*loss as usize]).sum()))
            .collect()
    }

    /// Calls by number, of all CPUs; only those that were made.
    pub fn calls(&self) -> Vec<(u32, CallCount)> {
        let mut totals = vec![CallCount::default(); CALL_NUMBERS as usize];
        for (index, of_cpu) in self.calls.iter().enumerate() {
            let total = &mut totals[index % CALL_NUMBERS as usize];
            total.calls += of_cpu.calls;
            total.errors += of_cpu.errors;
            total.again += of_cpu.again;
        }
        (0..CALL_NUMBERS).zip(totals).filter(|(_, count)| count.calls > 0).collect()
    }
}
