//! A system call that does nothing: the least that entering the kernel costs.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "syscall-null",
    summary: "the price of entering the kernel and coming back",
    op: "one getppid",
    claim: Claim::EntersKernelWithoutSleep,
    default_ops: 1_000_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct SyscallNull {
    threads: usize,
    as_expected: AtomicU64,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(SyscallNull { threads: settings.threads, as_expected: AtomicU64::new(0) }))
}

impl Workload for SyscallNull {
    fn crew(&self) -> Vec<Role> {
        Role::threads("caller", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let parent = i64::from(std::os::unix::process::parent_id());
        let mut as_expected = 0;
        ops.each(|| {
            // SAFETY: it takes no arguments and cannot fail.
            as_expected += u64::from(unsafe { libc::syscall(libc::SYS_getppid) } == parent);
            Ok(())
        })?;
        self.as_expected.fetch_add(as_expected, Ordering::Relaxed);
        Ok(())
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let as_expected = self.as_expected.load(Ordering::Relaxed);
        SelfCheck {
            passed: as_expected == ops,
            detail: format!("{as_expected} calls told the parent's process id (expected {ops})"),
        }
    }
}
