//! Hook: `sched_waking`, which always runs in the thread that wakes, as `sched_wakeup` does not. Feeds: who
//! ended a sleep, with a stack, of the sleeps whose own stack was copied. Depth: *stacks*. Linux 5.15.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use concprobe_common::event;

use crate::{
    maps::config,
    probes::context::{Call, field, record},
    stack, thread,
};

#[btf_tracepoint(function = "sched_waking")]
pub fn waking_btf(context: BtfTracePointContext) -> i32 {
    let task: *const c_void = context.arg(0);
    // SAFETY: a `task_struct`, and the offset comes from this kernel's BTF.
    waking(unsafe { field(task, config!(task_pid)) });
    0
}

#[tracepoint]
pub fn waking_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offset comes from the tracepoint's format.
    waking(unsafe { record(&context, config!(wakeup_pid)) });
    0
}

#[inline(always)]
fn waking(tid: u32) {
    let Some(block) = thread::block_of(tid) else { return };
    // SAFETY: `block` points into the map; the sleep was begun by the thread itself, which is off its CPU.
    let id = unsafe { (*block).stack_id };
    if id == 0 || config!(has_task_pt_regs) == 0 {
        return;
    }
    if thread::slot_of_current().is_none() {
        return; // a stranger, or an interrupt
    }
    // An interrupt of a tracked thread may wake too, at the end of a time limit for instance: only one that is
    // in a call that wakes is taken for the waker.
    let call = Call::saved();
    let wakes = matches!(call.futex, Some(operation) if operation.is_wake());
    if wakes || call.number == config!(nr_exit) || call.number == config!(nr_exit_group) {
        // SAFETY: the helper has no preconditions.
        stack::copy(event::kind::WAKER, id, 0, 1, unsafe { bpf_ktime_get_ns() });
    }
}
