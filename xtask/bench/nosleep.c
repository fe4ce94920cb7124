// nosleep.c OPS: four threads make futex calls that never sleep: a wake that finds nobody, and a wait for a value that has
// changed already, in turn. An op is one call.
#define _GNU_SOURCE
#include "measured.h"

enum { THREADS = 4 };

static struct semaphore words[THREADS]; // only for its cache line
static struct calls calls[THREADS];
static pthread_barrier_t begin_together, end_together;
static count rounds;

static void *caller(void *number) {
    uintptr_t i = (uintptr_t)number;
    _Atomic uint32_t *word = &words[i].value;
    pthread_barrier_wait(&begin_together);
    for (count round = 0; round < rounds; round++) {
        calls[i].wakes++;
        if (futex(word, FUTEX_WAKE_PRIVATE, 1, 0) != 0) die("a wake found somebody");
        calls[i].waits++;
        if (futex(word, FUTEX_WAIT_PRIVATE, 1, 0) == 0 || errno != EAGAIN) die("a wait did not return at once");
        calls[i].again++;
    }
    pthread_barrier_wait(&end_together);
    return 0;
}

int main(int argc, char **argv) {
    rounds = (begin(argc, argv) + 2 * THREADS - 1) / (2 * THREADS);
    struct switches before = switches_of(RUSAGE_SELF);
    pthread_barrier_init(&begin_together, 0, THREADS + 1);
    pthread_barrier_init(&end_together, 0, THREADS + 1);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], 0, caller, (void *)i) != 0) die("pthread_create");
    count start = now_ns();
    pthread_barrier_wait(&begin_together);
    pthread_barrier_wait(&end_together);
    count took = now_ns() - start;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    struct switches after = switches_of(RUSAGE_SELF);
    struct calls sum = {0};
    for (int i = 0; i < THREADS; i++) {
        sum.waits += calls[i].waits;
        sum.again += calls[i].again;
        sum.wakes += calls[i].wakes;
    }
    printf("ops=%llu ns=%llu futex_waits=%llu futex_again=%llu futex_wakes=%llu sleeps=%ld preempted=%ld "
           "threads=%d processes=0\n",
           rounds * 2 * THREADS, took, sum.waits, sum.again, sum.wakes, after.sleeps - before.sleeps,
           after.preempted - before.preempted, THREADS);
    return 0;
}
