//! What kind of thing a futex word is: judged from the functions that wait there, and where their names are
//! not to be had, from the operation and the value that the waiter expected.

use std::collections::HashSet;

use crate::observation::trace::Kind;

/// Functions of runtimes that wait for something by means of something else: they say more than what is
/// below them.
const RUNTIMES: &[(&str, Kind)] = &[
    ("take_gil", Kind::Mutex),
    ("PyThread_acquire_lock", Kind::Mutex),
    ("ObjectMonitor::enter", Kind::Mutex),
    ("ObjectMonitor::wait", Kind::Condition),
    ("Monitor::wait", Kind::Condition),
    ("Unsafe_Park", Kind::Park),
    ("runtime.lock2", Kind::Mutex),
    ("runtime.lockWithRank", Kind::Mutex),
    ("runtime.mPark", Kind::Park),
    ("runtime.stopm", Kind::Park),
    ("runtime.notesleep", Kind::Park),
    ("runtime.notetsleep", Kind::Park),
    ("parking_lot::raw_mutex", Kind::Mutex),
    ("parking_lot::raw_rwlock", Kind::Rwlock),
    ("parking_lot::condvar", Kind::Condition),
    ("crossbeam_channel", Kind::Condition),
    ("std::sync::mpmc", Kind::Condition),
    ("std::sync::mpsc", Kind::Condition),
    ("thread::JoinHandle", Kind::Join),
];

/// Functions that wait themselves; the innermost that is known decides.
const PRIMITIVES: &[(&str, Kind)] = &[
    ("lll_lock", Kind::Mutex),
    ("pthread_mutex", Kind::Mutex),
    ("mutex::futex", Kind::Mutex),
    ("Mutex::lock", Kind::Mutex),
    ("pthread_rwlock", Kind::Rwlock),
    ("rwlock::futex", Kind::Rwlock),
    ("RwLock", Kind::Rwlock),
    ("pthread_cond", Kind::Condition),
    ("condvar::futex", Kind::Condition),
    ("Condvar", Kind::Condition),
    ("sem_wait", Kind::Semaphore),
    ("sem_timedwait", Kind::Semaphore),
    ("sem_clockwait", Kind::Semaphore),
    ("pthread_barrier", Kind::Barrier),
    ("pthread_join", Kind::Join),
    ("pthread_clockjoin", Kind::Join),
    ("pthread_timedjoin", Kind::Join),
    ("thread::park", Kind::Park),
    ("Parker::park", Kind::Park),
    ("_M_wait", Kind::Condition),
];

/// Variables whose name says what they are, where functions have none.
const VARIABLES: &[(&str, Kind)] = &[("_PyRuntime", Kind::Mutex)];

/// What is known of a futex word.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    /// Name of what lies there.
    pub(super) name: &'a str,
    /// `op` argument of the first call.
    pub(super) operation: u32,
    /// Value that the first waiter expected.
    pub(super) value: u32,
    /// Stacks of those who wait, the innermost function first.
    pub(super) stacks: &'a [&'a [String]],
    /// Ids of all threads seen.
    pub(super) tids: &'a HashSet<u32>,
}

/// The kind, and why.
pub(super) fn judge(evidence: &Evidence<'_>) -> (Kind, String) {
    if let Some((part, kind)) = VARIABLES.iter().find(|(part, _)| evidence.name.starts_with(part)) {
        return (*kind, format!("{part} is the interpreter's lock"));
    }
    let first = |table| evidence.stacks.iter().find_map(|frames| by_function(frames, table));
    let (primitive, runtime) = (first(PRIMITIVES), first(RUNTIMES));
    let inside = |kind: Kind| !kind.excludes() && primitive.is_some_and(|(inner, _)| inner.excludes());
    // What a runtime waits for says more than how it waits; but a lock inside it is a lock.
    if let Some((kind, function)) = runtime.filter(|(kind, _)| !inside(*kind)).or(primitive) {
        return (kind, format!("waits in {function}"));
    }
    let (kind, reason) = by_operation(evidence);
    (kind, reason.to_owned())
}

fn by_function<'a>(frames: &'a [String], table: &[(&str, Kind)]) -> Option<(Kind, &'a str)> {
    frames.iter().find_map(|frame| {
        let (_, kind) = table.iter().find(|(part, _)| frame.contains(part))?;
        Some((*kind, function(frame)))
    })
}

/// A frame without its module.
fn function(frame: &str) -> &str {
    frame.split_once(" (").map_or(frame, |(function, _)| function)
}

/// `FUTEX_PRIVATE_FLAG`: the word is not shared between processes.
pub(super) const PRIVATE: u32 = 128;
/// `FUTEX_CLOCK_REALTIME`: a limit would be by the clock of the day.
pub(super) const CLOCK_REALTIME: u32 = 256;

/// glibc 2.36 and Rust 1.95 as they are; another C library may differ, so only what is rather sure is said.
fn by_operation(evidence: &Evidence<'_>) -> (Kind, &'static str) {
    let command = evidence.operation & !(PRIVATE | CLOCK_REALTIME);
    let flags = evidence.operation & (PRIVATE | CLOCK_REALTIME);
    match (command, flags, evidence.value) {
        (6 | 8 | 13, ..) => (Kind::Mutex, "it inherits priority"),
        (0, _, 2) | (9, PRIVATE, 2) => (Kind::Mutex, "the waiter expects 2: locked, with waiters"),
        (9, CLOCK_REALTIME, value) if evidence.tids.contains(&value) => {
            (Kind::Join, "the waiter expects the id of a thread")
        }
        (9, PRIVATE, u32::MAX) => (Kind::Park, "the waiter expects -1: parked"),
        (9, ..) => (Kind::Condition, "WAIT_BITSET on another value: a condition variable or a semaphore"),
        _ => (Kind::Unknown, "neither its functions nor its operation tell"),
    }
}

/// Name of a futex operation, as the kernel's header has it.
pub(super) fn operation_name(operation: u32) -> String {
    const NAMES: [&str; 14] = [
        "WAIT",
        "WAKE",
        "FD",
        "REQUEUE",
        "CMP_REQUEUE",
        "WAKE_OP",
        "LOCK_PI",
        "UNLOCK_PI",
        "TRYLOCK_PI",
        "WAIT_BITSET",
        "WAKE_BITSET",
        "WAIT_REQUEUE_PI",
        "CMP_REQUEUE_PI",
        "LOCK_PI2",
    ];
    let command = operation & !(PRIVATE | CLOCK_REALTIME);
    NAMES.get(command as usize).map_or_else(|| format!("op {command}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(operation: u32, value: u32, stacks: &[&[&str]]) -> Kind {
        let owned: Vec<Vec<String>> =
            stacks.iter().map(|frames| frames.iter().map(|frame| (*frame).to_owned()).collect()).collect();
        let stacks: Vec<&[String]> = owned.iter().map(Vec::as_slice).collect();
        judge(&Evidence { name: "", operation, value, stacks: &stacks, tids: &HashSet::from([77]) }).0
    }

    #[test]
    fn the_function_that_waits_decides() {
        for (frames, expected) in [
            (&["__lll_lock_wait (libc.so.6)", "pthread_mutex_lock (libc.so.6)", "work (a)"][..], Kind::Mutex),
            (&["libc.so.6+0x86000", "pthread_cond_wait (libc.so.6)"], Kind::Condition),
            (&["libc.so.6+0x86000", "pthread_cond_timedwait (libc.so.6)", "take_gil (python3)"], Kind::Mutex),
            (
                &["syscall (libc.so.6)", "std::sys::sync::mutex::futex::Mutex::lock_contended (a)"],
                Kind::Mutex,
            ),
            (&["pthread_barrier_wait (libc.so.6)"], Kind::Barrier),
            (
                &[
                    "std::sys::sync::mutex::futex::Mutex::lock_contended (a)",
                    "<std::sync::mpmc::waker::SyncWaker>::register (a)",
                ],
                Kind::Mutex,
            ),
            (&["std::thread::park (a)", "<std::sync::mpmc::array::Channel<T>>::recv (a)"], Kind::Condition),
        ] {
            assert_eq!(judged(393, 0, &[frames]), expected, "{frames:?}");
        }
    }

    #[test]
    fn without_functions_the_operation_decides_as_far_as_it_can() {
        assert_eq!(judged(128, 2, &[]), Kind::Mutex);
        assert_eq!(judged(137, 2, &[&["libc.so.6+0x1"]]), Kind::Mutex);
        assert_eq!(judged(265, 77, &[]), Kind::Join);
        assert_eq!(judged(265, 78, &[]), Kind::Condition);
        assert_eq!(judged(393, 0, &[]), Kind::Condition);
        assert_eq!(judged(134, 0, &[]), Kind::Mutex);
        assert_eq!(judged(128, 0, &[]), Kind::Unknown);
    }

    #[test]
    fn operations_have_the_kernel_s_names() {
        assert_eq!(operation_name(128), "WAIT");
        assert_eq!(operation_name(393), "WAIT_BITSET");
        assert_eq!(operation_name(99), "op 99");
    }
}
