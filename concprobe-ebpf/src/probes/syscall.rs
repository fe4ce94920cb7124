//! Hooks: `sys_enter`, `sys_exit`. Feeds: calls, futex waits and wakes with their outcome, kernel time,
//! the moment a clone was entered; on request calls and errors by number. Depth: *calls*. Linux 5.10.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, generated::bpf_ktime_get_ns},
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use concprobe_common::{
    block::{self, Block, CALL_ROWS, Counter, Loss},
    config::POLLS,
    futex::{self, WaitEnd},
    site::{COMPAT, CallSum},
};

use crate::{
    maps::{CALLS, config},
    probes::context::{Call, is_compat, record},
    record::{add, lose},
    site, thread,
};

/// `-EAGAIN`, as a call returns it.
const EAGAIN: i64 = -11;

#[btf_tracepoint(function = "sys_enter")]
pub fn enter_btf(context: BtfTracePointContext) -> i32 {
    let Some(block) = thread::current_block() else { return 0 };
    let regs: *const c_void = context.arg(0);
    let nr: u64 = context.arg(1);
    // SAFETY: the `pt_regs` of this call.
    entered(block, &unsafe { Call::of_registers(nr as u32, regs) });
    0
}

#[tracepoint]
pub fn enter_classic(context: TracePointContext) -> u32 {
    let Some(block) = thread::current_block() else { return 0 };
    // SAFETY: the offsets come from the tracepoint's format; `args` is an array of words.
    let (nr, arguments) = unsafe {
        let argument = |index: u32| record::<u64>(&context, config!(enter_args) + 8 * index);
        (record::<u32>(&context, config!(enter_id)), [argument(0), argument(1), argument(2), argument(3)])
    };
    entered(block, &Call::new(nr, is_compat(), arguments));
    0
}

#[inline(always)]
fn entered(block: *mut Block, call: &Call) {
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
    count_entry(block, call);
}

/// Counts a call.
#[inline(always)]
fn count_entry(block: *mut Block, call: &Call) {
    add(block, Counter::Syscalls, 1);
    let waits = matches!(call.futex, Some(operation) if operation.is_wait());
    // SAFETY: `block` points into the map and is the running thread's.
    unsafe {
        (*block).call = (call.number | if call.compat { COMPAT } else { 0 }).wrapping_add(1);
        (*block).futex_wait = waits as u32;
        (*block).call_arguments = call.arguments;
    }
    if waits {
        add(block, Counter::FutexWaits, 1);
    } else if matches!(call.futex, Some(operation) if operation.is_wake()) {
        add(block, Counter::FutexWakes, 1);
    }
    if config!(tracing) != 0 {
        site::called(block, call);
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
    let Some(block) = thread::current_block() else { return 0 };
    returned(block, context.arg::<u64>(1).cast_signed());
    0
}

#[tracepoint]
pub fn exit_classic(context: TracePointContext) -> u32 {
    let Some(block) = thread::current_block() else { return 0 };
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
    let (call, futex_wait, call_way) = unsafe {
        // If the program was preempted after it read the clock, the switch has taken care of the time.
        add(block, Counter::KernelNs, now.saturating_sub((*block).kernel_since_ns));
        let call = ((*block).call, (*block).futex_wait, (*block).call_way);
        (*block).call = 0;
        (*block).futex_wait = 0;
        (*block).call_way = 0;
        call
    };
    if futex_wait != 0 {
        let (counter, sum) = match futex::wait_end(value) {
            WaitEnd::Again => (Some(Counter::FutexWaitAgain), CallSum::Again),
            WaitEnd::TimedOut => (Some(Counter::FutexWaitTimedOut), CallSum::TimedOut),
            WaitEnd::Interrupted => (Some(Counter::FutexWaitInterrupted), CallSum::Interrupted),
            WaitEnd::Woken | WaitEnd::Failed => (None, CallSum::Again),
        };
        if let Some(counter) = counter {
            add(block, counter, 1);
            if config!(tracing) != 0 {
                site::ended(block, call_way, sum);
            }
        }
    }
    if config!(tracing) != 0 {
        count_vain(block, call - 1, value);
    }
    // SAFETY: as above.
    if config!(count_by_number) != 0 && unsafe { (*block).recording } != 0 {
        count_by_number(call - 1, value);
    }
}

/// Counts what a program that polls does by the thousand.
#[inline(always)]
fn count_vain(block: *mut Block, nr: u32, value: i64) {
    // SAFETY: `block` points into the map and is the running thread's.
    let slept = unsafe { (*block).slept_in_call } != 0;
    if value == EAGAIN {
        add(block, Counter::CallsAgain, 1);
    } else if value == 0 && !slept && is_poll(nr) {
        add(block, Counter::EmptyPolls, 1);
    }
}

#[inline(always)]
fn is_poll(nr: u32) -> bool {
    let mut index = 0;
    while index < POLLS {
        if nr == config!(polls[index]) {
            return true;
        }
        index += 1;
    }
    false
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
    count_entry(block, &Call::saved());
    true
}

#[inline(always)]
fn count_by_number(nr: u32, value: i64) {
    // SAFETY: the helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let row = block::call_row(nr & !COMPAT, nr & COMPAT != 0);
    let Some(count) = CALLS.get_ptr_mut(cpu * CALL_ROWS + row) else { return };
    // SAFETY: `count` points into the map and is this CPU's own; preemption is off.
    unsafe {
        (*count).calls += 1;
        if (-4095..0).contains(&value) {
            (*count).errors += 1;
            if value == EAGAIN {
                (*count).again += 1;
            }
        }
    }
}
