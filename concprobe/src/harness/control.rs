//! A page that the driver and the workload's processes share: the order to stop, and how far they are.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use anyhow::{Context as _, Result, bail};

/// The page. All zeros at first.
#[derive(Debug)]
#[repr(C)]
pub struct Page {
    stop: AtomicBool,
    /// `CLOCK_MONOTONIC` of the first op, 0 before.
    first_op_ns: AtomicU64,
    /// Ops that the first member has done in this phase.
    done: AtomicU64,
}

/// The page, mapped.
#[derive(Debug)]
pub struct Control {
    page: NonNull<Page>,
}

// SAFETY: the page consists of atomics and stays mapped as long as the process lives.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Control {
    /// Makes the memory, to be inherited by the workload's process.
    ///
    /// # Errors
    /// When the kernel has no memory for it.
    pub fn create() -> Result<OwnedFd> {
        // SAFETY: the name is a C string, and the descriptor is new and owned here alone.
        let fd = unsafe {
            let fd = libc::memfd_create(c"concprobe-control".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error()).context("cannot make shared memory");
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: the descriptor is valid.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), size_of::<Page>().cast_signed() as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error()).context("cannot size shared memory");
        }
        Ok(fd)
    }

    /// Maps the memory.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map(fd: BorrowedFd<'_>) -> Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Page>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("cannot map the control page");
        }
        let Some(page) = NonNull::new(address.cast()) else { bail!("mapped at address 0") };
        Ok(Self { page })
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped in `map` and never unmapped.
        unsafe { self.page.as_ref() }
    }

    /// Asks the workload to stop after the op it is in.
    pub fn stop(&self) {
        self.page().stop.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.page().stop.load(Ordering::Relaxed)
    }

    /// Notes when the first op began; later calls change nothing.
    pub fn first_op(&self, now_ns: u64) {
        let _ = self.page().first_op_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// When the first op began, 0 before.
    pub fn first_op_ns(&self) -> u64 {
        self.page().first_op_ns.load(Ordering::Relaxed)
    }

    /// Notes how many ops the first member has done.
    #[inline]
    pub fn set_done(&self, ops: u64) {
        self.page().done.store(ops, Ordering::Relaxed);
    }

    /// How many ops the first member has done in this phase.
    pub fn done(&self) -> u64 {
        self.page().done.load(Ordering::Relaxed)
    }
}
