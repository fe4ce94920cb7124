//! What goes through the ring buffer: copies of stacks, of a few sleeps only, and how long those took.

/// Words of the saved registers that are copied; more than any architecture's `pt_regs` has.
pub const REGISTERS: usize = 36;
/// Bytes of the user stack that are copied at most, from the stack pointer upwards.
pub const STACK_BYTES: usize = 16 * 1024;
/// Size of the ring buffer.
pub const RING_BYTES: u32 = 8 * 1024 * 1024;

/// What an event tells, in its first word.
pub mod kind {
    /// A [`super::StackCopy`] of a thread that goes to sleep.
    pub const SLEEPER: u32 = 1;
    /// A [`super::StackCopy`] of the thread that wakes that sleeper.
    pub const WAKER: u32 = 2;
    /// A [`super::StackCopy`] of a thread that creates another.
    pub const CREATOR: u32 = 3;
    /// A [`super::SleepEnd`].
    pub const SLEEP_END: u32 = 4;
}

/// Registers and stack of a thread inside a system call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StackCopy {
    /// One of [`kind`].
    pub kind: u32,
    /// Bytes of `stack` that were read.
    pub length: u32,
    /// Number of the sleep; of a waker, that of the sleep that it ended.
    pub id: u64,
    /// When, `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Thread id in the initial PID namespace.
    pub tid: u32,
    /// Process id in the PID namespace of the user side.
    pub own_tgid: u32,
    /// Index of the site, of a sleeper.
    pub site: u32,
    /// For how many like it this one stands.
    pub weight: u32,
    /// Name of the thread.
    pub name: [u8; 16],
    /// Saved user registers, as the kernel's `pt_regs` has them.
    pub registers: [u64; REGISTERS],
    /// User stack from the stack pointer upwards.
    pub stack: [u8; STACK_BYTES],
}

/// The end of a sleep whose stack was copied.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SleepEnd {
    /// [`kind::SLEEP_END`].
    pub kind: u32,
    /// Keeps the size explicit.
    pub reserved: u32,
    /// Number of the sleep.
    pub id: u64,
    /// How long it was blocked.
    pub blocked_ns: u64,
    /// How long it then waited for a CPU.
    pub run_queue_ns: u64,
}

/// One of how many sleeps of a thread at a site has its stack copied, after `before` earlier ones: each of
/// the first few, then ever rarer, as a power of two.
#[must_use]
#[inline(always)]
pub const fn one_in(before: u32) -> u32 {
    if before < 4 { 1 } else { 1 << (29 - before.leading_zeros()) }
}

/// The same over all threads of a site, after so many copies there: so many threads sleep at some sites that
/// the first sleeps of each would be too many.
#[must_use]
#[inline(always)]
pub const fn one_in_crowd(copies: u64) -> u32 {
    let copies = if copies > u32::MAX as u64 { u32::MAX } else { copies as u32 };
    one_in(copies / 16)
}

const _: () = assert!(size_of::<StackCopy>() == 56 + 8 * REGISTERS + STACK_BYTES);
const _: () = assert!(size_of::<SleepEnd>() == 32);

#[cfg(test)]
mod tests {
    use super::{one_in, one_in_crowd};

    #[test]
    fn of_a_crowd_few_are_copied() {
        for (copies, expected) in [(0, 1), (64, 1), (127, 1), (128, 2), (12_000, 128), (u64::MAX, 1 << 25)] {
            assert_eq!(one_in_crowd(copies), expected, "{copies}");
        }
    }

    #[test]
    fn stacks_are_copied_ever_rarer() {
        for (before, expected) in [
            (0, 1),
            (3, 1),
            (4, 1),
            (7, 1),
            (8, 2),
            (15, 2),
            (16, 4),
            (1 << 31, 1 << 29),
            (u32::MAX, 1 << 29),
        ] {
            assert_eq!(one_in(before), expected, "{before}");
        }
    }
}
