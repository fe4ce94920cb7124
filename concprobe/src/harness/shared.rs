//! A value in memory that forked processes share.

use std::{io, ops::Deref, ptr::NonNull};

use anyhow::{Context as _, Result, bail};

/// Owns a `T` that lives in a shared anonymous mapping, so that every process forked later uses the same.
#[derive(Debug)]
pub struct Shared<T> {
    value: NonNull<T>,
}

// SAFETY: it is a unique owner that hands out only `&T`, like `Box`.
unsafe impl<T: Sync + Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Moves `value` into shared memory.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(value: T) -> Result<Self> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<T>().max(1),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("cannot map shared memory");
        }
        let Some(pointer) = NonNull::new(address.cast::<T>()) else { bail!("mapped at address 0") };
        // SAFETY: the mapping is large enough, page-aligned and nobody else's.
        unsafe { pointer.write(value) };
        Ok(Self { value: pointer })
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: initialised in `new`, unmapped only on drop.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`. The value's own `drop` does not run: another process may
        // still use what it refers to.
        unsafe { libc::munmap(self.value.as_ptr().cast(), size_of::<T>().max(1)) };
    }
}
