//! Hook: uprobes at the lock functions of the C library, for a slice of the time. Feeds: how often each is
//! called. Linux 5.15, for the attachment's cookie, which is the number of the function.

use aya_ebpf::{
    EbpfContext as _,
    helpers::{bpf_get_smp_processor_id, generated::bpf_get_attach_cookie},
    macros::uprobe,
    programs::ProbeContext,
};
use concprobe_common::lock_calls::FUNCTIONS;

use crate::{maps::LOCK_CALLS, thread};

#[uprobe]
pub fn lock_call(context: ProbeContext) -> u32 {
    if thread::slot_of_current().is_none() {
        return 0;
    }
    // SAFETY: the context is this program's, and the helper has no other preconditions.
    let (function, cpu) = unsafe { (bpf_get_attach_cookie(context.as_ptr()), bpf_get_smp_processor_id()) };
    let rows = FUNCTIONS.len() as u32;
    if function >= u64::from(rows) {
        return 0;
    }
    if let Some(calls) = LOCK_CALLS.get_ptr_mut(cpu * rows + function as u32) {
        // SAFETY: `calls` points into the map and is this CPU's own.
        unsafe { *calls += 1 };
    }
    0
}
