//! A member that waits, and a supporting one that looks which state it is in meanwhile.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::semaphore::Semaphore;
use crate::{
    clock,
    harness::{Kind, Ops, Parameter},
};

/// Looks at the state, spread evenly over one wait.
const LOOKS: u64 = 5;
/// A wait is cut short at the end of a phase only if it would last this much longer.
const PATIENCE: Duration = Duration::from_millis(200);

/// `--delay`.
pub(super) const DELAY: Parameter =
    Parameter { name: "delay", help: "How long one wait lasts", default: "20ms", kind: Kind::Duration };

/// What the two members, threads of one process, share.
#[derive(Debug)]
pub(super) struct Watched {
    delay: Duration,
    thread: AtomicI32,
    begun: Semaphore,
    finished: AtomicBool,
}

impl Watched {
    /// Not usable before [`Self::init`]: it must not move afterwards.
    pub(super) fn new(delay: Duration) -> Self {
        let (thread, finished) = (AtomicI32::new(0), AtomicBool::new(false));
        Self { delay, thread, begun: Semaphore::zeroed(), finished }
    }

    /// Makes it usable.
    pub(super) fn init(&self) -> Result<()> {
        self.begun.init(false, 0)
    }

    /// The waiting member's phase begins: it is the calling thread that is to be watched.
    pub(super) fn enter(&self) {
        // SAFETY: a plain system call.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Relaxed);
    }

    /// The waiting member is about to wait.
    pub(super) fn begin(&self) {
        self.begun.post();
    }

    /// The waiting member's phase is over.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
        self.begun.post();
    }

    /// The supporting member waits until a wait begins; `false` when the phase is over instead.
    pub(super) fn next_begins(&self) -> bool {
        self.begun.wait();
        !self.finished.swap(false, Ordering::Acquire)
    }

    /// The supporting member watches one wait for as long as the delay, or until the phase is to end
    /// long before: whether that came first.
    pub(super) fn watch(&self, ops: &mut Ops<'_>) -> Result<bool> {
        let begun_ns = clock::now_ns();
        let delay_ns = u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX);
        for look in 1..=LOOKS {
            let part_ns = delay_ns / (LOOKS + 1) * look;
            if sleep_until(begun_ns.saturating_add(part_ns), ops) {
                return Ok(true);
            }
            let state = state_of(self.thread.load(Ordering::Relaxed))?;
            ops.extra_count(&format!("state {state}"), 1);
        }
        Ok(sleep_until(begun_ns.saturating_add(delay_ns), ops))
    }
}

/// Whether the phase is to end long before that time.
fn sleep_until(end_ns: u64, ops: &Ops<'_>) -> bool {
    loop {
        let left = Duration::from_nanos(end_ns.saturating_sub(clock::now_ns()));
        if left.is_zero() {
            return false;
        }
        if left > PATIENCE && ops.expired() {
            return true;
        }
        thread::sleep(left.min(PATIENCE));
    }
}

/// The letter of a thread's state, as the kernel shows it.
fn state_of(thread: i32) -> Result<char> {
    let path = format!("/proc/self/task/{thread}/stat");
    let line = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    state_in(&line).with_context(|| format!("no state in {path}: {line}"))
}

/// The third field. The second is the name in parentheses, and may have spaces and parentheses itself.
fn state_in(line: &str) -> Option<char> {
    line.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::state_in;

    #[test]
    fn the_state_is_found_behind_any_name() {
        assert_eq!(state_in("12 (reader) S 1 2"), Some('S'));
        assert_eq!(state_in("12 (a) R (b) D 1 2"), Some('D'));
        assert_eq!(state_in("12"), None);
        assert_eq!(state_in("12 (reader)"), None);
    }
}
