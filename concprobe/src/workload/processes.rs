//! Threads that create processes one after the other: the loop and the self-check that the workloads
//! `fork` and `posix-spawn` share.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};

use crate::harness::{Ops, Role, SelfCheck, Workload};

/// The workload: each op creates a process with `create` and waits for its end.
pub(super) struct Processes<C> {
    creators: usize,
    create: C,
    succeeded: AtomicU64,
}

impl<C: Fn() -> Result<libc::pid_t> + Sync> Processes<C> {
    /// `creators` threads; `create` returns the child's number.
    pub(super) fn new(creators: usize, create: C) -> Self {
        Self { creators, create, succeeded: AtomicU64::new(0) }
    }
}

/// Waits for a child and tells whether it exited with status 0.
fn wait_for(pid: libc::pid_t) -> Result<bool> {
    let mut status = 0;
    // SAFETY: the pointer is valid, the child is this process's own, and nobody else waits for it.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("cannot wait for a child process");
        }
    }
    Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0)
}

impl<C: Fn() -> Result<libc::pid_t> + Sync> Workload for Processes<C> {
    fn crew(&self) -> Vec<Role> {
        Role::threads("creator", self.creators)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let mut succeeded = 0;
        let outcome = ops.each(|| {
            let child = (self.create)()?;
            succeeded += u64::from(wait_for(child)?);
            Ok(())
        });
        self.succeeded.fetch_add(succeeded, Ordering::Relaxed);
        outcome
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let succeeded = self.succeeded.load(Ordering::Relaxed);
        SelfCheck {
            passed: succeeded == ops,
            detail: format!("{succeeded} processes exited with status 0 (expected {ops})"),
        }
    }
}
