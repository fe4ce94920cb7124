//! Hooks: `sched_wakeup`, `sched_wakeup_new`. Feeds: the end of blocked time, the start of run-queue wait.
//! Depth: *switches*. Linux 5.10.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use concprobe_common::block::place;

use crate::{
    maps::{BLOCKS, config},
    probes::context::{field, record},
    thread,
};

#[btf_tracepoint(function = "sched_wakeup")]
pub fn wakeup_btf(context: BtfTracePointContext) -> i32 {
    let task: *const c_void = context.arg(0);
    // SAFETY: a `task_struct`, and the offset comes from this kernel's BTF.
    woken(unsafe { field(task, config!(task_pid)) });
    0
}

#[tracepoint]
pub fn wakeup_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offset comes from the tracepoint's format.
    woken(unsafe { record(&context, config!(wakeup_pid)) });
    0
}

#[inline(always)]
fn woken(tid: u32) {
    if let Some(block) = thread::block_of(tid) {
        // SAFETY: the helper has no preconditions.
        thread::woken(block, unsafe { bpf_ktime_get_ns() });
    }
}

#[btf_tracepoint(function = "sched_wakeup_new")]
pub fn wakeup_new_btf(context: BtfTracePointContext) -> i32 {
    let task: *const c_void = context.arg(0);
    // SAFETY: a `task_struct`, and the offset comes from this kernel's BTF.
    first_woken(unsafe { field(task, config!(task_pid)) });
    0
}

#[tracepoint]
pub fn wakeup_new_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offset comes from the tracepoint's format.
    first_woken(unsafe { record(&context, config!(wakeup_pid)) });
    0
}

/// Runs in the creator, inside its clone.
#[inline(always)]
fn first_woken(tid: u32) {
    let Some(block) = thread::block_of(tid) else { return };
    // SAFETY: the helper has no preconditions; the block points into the map, and its thread has not run.
    let creator = unsafe {
        let now = bpf_ktime_get_ns();
        (*block).runnable_ns = now;
        (*block).since_ns = now;
        (*block).place = place::RUNNABLE;
        (*block).creator
    };
    if let Some(creator) = BLOCKS.get_ptr_mut(creator) {
        // SAFETY: the creator is the running thread, so its slot is still its own.
        unsafe {
            (*creator).child_clone_ns = (*block).clone_ns;
            (*creator).child_runnable_ns = (*block).runnable_ns;
            (*creator).child_first_run_ns = 0;
        }
    }
}
