//! Hook: `sys_enter`, attached only while threads announce themselves. Feeds: the table of tracked
//! threads. Linux 5.10. A thread announces itself by `getppid` with spare arguments (session, cookie): it
//! is bound on the spot, so there is no race, and no thread id passes between PID namespaces.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_smp_processor_id, generated::bpf_ktime_get_ns},
    macros::{btf_tracepoint, tracepoint},
    programs::{BtfTracePointContext, TracePointContext},
};
use aya_log_ebpf::debug;
use concprobe_common::block::{keep, place};

use crate::{
    maps::{BLOCKS, config},
    probes::context::{current_tgid, current_tid, field, record},
    thread,
};

#[btf_tracepoint(function = "sys_enter")]
pub fn announce_btf(context: BtfTracePointContext) -> i32 {
    let regs: *const c_void = context.arg(0);
    let nr: u64 = context.arg(1);
    if nr as u32 == config!(nr_announce) {
        // SAFETY: the `pt_regs` of this call, and the offsets are those of this architecture.
        let (session, cookie) =
            unsafe { (field::<u64>(regs, config!(regs_arg0)), field::<u64>(regs, config!(regs_arg1))) };
        announced(&context, session, cookie);
    }
    0
}

#[tracepoint]
pub fn announce_classic(context: TracePointContext) -> u32 {
    // SAFETY: the offsets come from the tracepoint's format; `args` is an array of words.
    unsafe {
        if record::<u32>(&context, config!(enter_id)) == config!(nr_announce) {
            let session = record::<u64>(&context, config!(enter_args));
            let cookie = record::<u64>(&context, config!(enter_args) + 8);
            announced(&context, session, cookie);
        }
    }
    0
}

#[inline(always)]
fn announced(context: &impl EbpfContext, session: u64, cookie: u64) {
    if session != config!(session) {
        return;
    }
    let tid = current_tid();
    // A thread whose creator had announced itself is tracked already: it only gets its cookie.
    let block = match thread::slot_of(tid) {
        Some(slot) => BLOCKS.get_ptr_mut(slot),
        None => thread::track(tid).map(|(_, block)| block),
    };
    let Some(block) = block else { return };
    thread::remember(tid, thread::slot_of(tid));
    debug!(context, "thread {} announced itself as {}", tid, cookie);
    // SAFETY: `block` points into the map and is the running thread's.
    unsafe {
        let now = bpf_ktime_get_ns();
        (*block).tgid = current_tgid();
        (*block).keep = keep::FOR_READER;
        if (*block).place != place::RUNNING {
            (*block).place = place::RUNNING;
            (*block).started_ns = now;
            (*block).since_ns = now;
            (*block).cpu = bpf_get_smp_processor_id();
        }
        if config!(tracing) != 0 {
            (*block).keep = keep::UNTIL_EXEC;
        }
        (*block).cookie = cookie;
    }
}
