//! Threads that want one lock and never sleep for it: test, then test-and-set, and give the CPU away when
//! the holder does not seem to have one.

use std::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::contention::{self, Lock};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "spinlock",
    summary: "a contended spinlock: waiting awake, and giving the CPU away when that takes long",
    op: "think, lock, stay in the section, unlock",
    claim: Claim::HardlyEverSleeps,
    default_ops: 1_000_000,
    crew: CrewSize::Threads(2),
    parameters: &contention::PARAMETERS,
    unavailable: None,
    build: contention::build::<Spinlock>,
};

/// A waiter that looked this often in vain yields: the holder may be waiting for this very CPU.
const LOOKS: u32 = 1_000;

#[derive(Debug, Default)]
struct Spinlock {
    held: AtomicBool,
    number: UnsafeCell<u64>,
}

// SAFETY: the number is touched only by the one thread that holds the lock.
unsafe impl Sync for Spinlock {}

/// Holds the lock; a panic in the section lets it go, too.
struct Held<'a>(&'a AtomicBool);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Spinlock {
    #[inline]
    fn lock(&self) -> Held<'_> {
        while self.held.swap(true, Ordering::Acquire) {
            self.wait_until_free();
        }
        Held(&self.held)
    }

    /// Only reads, so that the cache line stays with the holder until it lets go.
    fn wait_until_free(&self) {
        let mut looks = 0;
        while self.held.load(Ordering::Relaxed) {
            looks += 1;
            if looks % LOOKS == 0 {
                thread::yield_now();
            } else {
                spin_loop();
            }
        }
    }
}

impl Lock for Spinlock {
    #[inline]
    fn locked<R>(&self, section: impl FnOnce(&mut u64) -> R) -> R {
        let _held = self.lock();
        // SAFETY: this thread holds the lock until the end of the function.
        section(unsafe { &mut *self.number.get() })
    }
}
