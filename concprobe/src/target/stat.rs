//! Reads `/proc/PID/stat`, the one line that tells name, state, kind and start of a process or thread
//! (kernel: Documentation/filesystems/proc.rst, table 1-4).

use std::io;

/// `PF_KTHREAD` in the kernel's `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub name: String,
    pub state: char,
    flags: u64,
    /// Clock ticks from the machine's start to its own.
    pub start_ticks: u64,
}

impl Stat {
    /// Of a process (`"12"`) or a thread (`"12/task/13"`).
    pub fn read(whose: &str) -> io::Result<Self> {
        let bytes = std::fs::read(format!("/proc/{whose}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&bytes))
            .ok_or_else(|| io::Error::other(format!("/proc/{whose}/stat has unexpected content")))
    }

    fn parse(line: &str) -> Option<Self> {
        // The name may contain anything, parentheses too.
        let (before, after) = line.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        // The first of these is field 3.
        let number = |field: usize| fields.get(field - 3)?.parse().ok();
        Some(Self {
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            flags: number(9)?,
            start_ticks: number(22)?,
        })
    }

    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// It is a zombie, or about to be nothing at all.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "1 2 2 0 -1 4194560 98 0 0 0 0 1 0 0 20 0 1 0 123456 4096 5";

    #[test]
    fn a_name_may_contain_anything() {
        for name in ["cat", "a b", ") S 1 (", "(", "", "x\ny"] {
            let stat = Stat::parse(&format!("12 ({name}) S {REST}\n")).unwrap();
            assert_eq!((stat.name.as_str(), stat.state, stat.start_ticks), (name, 'S', 123_456));
            assert!(!stat.is_kernel_thread());
        }
    }

    #[test]
    fn a_line_cut_short_is_no_answer() {
        for line in ["", "12", "12 (cat", "12 (cat)", "12 (cat) S 1 2 2 0 -1 4194560 98"] {
            assert_eq!(Stat::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn kernel_threads_and_zombies_are_known_by_flag_and_state() {
        let stat = Stat::parse(&format!("2 (kthreadd) S {}", REST.replace("4194560", "2129984"))).unwrap();
        assert!(stat.is_kernel_thread() && !stat.has_ended());
        assert!(Stat::parse(&format!("3 (sh) Z {REST}")).unwrap().has_ended());
    }
}
