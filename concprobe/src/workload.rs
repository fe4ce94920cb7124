//! The table of workloads. Adding one is a file in `workload/` and a line in the list below.

mod channel;
mod contention;
mod counting;
mod cpp;
mod data_wait;
mod future_late;
mod future_thread;
mod hand_over;
mod job_queue;
mod mutex;
mod one_shot;
mod pipe;
mod processes;
mod pthread;
mod semaphore;
mod task;
mod watched;
mod worker_pool;

use crate::harness::Entry;

/// Declares the files and the table in one go, so that a workload is one line here.
macro_rules! workloads {
    ($($file:ident)+) => {
        $(mod $file;)+

        /// Every workload, in the order in which `list` shows them.
        pub static TABLE: &[&Entry] = &[$(&$file::ENTRY),+];
    };
}

workloads! {
    sem_fast
    sem_named
    sem_pingpong
    sem_ring
    syscall_null
    mutex_fast
    mutex_contended
    futex_pingpong
    task_sequential
    thread_create
    thread_per_task
    pool
    pool_io
    future_handoff
    flag_busypoll
    condvar_wakeup
    async_tasks
    future_deferred
    future_pool
    future_wait
    future_wait_timeout
    tokio_tasks
    cpp_async
    cpp_future_handoff
    cpp_deferred
    read_blocking
    read_busypoll
    epoll
    sleep_uninterruptible
    false_sharing
    padded
    rwlock_read
    rwlock_contended
    spinlock
    barrier
    park_unpark
    channel_std
    channel_crossbeam
    mutex_std
    mutex_parking_lot
    eventfd_pingpong
    pipe_pingpong
    signal
    sched_yield
    fork
    posix_spawn
    once
}

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().copied().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_the_table_and_every_row_has_a_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/workload");
        for entry in TABLE {
            let stem = entry.name.replace('-', "_");
            assert!(std::fs::exists(format!("{folder}/{stem}.rs")).unwrap(), "{}", entry.name);
        }
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().replace('_', "-");
            let declares_entry = std::fs::read_to_string(&path).unwrap().contains("static ENTRY");
            assert_eq!(find(&stem).is_some(), declares_entry, "{}", path.display());
        }
    }

    #[test]
    fn names_are_unique_and_can_be_typed() {
        for (index, entry) in TABLE.iter().enumerate() {
            assert!(entry.name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'));
            assert!(TABLE[index + 1..].iter().all(|other| other.name != entry.name));
        }
    }
}
