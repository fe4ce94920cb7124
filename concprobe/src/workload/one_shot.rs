//! A promise and its future in one: a value that is set once and waited for.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A value that comes later.
#[derive(Debug)]
pub(super) struct OneShot<T> {
    value: Mutex<Option<T>>,
    set: Condvar,
}

impl<T> OneShot<T> {
    /// No value yet.
    pub(super) fn new() -> Self {
        Self { value: Mutex::new(None), set: Condvar::new() }
    }

    /// Fulfils the promise.
    pub(super) fn set(&self, value: T) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.set.notify_one();
    }

    /// Waits for the value and takes it.
    pub(super) fn get(&self) -> T {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match value.take() {
                Some(value) => return value,
                None => value = self.set.wait(value).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Waits for the value for no longer than `timeout`.
    pub(super) fn get_timeout(&self, timeout: Duration) -> Option<T> {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut value, _) = self
            .set
            .wait_timeout_while(value, timeout, |value| value.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        value.take()
    }
}
