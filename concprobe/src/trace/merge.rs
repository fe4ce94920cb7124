//! From futex words to locks: words that belong to the same lock are one row.

use crate::{
    latencies,
    observation::trace::{Kind, Lock},
};

use super::kind;

/// A futex word, told as if it were a lock of its own.
#[derive(Debug)]
pub(super) struct Word {
    /// Where in the kernel's table.
    pub(super) sites: Vec<u32>,
    /// The address space that it was first seen in.
    pub(super) space: u64,
    /// Where it lies there.
    pub(super) address: u64,
    /// `op` argument of the first call.
    pub(super) operation: u32,
    pub(super) lock: Lock,
}

/// The locks. `sleepers` tells how many threads slept at these sites.
pub(super) fn into_locks(words: Vec<Word>, sleepers: impl Fn(&[u32]) -> usize) -> Vec<Lock> {
    let words = merge_where(words, is_shared_with);
    let words = merge_where(words, is_twin_of);
    words
        .into_iter()
        .map(|mut word| {
            if word.sites.len() > 1 {
                word.lock.sleeps.threads = sleepers(&word.sites) as u64;
            }
            word.lock
        })
        .collect()
}

fn merge_where(words: Vec<Word>, same: impl Fn(&Word, &Word) -> bool) -> Vec<Word> {
    let mut merged: Vec<Word> = Vec::new();
    for word in words {
        match merged.iter_mut().find(|known| same(known, &word)) {
            Some(known) => known.merge(word),
            None => merged.push(word),
        }
    }
    merged
}

/// A word that processes share is one lock, at whatever address each has it.
fn is_shared_with(one: &Word, other: &Word) -> bool {
    one.lock.shared.is_some() && one.lock.shared == other.lock.shared
}

/// A condition variable of glibc has a word for each of two groups of waiters, who wait at them by turns, and a
/// reader-writer lock has one for those who wait for their phase and one for writers: side by side.
fn is_twin_of(one: &Word, other: &Word) -> bool {
    let beside = match (&one.lock.shared, &other.lock.shared) {
        (Some(one), Some(other)) => one.inode == other.inode && one.offset.abs_diff(other.offset) == 4,
        (None, None) => one.space == other.space && one.address.abs_diff(other.address) == 4,
        _ => false,
    };
    beside && one.lock.kind == other.lock.kind && one.has_twin() && other.has_twin()
}

impl Word {
    /// Whether its lock has another word beside it. Condition variables of Rust have one word only, and may lie
    /// side by side; they do not wait by the clock of the day, as those of glibc do.
    fn has_twin(&self) -> bool {
        let waiters = &self.lock.sleeps.waiters;
        let by_glibc = |frame: &String| frame.contains("pthread_cond");
        self.lock.kind == Kind::Rwlock
            || waiters.iter().flat_map(|waiter| &waiter.frames).any(by_glibc)
            || waiters.is_empty()
                && self.lock.kind == Kind::Condition
                && self.operation & kind::CLOCK_REALTIME != 0
    }

    fn merge(&mut self, mut other: Self) {
        // The row is called after the first of the words.
        if self.space == other.space && other.address < self.address {
            std::mem::swap(self, &mut other);
        }
        self.sites.extend(other.sites);
        merge(&mut self.lock, other.lock);
    }
}

fn merge(into: &mut Lock, lock: Lock) {
    let add = |left: &mut Option<u64>, right: Option<u64>| *left = left.zip(right).map(|(a, b)| a + b);
    add(&mut into.waits, lock.waits);
    add(&mut into.again, lock.again);
    add(&mut into.timed_out, lock.timed_out);
    add(&mut into.interrupted, lock.interrupted);
    add(&mut into.wakes, lock.wakes);
    weigh(into, lock.sleeps.blocked_ns());
    let mut lock = lock;
    weigh(&mut lock, into.sleeps.blocked_ns());
    let sleeps = &mut into.sleeps;
    sleeps.slept += lock.sleeps.slept;
    sleeps.limited += lock.sleeps.limited;
    sleeps.open += lock.sleeps.open;
    sleeps.open_ns += lock.sleeps.open_ns;
    sleeps.blocked = latencies::merged(&sleeps.blocked, &lock.sleeps.blocked);
    sleeps.run_queue = latencies::merged(&sleeps.run_queue, &lock.sleeps.run_queue);
    sleeps.waiters.extend(lock.sleeps.waiters);
    into.wakers.extend(lock.wakers);
    into.idle &= lock.idle;
}

/// Makes a lock's shares those of a whole to which `others_ns` of others belong too.
fn weigh(lock: &mut Lock, others_ns: u64) {
    let own = lock.sleeps.blocked_ns() as f64;
    let part = if own > 0.0 { own / (own + others_ns as f64) } else { 0.0 };
    lock.sleeps.waiters.iter_mut().for_each(|waiter| waiter.share *= part);
    lock.wakers.iter_mut().for_each(|waker| waker.share *= part);
}
