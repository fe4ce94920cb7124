//! Reading arguments, records and kernel structures at offsets that are constants for the verifier.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_current_task_btf, bpf_probe_read_kernel, bpf_task_pt_regs},
    programs::TracePointContext,
};

use concprobe_common::{config::ABSENT, futex, site::NO_CALL};

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

/// A word of kernel memory; 0 if it cannot be read. The address is a plain number to the verifier, which
/// therefore allows any arithmetic.
///
/// # Safety
/// `address` must be that of a `T` in the kernel's memory; the helper checks that it can be read.
#[inline(always)]
unsafe fn word<T: Copy + Default>(address: u64) -> T {
    // SAFETY: by the contract above.
    unsafe { bpf_probe_read_kernel(address as *const T) }.unwrap_or_default()
}

/// How deep the PID namespace is nested that a thread lives in.
///
/// # Safety
/// `task` must be a `task_struct`.
#[inline(always)]
pub unsafe fn level_of(task: *const c_void) -> u32 {
    // SAFETY: by the contract above, and the offsets come from this kernel's BTF.
    unsafe {
        let pid: u64 = word(task as u64 + u64::from(config!(task_thread_pid)));
        word(pid + u64::from(config!(pid_level)))
    }
}

/// The number of a thread in a PID namespace so many levels deep; 0 if it has none there.
///
/// # Safety
/// `task` must be a `task_struct`.
#[inline(always)]
pub unsafe fn own_number(task: *const c_void, level: u32) -> u32 {
    // SAFETY: by the contract above, and the offsets come from this kernel's BTF.
    unsafe {
        if level_of(task) < level {
            return 0;
        }
        let pid: u64 = word(task as u64 + u64::from(config!(task_thread_pid)));
        let numbers = pid + u64::from(config!(pid_numbers));
        word(numbers + u64::from(level) * u64::from(config!(upid_size)))
    }
}

/// A system call of the running thread.
pub struct Call {
    /// Its number, or [`NO_CALL`].
    pub number: u32,
    /// It is one of the 32-bit table.
    pub compat: bool,
    /// What it is of the futex family, if anything.
    pub futex: Option<futex::Operation>,
    /// Its first arguments.
    pub arguments: [u64; 4],
}

impl Call {
    /// A call of this number and arguments.
    #[inline(always)]
    pub fn new(number: u32, compat: bool, arguments: [u64; 4]) -> Self {
        let op = arguments[1] as u32;
        let futex = if compat {
            futex::of_compat_call(number, op)
        } else {
            futex::of_call(number, config!(nr_futex), op)
        };
        Self { number, compat, futex, arguments }
    }

    /// The call with these registers.
    ///
    /// # Safety
    /// `regs` must be a `pt_regs` of which the verifier knows.
    #[inline(always)]
    pub unsafe fn of_registers(number: u32, regs: *const c_void) -> Self {
        let compat = is_compat();
        // SAFETY: by the contract above, and the offsets are those of this architecture.
        let arguments = unsafe {
            if compat {
                [
                    field::<u64>(regs, config!(regs_compat_arg0)) & 0xffff_ffff,
                    field::<u64>(regs, config!(regs_compat_arg1)),
                    field::<u64>(regs, config!(regs_compat_arg2)),
                    field::<u64>(regs, config!(regs_compat_arg3)) & 0xffff_ffff,
                ]
            } else {
                [
                    field(regs, config!(regs_arg0)),
                    field(regs, config!(regs_arg1)),
                    field(regs, config!(regs_arg2)),
                    field(regs, config!(regs_arg3)),
                ]
            }
        };
        Self::new(number, compat, arguments)
    }

    /// The call that the running thread is in, from its saved registers. Needs `has_task_pt_regs`.
    #[inline(always)]
    pub fn saved() -> Self {
        // SAFETY: the helpers have no preconditions, and the offsets are those of this architecture.
        unsafe {
            let regs = bpf_task_pt_regs(bpf_get_current_task_btf()) as *const c_void;
            let number = field::<u64>(regs, config!(regs_nr));
            if number.cast_signed() < 0 {
                return Self { number: NO_CALL, compat: false, futex: None, arguments: [0; 4] };
            }
            Self::of_registers(number as u32, regs)
        }
    }
}

/// `TS_COMPAT` of `arch/x86/include/asm/thread_info.h`.
const TS_COMPAT: u32 = 2;

/// Whether the running thread is in a call of the 32-bit table.
#[inline(always)]
pub fn is_compat() -> bool {
    if config!(task_status) == ABSENT {
        return false;
    }
    // SAFETY: the helper has no preconditions, and the offset comes from this kernel's BTF.
    unsafe {
        let task = bpf_get_current_task_btf() as *const c_void;
        field::<u32>(task, config!(task_status)) & TS_COMPAT != 0
    }
}
