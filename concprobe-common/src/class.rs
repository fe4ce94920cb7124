//! The class of an op, decided from what the kernel counted inside it.

/// What the kernel did during an op: the first that fits, in this order of `ALL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Class {
    /// It created a thread or a process.
    Created,
    /// At least one voluntary switch.
    Slept,
    /// An involuntary switch, no voluntary one.
    Preempted,
    /// It made a system call and was never switched out.
    Kernel,
    /// It never entered the kernel.
    Fast,
}

impl Class {
    /// Every class, the strongest first.
    pub const ALL: [Self; 5] = [Self::Created, Self::Slept, Self::Preempted, Self::Kernel, Self::Fast];

    /// The word for it in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Slept => "slept",
            Self::Preempted => "preempted",
            Self::Kernel => "kernel",
            Self::Fast => "fast",
        }
    }

    /// The class of an op inside which the kernel counted this much.
    #[must_use]
    pub const fn of(created: u64, voluntary: u64, involuntary: u64, syscalls: u64) -> Self {
        if created > 0 {
            Self::Created
        } else if voluntary > 0 {
            Self::Slept
        } else if involuntary > 0 {
            Self::Preempted
        } else if syscalls > 0 {
            Self::Kernel
        } else {
            Self::Fast
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Class;

    #[test]
    fn the_first_that_fits_wins() {
        assert_eq!(Class::of(1, 1, 1, 1), Class::Created);
        assert_eq!(Class::of(0, 1, 1, 1), Class::Slept);
        assert_eq!(Class::of(0, 0, 1, 1), Class::Preempted);
        assert_eq!(Class::of(0, 0, 0, 1), Class::Kernel);
        assert_eq!(Class::of(0, 0, 0, 0), Class::Fast);
        assert_eq!(Class::of(0, u64::MAX, 0, 0), Class::Slept);
    }
}
