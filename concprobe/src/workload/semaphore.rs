//! A POSIX semaphore, for the workloads that measure it.

use std::{cell::UnsafeCell, io};

use anyhow::{Context as _, Result};

/// A semaphore that may lie in memory shared between processes.
#[derive(Debug)]
pub(super) struct Semaphore {
    raw: UnsafeCell<libc::sem_t>,
}

// SAFETY: a POSIX semaphore is made for being used by many threads at once.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    /// A semaphore that is not usable before [`Self::init`]: it must not move afterwards.
    pub(super) fn zeroed() -> Self {
        // SAFETY: `sem_t` is plain memory.
        Self { raw: UnsafeCell::new(unsafe { std::mem::zeroed() }) }
    }

    /// Sets its count; `shared` when processes are to share it.
    pub(super) fn init(&self, shared: bool, count: u32) -> Result<()> {
        // SAFETY: the memory is valid, and nobody uses the semaphore yet.
        let result = unsafe { libc::sem_init(self.raw.get(), i32::from(shared), count) };
        if result != 0 {
            return Err(io::Error::last_os_error()).context("cannot initialise a semaphore");
        }
        Ok(())
    }

    /// Adds one, and wakes a waiter if there is one.
    #[inline(always)]
    pub(super) fn post(&self) {
        // SAFETY: initialised; it cannot overflow in these workloads, its only error.
        unsafe { libc::sem_post(self.raw.get()) };
    }

    /// Takes one, and sleeps while there is none. A signal does not end the wait.
    #[inline(always)]
    pub(super) fn wait(&self) {
        // SAFETY: initialised; its only error is an interruption.
        while unsafe { libc::sem_wait(self.raw.get()) } != 0 {}
    }

    /// The count.
    pub(super) fn value(&self) -> i32 {
        let mut value = 0;
        // SAFETY: initialised, and the pointer is valid for writes.
        unsafe { libc::sem_getvalue(self.raw.get(), &raw mut value) };
        value
    }
}
