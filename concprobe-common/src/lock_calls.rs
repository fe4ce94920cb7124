//! The lock functions of the C library whose calls are counted on request. Their place in this table is the
//! number by which the kernel side counts them.

/// Names, as the C library exports them.
pub const FUNCTIONS: &[&str] = &[
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_mutex_unlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_unlock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "sem_post",
    "pthread_barrier_wait",
];

/// Functions that acquire something, and may sleep for it.
#[must_use]
pub fn acquires(function: &str) -> bool {
    function.ends_with("lock") && !function.ends_with("unlock") || function.contains("wait")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_acquires_nothing() {
        assert!(acquires("pthread_mutex_lock") && acquires("sem_wait") && acquires("pthread_rwlock_rdlock"));
        assert!(
            !acquires("pthread_mutex_unlock") && !acquires("sem_post") && !acquires("pthread_cond_signal")
        );
        assert_eq!(FUNCTIONS.iter().filter(|function| acquires(function)).count(), 13);
    }
}
