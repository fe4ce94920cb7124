//! The life of a tracked thread's block: given at the announcement or at the fork, moved along at every
//! switch and wake-up, folded into the sums of ended threads at the last switch.

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use concprobe_common::{
    block::{Block, Counter, EndedKey, EndedNamed, Loss, SHORT_LIFE_NS, keep, place},
    histogram::Kind,
};

use crate::{
    maps::{BLOCKS, CONTROL, ENDED, ENDED_NAMED, FREE, KEEP, RUNNING, TASKS, config},
    probes::context::current_tid,
    record::{add, add_shared, elapsed, interval, lose},
    site, stack,
};

/// The slot of a tracked thread.
#[inline(always)]
pub fn slot_of(tid: u32) -> Option<u32> {
    // SAFETY: values of a preallocated hash are only read, and are four bytes wide: never torn.
    unsafe { TASKS.get(tid) }.copied()
}

/// The block of a tracked thread: one look-up for all others. None once the look is over.
#[inline(always)]
pub fn block_of(tid: u32) -> Option<*mut Block> {
    let slot = slot_of(tid)?;
    if over() { None } else { BLOCKS.get_ptr_mut(slot) }
}

/// The slot of the running thread. What the last switch on this CPU led to is remembered, which spares the
/// look-up; a thread of another id than expected (some switches go unreported) is looked up.
#[inline(always)]
pub fn slot_of_current() -> Option<u32> {
    let tid = current_tid();
    // SAFETY: the helper has no preconditions.
    match RUNNING.get(unsafe { bpf_get_smp_processor_id() }) {
        Some(running) if running.tid == tid => running.slot.checked_sub(1),
        _ => slot_of(tid),
    }
}

/// The block of the running thread. None once the look is over.
#[inline(always)]
pub fn current_block() -> Option<*mut Block> {
    let slot = slot_of_current()?;
    if over() { None } else { BLOCKS.get_ptr_mut(slot) }
}

/// Remembers which thread this CPU runs.
#[inline(always)]
pub fn remember(tid: u32, slot: Option<u32>) {
    // SAFETY: the helper has no preconditions.
    if let Some(running) = RUNNING.get_ptr_mut(unsafe { bpf_get_smp_processor_id() }) {
        // SAFETY: `running` points into the map and is this CPU's own.
        unsafe {
            (*running).tid = tid;
            (*running).slot = match slot {
                Some(slot) => slot + 1,
                None => 0,
            };
        }
    }
}

/// The user side has ended the look, and reads the maps: nothing in them may change any more.
#[inline(always)]
pub fn over() -> bool {
    config!(tracing) != 0
        // SAFETY: the pointer is into the map.
        && CONTROL.get(0).is_some_and(|control| unsafe { core::ptr::read_volatile(&raw const control.stopped) } != 0)
}

/// How deep the PID namespace of the user side is nested.
#[inline(always)]
pub fn level() -> u32 {
    // SAFETY: the pointer is into the map.
    CONTROL.get(0).map_or(0, |control| unsafe { core::ptr::read_volatile(&raw const control.level) })
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

/// Tells an address space from all others: its process, and when it began.
#[inline(always)]
pub fn new_space(tgid: u32, now: u64) -> u64 {
    u64::from(tgid) << 32 | (now >> 10) & 0xffff_ffff
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
                place::RUNNABLE | place::UNSEEN => {
                    let waited = elapsed(since, now);
                    add(block, Counter::RunQueueNs, waited);
                    if (*block).recording != 0 && config!(tracing) == 0 {
                        interval(Kind::RunQueue, waited);
                    }
                    sleep_ended(block, waited);
                }
                place::BLOCKED => {
                    lose(Loss::MissedWakeup);
                    let blocked = elapsed(since, now);
                    add(block, Counter::BlockedNs, blocked);
                    (*block).slept_ns = blocked;
                    sleep_ended(block, 0);
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

/// The thread runs again after a sleep: sums it at its site.
#[inline(always)]
fn sleep_ended(block: *mut Block, run_queue_ns: u64) {
    if config!(tracing) == 0 {
        return;
    }
    // SAFETY: see `switched_in`.
    unsafe {
        if (*block).site == 0 {
            return;
        }
        site::slept((*block).site - 1, (*block).slept_ns, run_queue_ns);
        if config!(stacks) != 0 && (*block).stack_id != 0 {
            stack::sleep_ended((*block).stack_id, (*block).slept_ns, run_queue_ns);
            (*block).stack_id = 0;
        }
        (*block).site = 0;
        (*block).slept_ns = 0;
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
    unsafe {
        if (*block).place == place::RUNNING {
            return;
        }
        if (*block).place == place::UNSEEN {
            // It has been running since before the programs were on.
            (*block).place = place::RUNNING;
            (*block).site = 0;
            (*block).stack_id = 0;
            return;
        }
    }
    lose(Loss::MissedSwitchIn);
    switched_in(block, now);
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
        if (*block).place != place::BLOCKED && (*block).place != place::UNSEEN {
            return;
        }
        let blocked = elapsed((*block).since_ns, now);
        add(block, Counter::BlockedNs, blocked);
        if (*block).recording != 0 && config!(tracing) == 0 {
            interval(Kind::Blocked, blocked);
        }
        (*block).slept_ns = blocked;
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
        if (*block).keep != keep::NOTHING {
            return;
        }
        if config!(tracing) != 0 {
            site::hand_all_over(block);
            let life = elapsed((*block).started_ns, now);
            // How long a thread lived that was there before is not known.
            let existed = (*block).existed != 0;
            if !existed {
                interval(Kind::Life, life);
            }
            // The first thread of what is looked at has no tracked creator, and is always listed by itself.
            let first = (*block).tid == (*block).tgid && (*block).parent == 0;
            if first || (existed || life >= SHORT_LIFE_NS) && matches!(KEEP.pop(), Ok(Some(_))) {
                return;
            }
            fold_named(block, now);
        } else if (*block).recording != 0 {
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

/// Sums the thread with those of its process that ended under the same name.
#[inline(always)]
fn fold_named(block: *mut Block, now: u64) {
    // SAFETY: see `switched_in`.
    let key = unsafe { EndedKey { tgid: (*block).tgid, reserved: 0, name: (*block).name } };
    let Some(sums) = row_of(&key) else {
        lose(Loss::NoName);
        return;
    };
    // SAFETY: `sums` points into the map; several CPUs may add at the same time. The plain words are written
    // with the same values by all, or may be off by one thread.
    unsafe {
        let mut index = 0;
        while index < Counter::COUNT {
            add_shared(&raw mut (*sums).counters[index], (*block).counters[index]);
            index += 1;
        }
        add_shared(&raw mut (*sums).threads, 1);
        add_shared(&raw mut (*sums).wall_ns, elapsed((*block).started_ns, now));
        (*sums).parent = (*block).parent;
        if (*sums).first_started_ns == 0 {
            (*sums).first_started_ns = (*block).started_ns;
        }
        (*sums).last_ended_ns = now;
        if (*block).tid == (*block).tgid {
            (*sums).leader = 1;
        }
    }
}

/// The row of that key, made if need be; the nameless one when there is no room.
#[inline(always)]
fn row_of(key: &EndedKey) -> Option<*mut EndedNamed> {
    if let Some(row) = ENDED_NAMED.get_ptr_mut(key) {
        return Some(row);
    }
    let _ = ENDED_NAMED.insert(key, EMPTY_ROW, NOEXIST);
    if let Some(row) = ENDED_NAMED.get_ptr_mut(key) {
        return Some(row);
    }
    lose(Loss::NoName);
    ENDED_NAMED.get_ptr_mut(EndedKey { tgid: 0, reserved: 0, name: [0; 16] })
}

/// `BPF_NOEXIST` of `include/uapi/linux/bpf.h`.
const NOEXIST: u64 = 1;

static EMPTY_ROW: EndedNamed = EndedNamed::EMPTY;
