// measured.h: what the programs of `cargo xtask bench overhead` share. Each takes its number of ops, times only the phase
// that does them, and prints one line of facts about what it did, which the answers of tools are compared with:
//   ops=N ns=M [futex_waits=… futex_again=… futex_wakes=… getppid=… sleeps=… preempted=… threads=… processes=…]
// sleeps and preempted are getrusage's from main() on, which leaves out the switch that a thread dies in; the rest is
// counted by the program itself.
#ifndef MEASURED_H
#define MEASURED_H

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long count;

// Ends a run that a tool has brought to a halt; the slowest that works takes some ten seconds.
enum { LONGEST_SECONDS = 200 };

static inline count now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (count)t.tv_sec * 1000000000u + (count)t.tv_nsec;
}

static inline _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

// The number of ops that was asked for.
static inline count begin(int argc, char **argv) {
    count ops = argc == 2 ? strtoull(argv[1], 0, 10) : 0;
    if (ops == 0) {
        fprintf(stderr, "usage: %s OPS\n", argv[0]);
        exit(2);
    }
    alarm(LONGEST_SECONDS);
    return ops;
}

struct switches {
    long sleeps, preempted;
};

static inline struct switches switches_of(int who) {
    struct rusage usage;
    if (getrusage(who, &usage) != 0) die("getrusage");
    return (struct switches){usage.ru_nvcsw, usage.ru_nivcsw};
}

// The calls that a thread made; its own cache line, so that counting disturbs nobody.
struct calls {
    _Alignas(128) count waits, again, wakes;
};

static inline long futex(_Atomic uint32_t *word, int op, uint32_t value, uint32_t bits) {
    return syscall(SYS_futex, word, op, value, (void *)0, (void *)0, bits);
}

// A semaphore that makes the futex calls of glibc's sem_t (waiters sleep in FUTEX_WAIT_BITSET, a post enters the kernel
// only when there are waiters) and counts them, which sem_t cannot tell.
struct semaphore {
    _Alignas(128) _Atomic uint32_t value;
    _Atomic uint32_t waiters;
    int scope; // FUTEX_PRIVATE_FLAG within a process, 0 between processes
};

static inline int take(struct semaphore *semaphore) {
    uint32_t value = atomic_load(&semaphore->value);
    while (value > 0)
        if (atomic_compare_exchange_weak(&semaphore->value, &value, value - 1)) return 1;
    return 0;
}

static inline void down(struct semaphore *semaphore, struct calls *calls) {
    if (take(semaphore)) return;
    atomic_fetch_add(&semaphore->waiters, 1);
    while (!take(semaphore)) {
        int op = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME | semaphore->scope;
        calls->waits++;
        if (futex(&semaphore->value, op, 0, FUTEX_BITSET_MATCH_ANY) != 0) {
            if (errno == EAGAIN) calls->again++;
            else if (errno != EINTR) die("futex wait");
        }
    }
    atomic_fetch_sub(&semaphore->waiters, 1);
}

static inline void up(struct semaphore *semaphore, struct calls *calls) {
    atomic_fetch_add(&semaphore->value, 1);
    if (atomic_load(&semaphore->waiters) == 0) return;
    calls->wakes++;
    if (futex(&semaphore->value, FUTEX_WAKE | semaphore->scope, 1, 0) < 0) die("futex wake");
}

#endif
