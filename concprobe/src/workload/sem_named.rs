//! A named semaphore that is never empty: once it is open, its calls cost what those of an unnamed one cost.

use std::{
    ffi::{CStr, CString},
    io,
};

use anyhow::{Context as _, Result};

use crate::{
    clock,
    harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload},
};

pub(super) static ENTRY: Entry = Entry {
    name: "sem-named",
    summary: "the price of a semaphore that has a name: the same as that of one without",
    op: "one sem_post and one sem_wait by the same thread, each thread on a named semaphore of its own",
    claim: Claim::NeverEntersKernel,
    default_ops: 10_000_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

/// A semaphore from `sem_open`. The C library gives each a page of its own.
#[derive(Debug)]
struct Named {
    raw: *mut libc::sem_t,
}

// SAFETY: a POSIX semaphore is made for being used by many threads at once.
unsafe impl Send for Named {}
// SAFETY: as above.
unsafe impl Sync for Named {}

impl Named {
    /// Makes a semaphore and takes its name away at once, so that nothing is left behind.
    fn create(name: &CStr) -> Result<Self> {
        let mode: libc::mode_t = 0o600;
        let count: libc::c_uint = 0;
        // SAFETY: the name is a C string, and the flags ask for the two arguments that follow.
        let raw = unsafe { libc::sem_open(name.as_ptr(), libc::O_CREAT | libc::O_EXCL, mode, count) };
        if raw == libc::SEM_FAILED {
            return Err(io::Error::last_os_error()).with_context(|| {
                format!("cannot make the named semaphore {} (it lies in /dev/shm)", name.to_string_lossy())
            });
        }
        // SAFETY: the name is a C string.
        unsafe { libc::sem_unlink(name.as_ptr()) };
        Ok(Self { raw })
    }

    #[inline(always)]
    fn post(&self) {
        // SAFETY: open; it cannot overflow here, its only error.
        unsafe { libc::sem_post(self.raw) };
    }

    #[inline(always)]
    fn wait(&self) {
        // SAFETY: open; its only error is an interruption.
        while unsafe { libc::sem_wait(self.raw) } != 0 {}
    }

    fn value(&self) -> i32 {
        let mut value = 0;
        // SAFETY: open, and the pointer is valid for writes.
        unsafe { libc::sem_getvalue(self.raw, &raw mut value) };
        value
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // SAFETY: opened in `create`, closed only here.
        unsafe { libc::sem_close(self.raw) };
    }
}

#[derive(Debug)]
struct SemNamed {
    semaphores: Box<[Named]>,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    // The clock too, since processes of two containers may have one number and one /dev/shm.
    let name = |index| CString::new(format!("/concprobe-{}-{}-{index}", std::process::id(), clock::now_ns()));
    let semaphores =
        (0..settings.threads).map(|index| Named::create(&name(index)?)).collect::<Result<Box<[Named]>>>()?;
    Ok(Box::new(SemNamed { semaphores }))
}

impl Workload for SemNamed {
    fn crew(&self) -> Vec<Role> {
        Role::threads("poster", self.semaphores.len())
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let semaphore = &self.semaphores[member];
        ops.batched(|| {
            semaphore.post();
            semaphore.wait();
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let left: i64 = self.semaphores.iter().map(|semaphore| i64::from(semaphore.value())).sum();
        SelfCheck {
            passed: left == 0,
            detail: format!("after {ops} posts and as many waits the semaphores hold {left} (expected 0)"),
        }
    }
}
