//! Hook: `task_rename`. Feeds: the names of threads. Depth: *switches*. Linux 5.10.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext as _,
    helpers::bpf_probe_read_kernel_str_bytes,
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};

use crate::{
    maps::config,
    probes::context::{field, record},
    thread,
};

#[btf_tracepoint(function = "task_rename")]
pub fn rename_btf(context: BtfTracePointContext) -> i32 {
    let task: *const c_void = context.arg(0);
    let name: *const u8 = context.arg(1);
    // SAFETY: a `task_struct`, and the offset comes from this kernel's BTF.
    renamed(unsafe { field(task, config!(task_pid)) }, name);
    0
}

#[tracepoint]
pub fn rename_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offsets come from the tracepoint's format.
    unsafe {
        let name = context.as_ptr().byte_add(config!(rename_newcomm) as usize);
        renamed(record(&context, config!(rename_pid)), name.cast());
    }
    0
}

#[inline(always)]
fn renamed(tid: u32, name: *const u8) {
    let Some(block) = thread::block_of(tid) else { return };
    // SAFETY: `block` points into the map; two renamings of a thread at the same time leave one of the names.
    // The helper checks the address of the name.
    unsafe {
        if (*block).renames == 0 {
            (*block).first_name = (*block).name;
        }
        (*block).renames += 1;
        (*block).name = [0; 16];
        let _ = bpf_probe_read_kernel_str_bytes(name, &mut (*block).name);
    }
}
