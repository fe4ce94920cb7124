//! Names of system calls.

use concprobe_common::site::NO_CALL;

/// The name of the call of that number, of the 32-bit table where `compat` says so; a number that the table
/// does not have stays one.
pub fn name(number: u32, compat: bool) -> String {
    if number == NO_CALL {
        return "outside a system call".to_owned();
    }
    let found = if compat {
        syscalls::x86::Sysno::new(number as usize).map(|call| call.name())
    } else {
        syscalls::Sysno::new(number as usize).map(|call| call.name())
    };
    found.map_or_else(|| format!("nr {number}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_its_own_numbers() {
        let futex = u32::try_from(libc::SYS_futex).unwrap();
        assert_eq!(name(futex, false), "futex");
        assert_eq!((name(20, true), name(240, true)), ("getpid".to_owned(), "futex".to_owned()));
        assert_eq!(name(5000, false), "nr 5000");
        assert_eq!(name(NO_CALL, false), "outside a system call");
    }
}
