//! Copies of the running thread's registers and user stack into the ring buffer, to be unwound outside: most
//! programs have no frame pointers.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{
        bpf_get_current_comm, bpf_get_current_task_btf, bpf_task_pt_regs,
        generated::{bpf_get_prandom_u32, bpf_probe_read_kernel, bpf_probe_read_user},
    },
};
use concprobe_common::{
    block::Loss,
    config::ABSENT,
    event::{self, RING_BYTES, STACK_BYTES, SleepEnd, StackCopy},
};

use crate::{
    maps::{EVENTS, config},
    probes::context::{current_tgid, current_tid, field, own_number},
    record::lose,
    thread,
};

/// What one helper call copies of a stack; a chunk that is not all there is tried in halves, quarters and
/// eighths. Each further branch doubles the verifier's work.
const CHUNK: usize = 2048;
/// The least part that is tried.
const LEAST: usize = CHUNK / 8;

/// For how many like it a copy would stand that is made of one in so many; 0 if this one is not to be copied.
#[inline(always)]
pub fn chosen(one_in: u32) -> u32 {
    // SAFETY: the helper has no preconditions.
    if one_in == 1 || unsafe { bpf_get_prandom_u32() } & (one_in - 1) == 0 { one_in } else { 0 }
}

/// Copies the running thread's stack. `kind` is one of [`event::kind`].
#[inline(always)]
pub fn copy(kind: u32, id: u64, site: u32, weight: u32, now: u64) {
    let Some(mut entry) = EVENTS.reserve::<StackCopy>(0) else {
        lose(Loss::NoStack);
        return;
    };
    let record = entry.as_mut_ptr();
    // SAFETY: `record` is reserved memory of that size; the registers are those of the running thread, and
    // the helpers check every address.
    unsafe {
        (*record).kind = kind;
        (*record).id = id;
        (*record).time_ns = now;
        (*record).tid = current_tid();
        (*record).own_tgid = own_tgid();
        (*record).site = site;
        (*record).weight = weight;
        (*record).name = bpf_get_current_comm().unwrap_or_default();
        let regs = bpf_task_pt_regs(bpf_get_current_task_btf()) as *const c_void;
        bpf_probe_read_kernel((&raw mut (*record).registers).cast(), config!(regs_words) * 8, regs);
        let sp: u64 = field(regs, config!(regs_sp));
        (*record).length = copy_stack(&raw mut (*record).stack, sp);
        if (*record).length == 0 {
            lose(Loss::UnreadStack);
        }
    }
    entry.submit(wake_up());
}

/// The running thread's process, as the user side calls it.
#[inline(always)]
fn own_tgid() -> u32 {
    let level = thread::level();
    if level == 0 || config!(task_thread_pid) == ABSENT {
        return current_tgid();
    }
    // SAFETY: the helper has no preconditions, and the offsets come from this kernel's BTF.
    unsafe {
        let task = bpf_get_current_task_btf() as *const c_void;
        own_number(field(task, config!(task_group_leader)), level)
    }
}

/// The reader looks by itself from time to time: it is woken only when the buffer fills.
#[inline(always)]
fn wake_up() -> u64 {
    if EVENTS.query(u64::from(BPF_RB_AVAIL_DATA)) > u64::from(RING_BYTES / 8) {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        u64::from(BPF_RB_NO_WAKEUP)
    }
}

/// Copies as much as there is, and says how much.
#[inline(always)]
unsafe fn copy_stack(stack: *mut [u8; STACK_BYTES], sp: u64) -> u32 {
    let mut length = 0;
    while length < STACK_BYTES {
        // SAFETY: the range lies within `stack`; the helper checks the user's address.
        if !unsafe { copy_part(stack, length, CHUNK, sp) } {
            break;
        }
        length += CHUNK;
    }
    let mut size = CHUNK / 2;
    while size >= LEAST && length < STACK_BYTES {
        // SAFETY: as above: less than a chunk is left of one that was not all there.
        if unsafe { copy_part(stack, length, size, sp) } {
            length += size;
        }
        size /= 2;
    }
    length as u32
}

/// Copies a part of the stack, if all of it is there.
///
/// # Safety
/// The part must lie within `stack`.
#[inline(always)]
unsafe fn copy_part(stack: *mut [u8; STACK_BYTES], from: usize, size: usize, sp: u64) -> bool {
    // SAFETY: by the contract above; the helper checks the user's address.
    unsafe {
        let to = (*stack).as_mut_ptr().add(from);
        bpf_probe_read_user(to.cast(), size as u32, (sp + from as u64) as *const c_void) == 0
    }
}

/// Says how long the sleep of that number took.
#[inline(always)]
pub fn sleep_ended(id: u64, blocked_ns: u64, run_queue_ns: u64) {
    let Some(mut entry) = EVENTS.reserve::<SleepEnd>(0) else {
        lose(Loss::NoStack);
        return;
    };
    entry.write(SleepEnd { kind: event::kind::SLEEP_END, reserved: 0, id, blocked_ns, run_queue_ns });
    entry.submit(u64::from(BPF_RB_NO_WAKEUP));
}
