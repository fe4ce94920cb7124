//! Why a thread left its CPU, from the state that `sched_switch` reports.

/// Why a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Departure {
    /// Still runnable: preempted, or it yielded.
    Preempted,
    /// Asleep, whether interruptible, uninterruptible, stopped, traced or parked.
    Slept,
    /// Ended; it never runs again.
    Dead,
}

/// `TASK_DEAD` of `include/linux/sched.h`, in `task_struct` and in the BTF tracepoint's argument.
const TASK_DEAD: u32 = 0x80;
/// `EXIT_DEAD | EXIT_ZOMBIE`, as the record of the classic tracepoint reports a dead thread.
const EXIT_STATES: u64 = 0x10 | 0x20;
/// The states that the record reports; the bit above them says "preempted".
const REPORTED: u64 = 0xff;

/// From the kernel's own state word and the `preempt` flag, as the BTF tracepoint passes them.
#[must_use]
#[inline(always)]
pub const fn from_kernel(state: u32, preempt: bool) -> Departure {
    if state & TASK_DEAD != 0 {
        Departure::Dead
    } else if preempt || state == 0 {
        Departure::Preempted
    } else {
        Departure::Slept
    }
}

/// From `prev_state` of the classic tracepoint's record, in which the preempt flag is folded.
#[must_use]
#[inline(always)]
pub const fn from_record(state: u64) -> Departure {
    if state & EXIT_STATES != 0 {
        Departure::Dead
    } else if state & REPORTED == 0 {
        Departure::Preempted
    } else {
        Departure::Slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_states() {
        for (state, preempt, expected) in [
            (0, false, Departure::Preempted), // yield
            (0, true, Departure::Preempted),
            (1, false, Departure::Slept),
            (1, true, Departure::Preempted), // preempted on its way to sleep
            (2, false, Departure::Slept),
            (0x402, false, Departure::Slept),  // idle kernel thread
            (0x4001, false, Departure::Slept), // freezable
            (0x80, false, Departure::Dead),
        ] {
            assert_eq!(from_kernel(state, preempt), expected, "{state:#x} {preempt}");
        }
    }

    #[test]
    fn record_states() {
        for (state, expected) in [
            (0, Departure::Preempted),
            (0x100, Departure::Preempted), // "R+"
            (1, Departure::Slept),
            (2, Departure::Slept),
            (4, Departure::Slept),
            (8, Departure::Slept),
            (0x80, Departure::Slept), // idle
            (0x10, Departure::Dead),
            (0x20, Departure::Dead),
        ] {
            assert_eq!(from_record(state), expected, "{state:#x}");
        }
    }
}
