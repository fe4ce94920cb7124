//! Hook: `sched_process_exit`. Feeds: a thread's life up to its exit; the exit itself goes on until its last
//! switch, where the sums are closed. Depth: *switches*. Linux 5.10.

use aya_ebpf::{
    helpers::{bpf_get_current_comm, generated::bpf_ktime_get_ns},
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use concprobe_common::block::Counter;

use crate::{
    maps::config,
    record::{add, elapsed},
    thread,
};

#[btf_tracepoint(function = "sched_process_exit")]
pub fn end_btf(_context: BtfTracePointContext) -> i32 {
    exits();
    0
}

#[tracepoint]
pub fn end_classic(_context: TracePointContext) -> u32 {
    exits();
    0
}

/// Runs in the thread that exits.
#[inline(always)]
fn exits() {
    if let Some(block) = thread::current_block() {
        // SAFETY: `block` points into the map and is the running thread's; the helper has no preconditions.
        let (started, now) = unsafe { ((*block).started_ns, bpf_ktime_get_ns()) };
        add(block, Counter::LifeNs, elapsed(started, now));
        if config!(tracing) != 0 {
            // SAFETY: as above.
            unsafe { (*block).name = bpf_get_current_comm().unwrap_or_default() };
        }
    }
}
