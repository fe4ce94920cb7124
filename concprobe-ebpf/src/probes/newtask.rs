//! Hook: `task_newtask`. Feeds: threads and processes created; gives the child its block.
//! Depth: *switches*. Linux 5.10. It runs in the creator, after everything that can fail, and carries the
//! clone flags as the kernel resolved them: `sched_process_fork` has no such word in its record.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext,
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use aya_log_ebpf::debug;
use concprobe_common::block::{Block, Counter, place};

use crate::{
    maps::{BLOCKS, config},
    probes::context::{current_tid, field, record},
    record::add,
    thread,
};

/// `CLONE_THREAD` of `include/uapi/linux/sched.h`.
const CLONE_THREAD: u64 = 0x0001_0000;

#[btf_tracepoint(function = "task_newtask")]
pub fn newtask_btf(context: BtfTracePointContext) -> i32 {
    let child: *const c_void = context.arg(0);
    let flags: u64 = context.arg(1);
    // SAFETY: a `task_struct`, and the offset comes from this kernel's BTF.
    created(&context, unsafe { field(child, config!(task_pid)) }, flags);
    0
}

#[tracepoint]
pub fn newtask_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offsets come from the tracepoint's format.
    let (child, flags) = unsafe {
        (record::<u32>(&context, config!(newtask_pid)), record::<u64>(&context, config!(newtask_clone_flags)))
    };
    created(&context, child, flags);
    0
}

#[inline(always)]
fn created(context: &impl EbpfContext, child: u32, flags: u64) {
    let creator_tid = current_tid();
    let Some(slot) = thread::slot_of(creator_tid) else { return };
    let Some(creator) = BLOCKS.get_ptr_mut(slot) else { return };
    let kind = if flags & CLONE_THREAD != 0 { Counter::ThreadsCreated } else { Counter::ProcessesCreated };
    add(creator, kind, 1);
    debug!(context, "thread {} created {} (clone flags {:x})", creator_tid, child, flags);
    if let Some((_, block)) = thread::track(child) {
        inherit(block, creator, slot, creator_tid);
    }
}

#[inline(always)]
fn inherit(block: *mut Block, creator: *mut Block, slot: u32, creator_tid: u32) {
    // SAFETY: both point into the map; the child has not run, the creator is the running thread.
    unsafe {
        let now = bpf_ktime_get_ns();
        (*block).clone_ns = if (*creator).call != 0 { (*creator).call_entered_ns } else { now };
        (*block).since_ns = now;
        (*block).place = place::NEW;
        (*block).creator = slot;
        (*block).creator_tid = creator_tid;
        (*block).recording = (*creator).recording;
    }
}
