// storm.c OPS: 64 threads in 32 pairs, each pair handing over by two semaphores. An op is one hand-over.
#define _GNU_SOURCE
#include "measured.h"

enum { PAIRS = 32, THREADS = 2 * PAIRS };

static struct semaphore ready = {.scope = FUTEX_PRIVATE_FLAG}, start = {.scope = FUTEX_PRIVATE_FLAG},
                        done = {.scope = FUTEX_PRIVATE_FLAG}, turns[THREADS];
static struct calls calls[THREADS + 1];
static count rounds;

static void *member(void *number) {
    uintptr_t i = (uintptr_t)number;
    up(&ready, &calls[i]);
    down(&start, &calls[i]);
    struct semaphore *mine = &turns[i], *others = &turns[i ^ 1];
    for (count round = 0; round < rounds; round++) {
        if (i % 2 == 0) {
            up(others, &calls[i]);
            down(mine, &calls[i]);
        } else {
            down(mine, &calls[i]);
            up(others, &calls[i]);
        }
    }
    up(&done, &calls[i]);
    return 0;
}

int main(int argc, char **argv) {
    rounds = (begin(argc, argv) + THREADS - 1) / THREADS;
    struct switches before = switches_of(RUSAGE_SELF);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) turns[i].scope = FUTEX_PRIVATE_FLAG;
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], 0, member, (void *)i) != 0) die("pthread_create");
    struct calls *own = &calls[THREADS];
    for (int i = 0; i < THREADS; i++) down(&ready, own);
    count from = now_ns();
    for (int i = 0; i < THREADS; i++) up(&start, own);
    for (int i = 0; i < THREADS; i++) down(&done, own);
    count took = now_ns() - from;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    struct switches after = switches_of(RUSAGE_SELF);
    struct calls sum = {0};
    for (int i = 0; i <= THREADS; i++) {
        sum.waits += calls[i].waits;
        sum.again += calls[i].again;
        sum.wakes += calls[i].wakes;
    }
    printf("ops=%llu ns=%llu futex_waits=%llu futex_again=%llu futex_wakes=%llu sleeps=%ld preempted=%ld "
           "threads=%d processes=0\n",
           rounds * THREADS, took, sum.waits, sum.again, sum.wakes, after.sleeps - before.sleeps,
           after.preempted - before.preempted, THREADS);
    return 0;
}
