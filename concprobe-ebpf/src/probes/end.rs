//! Hook: `sched_process_exit`. Feeds: how long a thread takes to exit. The sums are closed at its last
//! switch, which comes after this. Depth: *switches*. Linux 5.10.

use aya_ebpf::{
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};

use crate::{probes::context::current_tid, thread};

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
    if let Some(block) = thread::block_of(current_tid()) {
        // SAFETY: `block` points into the map and is the running thread's; the helper has no preconditions.
        unsafe { (*block).exiting_ns = bpf_ktime_get_ns() };
    }
}
