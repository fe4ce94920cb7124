//! Hook: the task iterator, read by the user side when it lives in a PID namespace of its own, where `/proc`
//! does not tell the kernel's own ids. Feeds: the ids of every thread that the namespace shows. Linux 5.11.

use core::ffi::c_void;

use aya_ebpf::helpers::{bpf_get_current_task_btf, generated::bpf_seq_write};
use concprobe_common::block::Ids;

use crate::{
    maps::config,
    probes::context::{field, level_of, own_number},
};

/// What the kernel calls the program with: `struct bpf_iter__task` of `kernel/bpf/task_iter.c`.
#[repr(C)]
struct Element {
    /// `struct bpf_iter_meta`, whose first field is the file to write to.
    meta: *const c_void,
    task: *const c_void,
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub extern "C" fn list(element: *const c_void) -> i32 {
    // SAFETY: the kernel passes such an element; the offsets come from its BTF, and the verifier checks each
    // access again.
    unsafe {
        let task: *const c_void = field(element, core::mem::offset_of!(Element, task) as u32);
        if task.is_null() {
            return 0;
        }
        let meta: *const c_void = field(element, core::mem::offset_of!(Element, meta) as u32);
        let file: *const c_void = field(meta, 0);
        let reader = bpf_get_current_task_btf() as *const c_void;
        let level = level_of(reader);
        let ids = Ids {
            tid: field(task, config!(task_pid)),
            tgid: field(task, config!(task_tgid)),
            own_tid: own_number(task, level),
            level,
        };
        bpf_seq_write(file.cast_mut().cast(), (&raw const ids).cast(), size_of::<Ids>() as u32);
    }
    0
}
