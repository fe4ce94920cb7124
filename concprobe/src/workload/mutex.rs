//! A POSIX mutex, for the workloads that measure it.

use std::cell::UnsafeCell;

/// A mutex of the default type, on a cache line of its own. It must not move while it is locked.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Mutex {
    raw: UnsafeCell<libc::pthread_mutex_t>,
}

// SAFETY: a POSIX mutex is made for being used by many threads at once.
unsafe impl Sync for Mutex {}

impl Default for Mutex {
    /// A free mutex.
    fn default() -> Self {
        Self { raw: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER) }
    }
}

impl Mutex {
    /// Takes it, and sleeps while another thread has it.
    #[inline(always)]
    pub(super) fn lock(&self) {
        // SAFETY: initialised; the default type has no errors.
        unsafe { libc::pthread_mutex_lock(self.raw.get()) };
    }

    /// Gives it back.
    ///
    /// # Safety
    /// The calling thread has locked it.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self) {
        // SAFETY: initialised, and locked by this thread.
        unsafe { libc::pthread_mutex_unlock(self.raw.get()) };
    }

    /// Whether nobody has it.
    pub(super) fn is_free(&self) -> bool {
        // SAFETY: initialised, and unlocked by the thread that locked it.
        unsafe {
            let free = libc::pthread_mutex_trylock(self.raw.get()) == 0;
            if free {
                libc::pthread_mutex_unlock(self.raw.get());
            }
            free
        }
    }
}
