//! Reading arguments, records and kernel structures at offsets that are constants for the verifier.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_current_task_btf, bpf_task_pt_regs},
    programs::TracePointContext,
};

use crate::maps::config;

/// Reads a field of a kernel structure to which the verifier knows the type (a BTF pointer).
///
/// # Safety
/// `base` must come from a BTF tracepoint or a helper that returns a BTF pointer, `offset` from BTF.
#[inline(always)]
pub unsafe fn field<T: Copy>(base: *const c_void, offset: u32) -> T {
    // SAFETY: by the contract above; the verifier checks every such access again.
    unsafe { core::ptr::read_volatile(base.byte_add(offset as usize).cast()) }
}

/// Reads a field of a classic tracepoint's record; 0 if the kernel refuses. Through the helper, since the
/// verifier allows no direct read at an offset that the compiler did not know.
///
/// # Safety
/// `offset` must come from the tracepoint's `format` file.
#[inline(always)]
pub unsafe fn record<T: Copy + Default>(context: &TracePointContext, offset: u32) -> T {
    // SAFETY: by the contract above; the helper checks the address.
    unsafe { context.read_at(offset as usize) }.unwrap_or_default()
}

/// Thread id of the running thread, in the initial PID namespace.
#[inline(always)]
pub fn current_tid() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

/// Process id of the running thread, in the initial PID namespace.
#[inline(always)]
pub fn current_tgid() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

/// The system call that the running thread is in, and its first two arguments, from its saved registers.
/// Outside a system call the number is whatever the exception left there. Needs `has_task_pt_regs`.
#[inline(always)]
pub fn saved_call() -> (u32, u64, u64) {
    // SAFETY: the helpers have no preconditions, and the offsets are those of this architecture.
    unsafe {
        let task = bpf_get_current_task_btf();
        let regs = bpf_task_pt_regs(task) as *const c_void;
        (
            field::<u32>(regs, config!(regs_nr)),
            field::<u64>(regs, config!(regs_arg0)),
            field::<u64>(regs, config!(regs_arg1)),
        )
    }
}
