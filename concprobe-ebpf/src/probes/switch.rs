//! Hook: `sched_switch`. Feeds: switches, on-CPU, run-queue, where threads sleep, the end.
//! Depth: *switches*. Linux 5.10 (what a thread sleeps in: 5.15, for `bpf_task_pt_regs`).

use core::ffi::c_void;

use aya_ebpf::{
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use concprobe_common::{
    block::{Block, Counter, keep, place},
    event,
    site::{COMPAT, SiteSum},
    task_state::{self, Departure},
};

use crate::{
    maps::{BLOCKS, config},
    probes::context::{Call, current_tgid, field, record},
    record::add,
    site, stack, thread,
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
    let previous = if previous_tid == 0 { None } else { thread::slot_of_current() };
    let next = if next_tid == 0 { None } else { thread::slot_of(next_tid) };
    thread::remember(next_tid, next);
    if previous.is_none() && next.is_none() || thread::over() {
        return;
    }
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    if let Some(slot) = previous
        && let Some(block) = BLOCKS.get_ptr_mut(slot)
    {
        departed(previous_tid, slot, block, departure, now);
    }
    if let Some(slot) = next
        && let Some(block) = BLOCKS.get_ptr_mut(slot)
    {
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
            if config!(tracing) != 0 {
                sleeps_somewhere(slot, block, now);
            } else if sleeps_in_futex_wait(block) {
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
    matches!(Call::saved().futex, Some(operation) if operation.is_wait())
}

/// Finds the site of a sleep that begins, and copies the stack of a few.
#[inline(always)]
fn sleeps_somewhere(slot: u32, block: *mut Block, now: u64) {
    // SAFETY: `block` points into the map and is this thread's.
    if unsafe { (*block).keep } == keep::UNTIL_EXEC {
        return;
    }
    let call = if config!(has_task_pt_regs) != 0 {
        Call::saved()
    } else {
        // SAFETY: `block` points into the map and is this thread's.
        unsafe {
            match (*block).call {
                0 => return,
                call => Call::new((call - 1) & !COMPAT, (call - 1) & COMPAT != 0, (*block).call_arguments),
            }
        }
    };
    // SAFETY: `block` points into the map and is this thread's; `known` is a part of it.
    unsafe {
        let first = (*block).call == 0 || (*block).slept_in_call == 0;
        (*block).slept_in_call = 1;
        // A sleep that a signal or a stop broke off goes on where it was.
        if call.number == config!(nr_restart) && (*block).last_site != 0 {
            (*block).site = (*block).last_site;
            return;
        }
        if first && matches!(call.futex, Some(operation) if operation.is_wait()) {
            add(block, Counter::FutexWaitSlept, 1);
        }
        let (_, known) = site::of_call(block, &call);
        let site = (*known).site;
        (*block).site = site;
        (*block).last_site = site;
        if site::is_limited(&call) {
            site::add(site - 1, SiteSum::Limited, 1);
        }
        let before = (*known).sleeps;
        if before == 0 {
            site::note_thread(site - 1, (*block).tid);
        }
        (*known).sleeps = before.saturating_add(1);
        if config!(stacks) != 0 {
            let one_in = event::one_in(before).saturating_mul(event::one_in_crowd(site::copies(site - 1)));
            let weight = stack::chosen(one_in);
            if weight != 0 {
                let id =
                    u64::from(slot) << 32 | ((*block).counters[Counter::Voluntary as usize] & 0xffff_ffff);
                (*block).stack_id = id;
                site::add(site - 1, SiteSum::Copies, 1);
                stack::copy(event::kind::SLEEPER, id, site - 1, weight, now);
            }
        }
    }
}
