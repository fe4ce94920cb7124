//! Hook: `sched_switch`. Feeds: switches, on-CPU, run-queue, the sleep inside a futex wait, the end.
//! Depth: *switches*. Linux 5.10 (what a thread sleeps in: 5.15, for `bpf_task_pt_regs`).

use core::ffi::c_void;

use aya_ebpf::{
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use concprobe_common::{
    block::{Block, Counter, place},
    futex,
    task_state::{self, Departure},
};

use crate::{
    maps::{BLOCKS, config},
    probes::context::{current_tgid, field, record, saved_call},
    record::add,
    thread,
};

#[btf_tracepoint(function = "sched_switch")]
pub fn switch_btf(context: BtfTracePointContext) -> i32 {
    let preempt = context.arg::<u64>(0) != 0;
    let previous: *const c_void = context.arg(1);
    let next: *const c_void = context.arg(2);
    // SAFETY: both are `task_struct`s, and the offsets come from this kernel's BTF.
    let (previous_tid, next_tid) =
        unsafe { (field::<u32>(previous, config!(task_pid)), field::<u32>(next, config!(task_pid))) };
    let state = if config!(switch_passes_state) != 0 {
        context.arg::<u64>(3) as u32
    } else {
        // SAFETY: as above.
        unsafe { field::<u32>(previous, config!(task_state)) }
    };
    switched(previous_tid, next_tid, task_state::from_kernel(state, preempt));
    0
}

#[tracepoint]
pub fn switch_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offsets come from the tracepoint's format.
    let (previous_tid, state, next_tid) = unsafe {
        (
            record::<u32>(&context, config!(switch_prev_pid)),
            record::<u64>(&context, config!(switch_prev_state)),
            record::<u32>(&context, config!(switch_next_pid)),
        )
    };
    switched(previous_tid, next_tid, task_state::from_record(state));
    0
}

#[inline(always)]
fn switched(previous_tid: u32, next_tid: u32, departure: Departure) {
    // The idle task of every CPU is number 0: it is no thread, and shares one number.
    let previous = if previous_tid == 0 { None } else { thread::slot_of(previous_tid) };
    let next = if next_tid == 0 { None } else { thread::block_of(next_tid) };
    if previous.is_none() && next.is_none() {
        return;
    }
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    if let Some(slot) = previous
        && let Some(block) = BLOCKS.get_ptr_mut(slot)
    {
        departed(previous_tid, slot, block, departure, now);
    }
    if let Some(block) = next {
        thread::switched_in(block, now);
    }
}

#[inline(always)]
fn departed(tid: u32, slot: u32, block: *mut Block, departure: Departure, now: u64) {
    match departure {
        Departure::Preempted => {
            thread::switched_out(block, now, place::RUNNABLE);
            add(block, Counter::Involuntary, 1);
        }
        Departure::Slept => {
            thread::switched_out(block, now, place::BLOCKED);
            add(block, Counter::Voluntary, 1);
            if sleeps_in_futex_wait(block) {
                add(block, Counter::FutexWaitSlept, 1);
            }
        }
        Departure::Dead => {
            thread::switched_out(block, now, place::DEAD);
            // SAFETY: `block` points into the map and is this thread's.
            unsafe { (*block).tgid = current_tgid() };
            thread::ended(tid, slot, block, now);
        }
    }
}

/// Whether this sleep is the first one inside a futex wait. With the system call hooks attached the call
/// is known; without them the saved registers tell, and every sleep counts.
#[inline(always)]
fn sleeps_in_futex_wait(block: *mut Block) -> bool {
    // SAFETY: `block` points into the map and is this thread's.
    unsafe {
        if (*block).call != 0 {
            let first = (*block).slept_in_call == 0;
            (*block).slept_in_call = 1;
            return first && (*block).futex_wait != 0;
        }
    }
    if config!(has_task_pt_regs) == 0 {
        return false;
    }
    let (nr, _, op) = saved_call();
    matches!(futex::of_call(nr, config!(nr_futex), op as u32), Some(operation) if operation.is_wait())
}
