//! Hooks: `sys_enter`, `sys_exit`. Feeds: calls, futex waits and wakes with their outcome, kernel time,
//! the moment a clone was entered; on request calls and errors by number. Depth: *calls*. Linux 5.10.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, generated::bpf_ktime_get_ns},
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use concprobe_common::{
    block::{Block, CALL_NUMBERS, Counter, Loss},
    futex::{self, WaitEnd},
};

use crate::{
    maps::{CALLS, config},
    probes::context::{current_tid, field, record, saved_call},
    record::{add, lose},
    thread,
};

#[btf_tracepoint(function = "sys_enter")]
pub fn enter_btf(context: BtfTracePointContext) -> i32 {
    let Some(block) = thread::block_of(current_tid()) else { return 0 };
    let regs: *const c_void = context.arg(0);
    let nr: u64 = context.arg(1);
    // SAFETY: the `pt_regs` of this call, and the offset is that of this architecture.
    entered(block, nr as u32, unsafe { field::<u64>(regs, config!(regs_arg1)) } as u32);
    0
}

#[tracepoint]
pub fn enter_classic(context: TracePointContext) -> u32 {
    let Some(block) = thread::block_of(current_tid()) else { return 0 };
    // SAFETY: the offsets come from the tracepoint's format; `args` is an array of words.
    let (nr, op) = unsafe {
        (record::<u32>(&context, config!(enter_id)), record::<u64>(&context, config!(enter_args) + 8))
    };
    entered(block, nr, op as u32);
    0
}

#[inline(always)]
fn entered(block: *mut Block, nr: u32, op: u32) {
    // SAFETY: the helper has no preconditions; `block` points into the map and is the running thread's.
    unsafe {
        let sequence = (*block).sequence;
        let now = bpf_ktime_get_ns();
        thread::runs(block, now);
        if (*block).call != 0 {
            exit_missed(block);
        }
        (*block).call_entered_ns = now;
        (*block).kernel_since_ns = now;
        (*block).slept_in_call = 0;
        if (*block).sequence != sequence {
            // On newer kernels a program can be preempted: what passed in between was not kernel time.
            (*block).kernel_since_ns = bpf_ktime_get_ns();
        }
    }
    count_entry(block, nr, op);
}

/// Counts a call of this number; `op` is its second argument, which tells futex operations apart.
#[inline(always)]
fn count_entry(block: *mut Block, nr: u32, op: u32) {
    add(block, Counter::Syscalls, 1);
    let operation = futex::of_call(nr, config!(nr_futex), op);
    let waits = matches!(operation, Some(operation) if operation.is_wait());
    // SAFETY: `block` points into the map and is the running thread's.
    unsafe {
        (*block).call = nr.wrapping_add(1);
        (*block).futex_wait = waits as u32;
    }
    if waits {
        add(block, Counter::FutexWaits, 1);
    } else if matches!(operation, Some(operation) if operation.is_wake()) {
        add(block, Counter::FutexWakes, 1);
    }
}

/// The call before was not seen to return, as on newer kernels the program for that can be left out.
#[inline(always)]
fn exit_missed(block: *mut Block) {
    // SAFETY: `block` points into the map and is the running thread's.
    unsafe {
        if (*block).recording != 0 {
            lose(if (*block).futex_wait != 0 { Loss::UnknownWaitEnd } else { Loss::MissedCallExit });
        }
    }
}

#[btf_tracepoint(function = "sys_exit")]
pub fn exit_btf(context: BtfTracePointContext) -> i32 {
    let Some(block) = thread::block_of(current_tid()) else { return 0 };
    returned(block, context.arg::<u64>(1).cast_signed());
    0
}

#[tracepoint]
pub fn exit_classic(context: TracePointContext) -> u32 {
    let Some(block) = thread::block_of(current_tid()) else { return 0 };
    // SAFETY: the offset comes from the tracepoint's format.
    returned(block, unsafe { record::<i64>(&context, config!(exit_ret)) });
    0
}

#[inline(always)]
fn returned(block: *mut Block, value: i64) {
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    thread::runs(block, now);
    // SAFETY: `block` points into the map and is the running thread's.
    if unsafe { (*block).call } == 0 && !entry_missed(block) {
        return;
    }
    // SAFETY: as above.
    let (call, futex_wait) = unsafe {
        // If the program was preempted after it read the clock, the switch has taken care of the time.
        add(block, Counter::KernelNs, now.saturating_sub((*block).kernel_since_ns));
        let call = ((*block).call, (*block).futex_wait);
        (*block).call = 0;
        (*block).futex_wait = 0;
        call
    };
    if futex_wait != 0 {
        match futex::wait_end(value) {
            WaitEnd::Again => add(block, Counter::FutexWaitAgain, 1),
            WaitEnd::TimedOut => add(block, Counter::FutexWaitTimedOut, 1),
            WaitEnd::Interrupted => add(block, Counter::FutexWaitInterrupted, 1),
            WaitEnd::Woken | WaitEnd::Failed => {}
        }
    }
    // SAFETY: as above.
    if config!(count_by_number) != 0 && unsafe { (*block).recording } != 0 {
        count_by_number(call - 1, value);
    }
}

/// A return without an entry. That of a new thread is its creator's clone, and one of a call that was
/// entered before the hooks were on is not of the run. Any other was not seen to start, and is counted now.
#[inline(always)]
fn entry_missed(block: *mut Block) -> bool {
    // SAFETY: `block` points into the map and is the running thread's.
    unsafe {
        if (*block).recording == 0 || (*block).counters[Counter::Syscalls as usize] == 0 {
            return false;
        }
        if config!(has_task_pt_regs) == 0 {
            lose(Loss::UnknownCall);
            return false;
        }
        lose(Loss::MissedCallEntry);
        (*block).kernel_since_ns = bpf_ktime_get_ns();
    }
    let (nr, _, op) = saved_call();
    count_entry(block, nr, op as u32);
    true
}

#[inline(always)]
fn count_by_number(nr: u32, value: i64) {
    // SAFETY: the helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let nr = if nr < CALL_NUMBERS { nr } else { CALL_NUMBERS - 1 };
    let Some(count) = CALLS.get_ptr_mut(cpu * CALL_NUMBERS + nr) else { return };
    // SAFETY: `count` points into the map and is this CPU's own; preemption is off.
    unsafe {
        (*count).calls += 1;
        if (-4095..0).contains(&value) {
            (*count).errors += 1;
            if value == -11 {
                (*count).again += 1;
            }
        }
    }
}
