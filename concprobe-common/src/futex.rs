//! Which futex call waits, wakes or does something else, and what became of a wait.

/// What a futex call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// May sleep on a futex word.
    Wait,
    /// Wakes, or moves waiters to another word.
    Wake,
    /// Acquires a priority-inheritance lock; may sleep.
    LockPi,
    /// Releases one.
    UnlockPi,
    /// Anything else, also unknown numbers.
    Other,
}

impl Operation {
    /// The operation sleeps when it cannot go on at once.
    #[must_use]
    pub const fn is_wait(self) -> bool {
        matches!(self, Self::Wait | Self::LockPi)
    }

    /// The operation may let another thread go on.
    #[must_use]
    pub const fn is_wake(self) -> bool {
        matches!(self, Self::Wake | Self::UnlockPi)
    }
}

/// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`, which are not part of the command.
const FLAGS: u32 = 128 | 256;

/// Decodes the `op` argument of `futex(2)`. Source: `include/uapi/linux/futex.h`.
#[must_use]
pub const fn operation(op: u32) -> Operation {
    match op & !FLAGS {
        0 | 9 | 11 => Operation::Wait,              // WAIT, WAIT_BITSET, WAIT_REQUEUE_PI
        1 | 3 | 4 | 5 | 10 | 12 => Operation::Wake, // WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAKE_BITSET, CMP_REQUEUE_PI
        6 | 8 | 13 => Operation::LockPi,            // LOCK_PI, TRYLOCK_PI, LOCK_PI2
        7 => Operation::UnlockPi,
        _ => Operation::Other,
    }
}

/// Decodes the system call: `futex(2)` by its `op` argument, the newer calls by their number, which is the
/// same on every architecture. `None` for a call that is no futex call.
#[must_use]
pub const fn of_call(nr: u32, nr_futex: u32, op: u32) -> Option<Operation> {
    match nr {
        449 | 455 => Some(Operation::Wait), // futex_waitv, futex_wait
        454 | 456 => Some(Operation::Wake), // futex_wake, futex_requeue
        _ if nr == nr_futex => Some(operation(op)),
        _ => None,
    }
}

/// The same for the 32-bit table of x86-64: `futex` is 240 there, `futex_time64` 422.
#[must_use]
pub const fn of_compat_call(nr: u32, op: u32) -> Option<Operation> {
    match nr {
        240 | 422 => Some(operation(op)),
        449 | 455 => Some(Operation::Wait),
        454 | 456 => Some(Operation::Wake),
        _ => None,
    }
}

/// What became of a futex wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// Woken, or the lock was had.
    Woken,
    /// `EAGAIN`: the value had changed, it never slept.
    Again,
    /// `ETIMEDOUT`.
    TimedOut,
    /// A signal came; the kernel's restart codes (`ERESTARTSYS`, `ERESTART_RESTARTBLOCK`) or `EINTR`.
    Interrupted,
    /// Another error.
    Failed,
}

/// Classifies the value that a futex wait returned at the exit tracepoint.
#[must_use]
pub const fn wait_end(returned: i64) -> WaitEnd {
    match returned {
        0.. => WaitEnd::Woken,
        -11 => WaitEnd::Again,
        -110 => WaitEnd::TimedOut,
        -4 | -516..=-512 => WaitEnd::Interrupted,
        _ => WaitEnd::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_not_part_of_the_command() {
        for (op, expected) in [
            (128, Operation::Wait),
            (393, Operation::Wait),
            (265, Operation::Wait),
            (129, Operation::Wake),
            (134, Operation::LockPi),
            (135, Operation::UnlockPi),
            (99, Operation::Other),
        ] {
            assert_eq!(operation(op), expected, "{op}");
        }
    }

    #[test]
    fn the_family_is_told_by_number() {
        assert_eq!(of_call(202, 202, 128), Some(Operation::Wait));
        assert_eq!(of_call(454, 202, 0), Some(Operation::Wake));
        assert_eq!(of_call(455, 202, 1), Some(Operation::Wait));
        assert_eq!(of_call(0, 202, 0), None);
    }

    #[test]
    fn restart_codes_are_interruptions() {
        for (returned, expected) in [
            (0, WaitEnd::Woken),
            (-11, WaitEnd::Again),
            (-110, WaitEnd::TimedOut),
            (-4, WaitEnd::Interrupted),
            (-512, WaitEnd::Interrupted),
            (-516, WaitEnd::Interrupted),
            (-22, WaitEnd::Failed),
            (i64::MIN, WaitEnd::Failed),
        ] {
            assert_eq!(wait_end(returned), expected, "{returned}");
        }
    }
}
