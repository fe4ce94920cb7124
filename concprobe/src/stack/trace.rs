//! A captured stack and what unwinding made of it.

use std::fmt;

use super::Registers;

/// What the kernel copied of a thread that went to sleep.
#[derive(Debug, Clone, Copy)]
pub struct Capture<'a> {
    /// The process, as seen from the PID namespace of this one.
    pub pid: i32,
    /// When, on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The thread's user registers.
    pub registers: Registers,
    /// The bytes from the stack pointer upwards.
    pub stack: &'a [u8],
}

impl Capture<'_> {
    /// The word at an address of the stack, if it was copied.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let start = usize::try_from(address.checked_sub(self.registers.sp)?).ok()?;
        let bytes = self.stack.get(start..start.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Whether the address lies in the part of the stack above the copied one; a mebibyte further it is
    /// rather no address of this stack at all.
    pub(super) fn is_cut_off(&self, address: u64) -> bool {
        let end = self.registers.sp.saturating_add(self.stack.len() as u64);
        (end.saturating_sub(7)..end.saturating_add(1 << 20)).contains(&address)
    }
}

/// The addresses of the calls that led to a sleep, innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The instruction pointer, then return addresses.
    pub addresses: Vec<u64>,
    /// Why there are no more.
    pub end: End,
}

/// Why unwinding stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The function in which the thread began was reached.
    Complete,
    /// The stack goes on beyond the bytes that were copied.
    Truncated,
    /// The code has no unwind information, and following frame pointers led nowhere.
    NoUnwindInfo {
        /// The file or memory that the code lies in.
        mapping: String,
        /// What is known about the cause.
        reason: String,
    },
    /// A return address lies in no code that is known to have been mapped.
    MappingUnknown {
        /// The address, which is not among those of the trace unless it is the instruction pointer.
        address: u64,
    },
    /// The copied bytes contradict the unwind information.
    Broken {
        /// What was found.
        reason: String,
    },
    /// There are more frames than are followed.
    TooDeep,
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => formatter.write_str("complete"),
            Self::Truncated => formatter.write_str("cut off: the copied part of the stack ends here"),
            Self::NoUnwindInfo { mapping, reason } => {
                write!(formatter, "no way on from {mapping}: {reason}")
            }
            Self::MappingUnknown { address } => {
                write!(formatter, "no way on: no code is known at {address:#x}")
            }
            Self::Broken { reason } => write!(formatter, "no way on: {reason}"),
            Self::TooDeep => formatter.write_str("cut off: too many frames"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_inside_the_copy_and_nowhere_else() {
        let stack: Vec<u8> = (1..=16).collect();
        let registers = Registers { sp: 0x1000, ..Registers::default() };
        let capture = Capture { pid: 1, time_ns: 0, registers, stack: &stack };
        assert_eq!(capture.word(0x1000), Some(0x0807_0605_0403_0201));
        assert_eq!(capture.word(0x1008), Some(0x100f_0e0d_0c0b_0a09));
        assert_eq!(capture.word(0x1009), None);
        assert_eq!(capture.word(0xfff), None);
        assert_eq!(capture.word(u64::MAX), None);
        assert!(capture.is_cut_off(0x1009) && capture.is_cut_off(0x1010));
        assert!(!capture.is_cut_off(0x1008) && !capture.is_cut_off(u64::MAX));
    }
}
