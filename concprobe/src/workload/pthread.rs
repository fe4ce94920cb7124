//! Creating and joining a thread with the C library's own calls, for the workloads that measure that.

use std::{ffi::c_void, io, ptr};

use anyhow::{Context as _, Result};

/// What a thread runs.
pub(super) type Routine = extern "C" fn(*mut c_void) -> *mut c_void;

/// Creates a thread that runs `routine` on `argument`, joins it, and returns what it returned.
///
/// # Safety
/// `argument` must be what `routine` expects, and be valid until the thread has ended.
pub(super) unsafe fn create_and_join(routine: Routine, argument: *mut c_void) -> Result<*mut c_void> {
    let mut returned = ptr::null_mut();
    // SAFETY: by the contract above; the handle is joined exactly once.
    let error = unsafe {
        let mut thread = 0;
        match libc::pthread_create(&raw mut thread, ptr::null(), routine, argument) {
            0 => libc::pthread_join(thread, &raw mut returned),
            error => error,
        }
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error)).context("cannot create a thread");
    }
    Ok(returned)
}
