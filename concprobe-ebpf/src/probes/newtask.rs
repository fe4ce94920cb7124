//! Hook: `task_newtask`. Feeds: threads and processes created; gives the child its block.
//! Depth: *switches*. Linux 5.10. It runs in the creator, after everything that can fail, and carries the
//! clone flags as the kernel resolved them: `sched_process_fork` has no such word in its record.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_current_comm, generated::bpf_ktime_get_ns},
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use aya_log_ebpf::debug;
use concprobe_common::{
    block::{Block, Counter, place},
    config::ABSENT,
    event,
};

use crate::{
    maps::{BLOCKS, config},
    probes::context::{current_tid, field, own_number, record},
    record::add,
    stack, thread,
};

/// `CLONE_THREAD` of `include/uapi/linux/sched.h`.
const CLONE_THREAD: u64 = 0x0001_0000;

#[btf_tracepoint(function = "task_newtask")]
pub fn newtask_btf(context: BtfTracePointContext) -> i32 {
    let child: *const c_void = context.arg(0);
    let flags: u64 = context.arg(1);
    // SAFETY: a `task_struct`, and the offset comes from this kernel's BTF.
    created(&context, unsafe { field(child, config!(task_pid)) }, Some(child), flags);
    0
}

#[tracepoint]
pub fn newtask_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offsets come from the tracepoint's format.
    let (child, flags) = unsafe {
        (record::<u32>(&context, config!(newtask_pid)), record::<u64>(&context, config!(newtask_clone_flags)))
    };
    created(&context, child, None, flags);
    0
}

#[inline(always)]
fn created(context: &impl EbpfContext, child: u32, task: Option<*const c_void>, flags: u64) {
    let Some(slot) = thread::slot_of_current() else { return };
    let creator_tid = current_tid();
    if thread::over() {
        return;
    }
    let Some(creator) = BLOCKS.get_ptr_mut(slot) else { return };
    let kind = if flags & CLONE_THREAD != 0 { Counter::ThreadsCreated } else { Counter::ProcessesCreated };
    add(creator, kind, 1);
    debug!(context, "thread {} created {} (clone flags {:x})", creator_tid, child, flags);
    if config!(follow) == 0 && flags & CLONE_THREAD == 0 {
        return;
    }
    if let Some((_, block)) = thread::track(child) {
        inherit(block, creator, slot, creator_tid);
        if config!(tracing) != 0 {
            settle(block, creator, child, flags);
            let level = thread::level();
            if let Some(task) = task.filter(|_| level != 0 && config!(task_thread_pid) != ABSENT) {
                // SAFETY: the tracepoint's task; `block` points into the map, and the child has not run.
                unsafe { (*block).own_tid = own_number(task, level) };
            }
        }
    }
    if config!(stacks) != 0 {
        copy_stack(slot, creator);
    }
}

/// Gives the child its process, address space and name.
#[inline(always)]
fn settle(block: *mut Block, creator: *mut Block, child: u32, flags: u64) {
    // SAFETY: both point into the map; the child has not run, the creator is the running thread.
    unsafe {
        if flags & CLONE_THREAD != 0 {
            (*block).tgid = (*creator).tgid;
            (*block).space = (*creator).space;
            (*block).parent = (*creator).parent;
        } else {
            (*block).tgid = child;
            (*block).space = thread::new_space(child, (*block).since_ns);
            (*block).parent = (*creator).tgid;
        }
        (*block).name = bpf_get_current_comm().unwrap_or_default();
    }
}

/// Copies the stack of every creation at first, then ever rarer.
#[inline(always)]
fn copy_stack(slot: u32, creator: *mut Block) {
    // SAFETY: `creator` points into the map and is the running thread's; the helper has no preconditions.
    unsafe {
        let before = (*creator).creations;
        (*creator).creations = before.saturating_add(1);
        let weight = stack::chosen(event::one_in(before));
        if weight != 0 {
            let id = u64::from(slot) << 32 | u64::from(before);
            stack::copy(event::kind::CREATOR, id, 0, weight, bpf_ktime_get_ns());
        }
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
