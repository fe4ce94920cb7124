//! The user registers that unwinding starts from, out of the words of the kernel's `pt_regs`.

/// Where a thread was in user space. Only what unwinding on this architecture can use: the tables that
/// compilers write find the other registers by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// The address of the next instruction.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer (`rbp`, `x29`), which may hold anything in code that has none.
    pub frame: u64,
    /// The return address of a leaf function (`x30`); 0 where the call puts it on the stack.
    pub link: u64,
}

impl Registers {
    /// Takes the registers from the words of `struct pt_regs` of this architecture (Linux,
    /// `arch/*/include/uapi/asm/ptrace.h`); `None` if there are too few words.
    #[must_use]
    pub fn from_kernel(words: &[u64]) -> Option<Self> {
        let word = |index: usize| words.get(index).copied();
        if cfg!(target_arch = "x86_64") {
            Some(Self { ip: word(16)?, sp: word(19)?, frame: word(4)?, link: 0 })
        } else if cfg!(target_arch = "aarch64") {
            Some(Self { ip: word(32)?, sp: word(31)?, frame: word(29)?, link: word(30)? })
        } else {
            None
        }
    }

    /// The same for the unwinding library.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn native(&self) -> framehop::UnwindRegsNative {
        framehop::UnwindRegsNative::new(self.ip, self.sp, self.frame)
    }

    /// The same for the unwinding library, which takes the signatures off return addresses.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn native(&self) -> framehop::UnwindRegsNative {
        let mask = framehop::aarch64::PtrAuthMask(ADDRESS_BITS);
        framehop::UnwindRegsNative::new_with_ptr_auth_mask(mask, self.link, self.sp, self.frame)
    }
}

/// The bits of a code address: on aarch64 those above may hold a signature (pointer authentication, which
/// Linux puts above the 48 bits that user space has unless it asks for more).
pub(super) const ADDRESS_BITS: u64 = if cfg!(target_arch = "aarch64") { (1 << 48) - 1 } else { u64::MAX };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_is_taken_from_its_place() {
        let words: Vec<u64> = (100..140).collect();
        let registers = Registers::from_kernel(&words).unwrap();
        if cfg!(target_arch = "x86_64") {
            assert_eq!(registers, Registers { ip: 116, sp: 119, frame: 104, link: 0 });
        } else {
            assert_eq!(registers, Registers { ip: 132, sp: 131, frame: 129, link: 130 });
        }
    }

    #[test]
    fn too_few_words_give_no_registers() {
        assert_eq!(Registers::from_kernel(&[]), None);
        assert_eq!(Registers::from_kernel(&[1; 19]), None);
    }
}
