//! Hook: `sched_process_exec`. Feeds: the identity of a thread that took over its leader's id.
//! Depth: *switches*. Linux 5.10.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_current_comm, bpf_get_smp_processor_id, generated::bpf_ktime_get_ns},
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use aya_log_ebpf::debug;
use concprobe_common::block::{Block, Loss, keep, place};

use crate::{
    maps::{BLOCKS, TASKS, config},
    probes::context::{field, record},
    record::lose,
    site, thread,
};

#[btf_tracepoint(function = "sched_process_exec")]
pub fn exec_btf(context: BtfTracePointContext) -> i32 {
    let task: *const c_void = context.arg(0);
    let old_tid: u64 = context.arg(1);
    // SAFETY: a `task_struct`, and the offset comes from this kernel's BTF.
    executed(&context, unsafe { field(task, config!(task_pid)) }, old_tid as u32);
    0
}

#[tracepoint]
pub fn exec_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offsets come from the tracepoint's format.
    let (tid, old_tid) = unsafe {
        (record::<u32>(&context, config!(exec_pid)), record::<u32>(&context, config!(exec_old_pid)))
    };
    executed(&context, tid, old_tid);
    0
}

/// The command that was held begins: from here on everything counts, and nothing before.
#[inline(always)]
fn begin(block: *mut Block, now: u64) {
    // SAFETY: `block` points into the map and is the running thread's; the helpers have no preconditions.
    unsafe {
        let (tid, tgid) = ((*block).tid, (*block).tgid);
        *block = Block::EMPTY;
        (*block).tid = tid;
        (*block).tgid = tgid;
        (*block).place = place::RUNNING;
        (*block).started_ns = now;
        (*block).since_ns = now;
        (*block).kernel_since_ns = now;
        (*block).cpu = bpf_get_smp_processor_id();
        (*block).recording = 1;
        (*block).name = bpf_get_current_comm().unwrap_or_default();
    }
}

/// A thread that is not the leader and executes takes the leader's id: its record moves there, and the
/// leader's, whose end was not seen under its own id, is closed.
#[inline(always)]
fn executed(context: &impl EbpfContext, tid: u32, old_tid: u32) {
    if thread::over() {
        return;
    }
    if config!(tracing) != 0
        && let Some(block) = thread::block_of(old_tid)
    {
        // SAFETY: `block` points into the map and is the running thread's; the helper has no preconditions.
        unsafe {
            let now = bpf_ktime_get_ns();
            if (*block).keep == keep::UNTIL_EXEC {
                begin(block, now);
            }
            (*block).space = thread::new_space((*block).tgid, now);
        }
        site::forget(block);
    }
    if tid == old_tid {
        return;
    }
    let Some(slot) = thread::slot_of(old_tid) else { return };
    debug!(context, "thread {} executed as {}", old_tid, tid);
    if let Some(leader_slot) = thread::slot_of(tid)
        && let Some(leader) = BLOCKS.get_ptr_mut(leader_slot)
    {
        // SAFETY: the helper has no preconditions.
        thread::ended(tid, leader_slot, leader, unsafe { bpf_ktime_get_ns() });
    }
    thread::remember(tid, Some(slot));
    let _ = TASKS.remove(old_tid);
    if TASKS.insert(tid, slot, 0).is_err() {
        lose(Loss::TableFull);
    } else if let Some(block) = BLOCKS.get_ptr_mut(slot) {
        // SAFETY: `block` points into the map and is the running thread's.
        unsafe { (*block).tid = tid };
    }
}
