//! A POSIX mutex that several threads want: the second price of the call that costs nothing when it is free.

use std::cell::UnsafeCell;

use super::{
    contention::{self, Lock},
    mutex::Mutex,
};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "mutex-contended",
    summary: "a contended pthread mutex: how often taking it sleeps, and what that costs",
    op: "think, pthread_mutex_lock, stay in the section, pthread_mutex_unlock",
    claim: Claim::SometimesSleeps,
    default_ops: 1_000_000,
    crew: CrewSize::Threads(4),
    parameters: &contention::PARAMETERS,
    unavailable: None,
    build: contention::build::<Guarded>,
};

#[derive(Debug, Default)]
struct Guarded {
    mutex: Mutex,
    number: UnsafeCell<u64>,
}

// SAFETY: `number` is touched only by the thread that has the mutex.
unsafe impl Sync for Guarded {}

impl Lock for Guarded {
    #[inline]
    fn locked<R>(&self, section: impl FnOnce(&mut u64) -> R) -> R {
        self.mutex.lock();
        // SAFETY: locked, so no other thread has a reference.
        let result = section(unsafe { &mut *self.number.get() });
        // SAFETY: locked above.
        unsafe { self.mutex.unlock() };
        result
    }
}
