//! Writing into the shared records: sums, losses, histograms.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use concprobe_common::{
    block::{Block, Counter, Loss},
    histogram::{self, Kind},
    site::Spread,
    time,
};

use crate::maps::{HISTOGRAMS, LOSSES};

/// Adds to a counter that only this thread's CPU writes.
#[inline(always)]
pub fn add(block: *mut Block, counter: Counter, amount: u64) {
    // SAFETY: `block` points into the BLOCKS map, and the slot is an enum variant.
    unsafe { (*block).counters[counter as usize] += amount };
}

/// Adds to a sum that several CPUs write.
///
/// # Safety
/// `sum` must point into a map.
#[inline(always)]
pub unsafe fn add_shared(sum: *mut u64, amount: u64) {
    #[cfg(target_arch = "bpf")]
    // SAFETY: by the contract above.
    unsafe {
        core::arch::asm!("lock *(u64 *)({sum} + 0) += {amount}", sum = in(reg) sum, amount = in(reg) amount);
    }
    #[cfg(not(target_arch = "bpf"))]
    // SAFETY: by the contract above; here it is only compiled.
    unsafe {
        *sum += amount;
    }
}

/// Counts one in a bucket that several CPUs write.
///
/// # Safety
/// `count` must point into a map.
#[inline(always)]
unsafe fn count_shared(count: *mut u32) {
    #[cfg(target_arch = "bpf")]
    // SAFETY: by the contract above.
    unsafe {
        core::arch::asm!("lock *(u32 *)({count} + 0) += {one}", count = in(reg) count, one = in(reg) 1u64);
    }
    #[cfg(not(target_arch = "bpf"))]
    // SAFETY: by the contract above; here it is only compiled.
    unsafe {
        *count += 1;
    }
}

/// Records a value in a spread that several CPUs write.
///
/// # Safety
/// `spread` must point into a map.
#[inline(always)]
pub unsafe fn spread(spread: *mut Spread, value_ns: u64) {
    let bucket = histogram::bucket(value_ns);
    let bucket = if bucket < histogram::SPREAD_BUCKETS { bucket } else { histogram::SPREAD_BUCKETS - 1 };
    // SAFETY: the bucket lies within the record, which lies in a map by the contract above.
    unsafe {
        count_shared(&raw mut (*spread).counts[bucket]);
        if value_ns > (*spread).max {
            (*spread).max = value_ns;
        }
        if u64::MAX - value_ns > (*spread).min_complement {
            (*spread).min_complement = u64::MAX - value_ns;
        }
    }
}

/// Counts something that is missing from the result.
#[inline(always)]
pub fn lose(loss: Loss) {
    // SAFETY: the helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    if let Some(losses) = LOSSES.get_ptr_mut(cpu) {
        // SAFETY: `losses` points into the map and is this CPU's own; the slot is an enum variant.
        unsafe { (*losses).counts[loss as usize] += 1 };
    }
}

/// The time between two stamps; one that runs backwards is 0 and counted as a loss.
#[inline(always)]
pub fn elapsed(start_ns: u64, end_ns: u64) -> u64 {
    if let Some(elapsed) = time::elapsed_ns(start_ns, end_ns) {
        elapsed
    } else {
        lose(Loss::ClockBackwards);
        0
    }
}

/// Records an interval in this CPU's histogram.
#[inline(always)]
pub fn interval(kind: Kind, value_ns: u64) {
    // SAFETY: the helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(histogram) = HISTOGRAMS.get_ptr_mut(cpu * Kind::COUNT + kind as u32) else { return };
    let bucket = histogram::bucket(value_ns);
    if bucket >= histogram::BUCKETS {
        return; // cannot be, but the verifier does not know
    }
    // SAFETY: `histogram` points into the map, the bucket was checked. Programs of one CPU that record
    // here run with preemption off, so nobody else writes at the same time.
    unsafe {
        (*histogram).counts[bucket] += 1;
        (*histogram).sum += value_ns;
        if value_ns > (*histogram).max {
            (*histogram).max = value_ns;
        }
        if u64::MAX - value_ns > (*histogram).min_complement {
            (*histogram).min_complement = u64::MAX - value_ns;
        }
    }
}
