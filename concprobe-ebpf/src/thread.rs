//! The life of a tracked thread's block: given at the announcement or at the fork, moved along at every
//! switch and wake-up, folded into the sums of ended threads at the last switch.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use concprobe_common::{
    block::{Block, Counter, Loss, place},
    histogram::Kind,
};

use crate::{
    maps::{BLOCKS, ENDED, FREE, TASKS},
    record::{add, elapsed, interval, lose},
};

/// The slot of a tracked thread.
#[inline(always)]
pub fn slot_of(tid: u32) -> Option<u32> {
    // SAFETY: values of a preallocated hash are only read, and are four bytes wide: never torn.
    unsafe { TASKS.get(tid) }.copied()
}

/// The block of a tracked thread: one look-up for all others.
#[inline(always)]
pub fn block_of(tid: u32) -> Option<*mut Block> {
    BLOCKS.get_ptr_mut(slot_of(tid)?)
}

/// Gives the thread a block; what is not named here is zero.
#[inline(always)]
pub fn track(tid: u32) -> Option<(u32, *mut Block)> {
    let Ok(Some(slot)) = FREE.pop() else {
        lose(Loss::NoBlock);
        return None;
    };
    let block = BLOCKS.get_ptr_mut(slot)?;
    // SAFETY: the slot is nobody else's: it came out of the stack of free ones.
    unsafe {
        *block = Block::EMPTY;
        (*block).tid = tid;
    }
    if TASKS.insert(tid, slot, 0).is_err() {
        lose(Loss::TableFull);
        let _ = FREE.push(slot, 0);
        return None;
    }
    Some((slot, block))
}

/// The thread was switched in.
#[inline(always)]
pub fn switched_in(block: *mut Block, now: u64) {
    // SAFETY: `block` points into the map; the run queue's lock is held, so wake-ups and switches of this
    // thread come one after the other. The same holds for every function below.
    unsafe {
        // SAFETY: the helper has no preconditions.
        let cpu = bpf_get_smp_processor_id();
        let since = (*block).since_ns;
        if (*block).started_ns == 0 {
            first_run(block, now);
        } else {
            match (*block).place {
                place::RUNNABLE => {
                    let waited = elapsed(since, now);
                    add(block, Counter::RunQueueNs, waited);
                    if (*block).recording != 0 {
                        interval(Kind::RunQueue, waited);
                    }
                }
                place::BLOCKED => {
                    lose(Loss::MissedWakeup);
                    add(block, Counter::BlockedNs, elapsed(since, now));
                }
                place::RUNNING => {
                    lose(Loss::MissedSwitchOut);
                    add(block, Counter::OnCpuNs, elapsed(since, now));
                }
                _ => {}
            }
            if (*block).cpu != cpu {
                add(block, Counter::Migrations, 1);
            }
        }
        (*block).cpu = cpu;
        (*block).place = place::RUNNING;
        (*block).since_ns = now;
        (*block).kernel_since_ns = now;
        (*block).sequence += 1;
    }
}

#[inline(always)]
fn first_run(block: *mut Block, now: u64) {
    // SAFETY: see `switched_in`.
    unsafe {
        (*block).started_ns = now;
        let creation = elapsed((*block).clone_ns, now);
        if (*block).recording != 0 {
            interval(Kind::Creation, creation);
        }
        add(block, Counter::CloneNs, elapsed((*block).clone_ns, (*block).runnable_ns));
        add(block, Counter::FirstRunWaitNs, elapsed((*block).runnable_ns, now));
        if let Some(creator) = creator_of(block) {
            (*creator).child_first_run_ns = now;
        }
    }
}

/// The block of the thread that created this one, while it is still that thread's.
#[inline(always)]
fn creator_of(block: *mut Block) -> Option<*mut Block> {
    // SAFETY: see `switched_in`.
    let (slot, tid) = unsafe { ((*block).creator, (*block).creator_tid) };
    if tid == 0 {
        return None;
    }
    let creator = BLOCKS.get_ptr_mut(slot)?;
    // SAFETY: `creator` points into the map.
    (unsafe { (*creator).tid } == tid).then_some(creator)
}

/// The thread shows that it runs. The kernel does not report every switch: some out of kernel threads
/// never come (seen on 6.18), and the thread that they lead to is found out here.
#[inline(always)]
pub fn runs(block: *mut Block, now: u64) {
    // SAFETY: see `switched_in`.
    if unsafe { (*block).place } != place::RUNNING {
        lose(Loss::MissedSwitchIn);
        switched_in(block, now);
    }
}

/// The thread left its CPU.
#[inline(always)]
pub fn switched_out(block: *mut Block, now: u64, to: u32) {
    runs(block, now);
    // SAFETY: see `switched_in`.
    unsafe {
        add(block, Counter::OnCpuNs, elapsed((*block).since_ns, now));
        if (*block).call != 0 {
            add(block, Counter::KernelNs, elapsed((*block).kernel_since_ns, now));
        }
        (*block).place = to;
        (*block).since_ns = now;
    }
}

/// The thread was made runnable. A second wake-up, or one of a thread that had not yet gone to sleep,
/// changes nothing: the earliest start of the wait counts.
#[inline(always)]
pub fn woken(block: *mut Block, now: u64) {
    // SAFETY: see `switched_in`.
    unsafe {
        if (*block).place != place::BLOCKED {
            return;
        }
        let blocked = elapsed((*block).since_ns, now);
        add(block, Counter::BlockedNs, blocked);
        if (*block).recording != 0 {
            interval(Kind::Blocked, blocked);
        }
        (*block).place = place::RUNNABLE;
        (*block).since_ns = now;
    }
}

/// The thread ended: its block stays for its reader, or is summed and given back.
#[inline(always)]
pub fn ended(tid: u32, slot: u32, block: *mut Block, now: u64) {
    let _ = TASKS.remove(tid);
    // SAFETY: see `switched_in`; nobody looks the thread up any more.
    unsafe {
        (*block).ended_ns = now;
        (*block).place = place::DEAD;
        if (*block).keep != 0 {
            return;
        }
        if (*block).recording != 0 {
            fold(block, now);
        }
        (*block).tid = 0;
        (*block).place = place::FREE;
    }
    let _ = FREE.push(slot, 0);
}

#[inline(always)]
fn fold(block: *mut Block, now: u64) {
    // SAFETY: the helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(sums) = ENDED.get_ptr_mut(cpu) else { return };
    // SAFETY: `sums` points into the map and is this CPU's own; preemption is off.
    unsafe {
        let mut index = 0;
        while index < Counter::COUNT {
            (*sums).counters[index] += (*block).counters[index];
            index += 1;
        }
        (*sums).threads += 1;
        (*sums).wall_ns += elapsed((*block).started_ns, now);
    }
}
