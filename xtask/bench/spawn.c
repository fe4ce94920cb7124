// spawn.c OPS: creates a thread that does nothing and joins it. An op is one create+join.
#define _GNU_SOURCE
#include "measured.h"

static void *nothing(void *unused) { return unused; }

int main(int argc, char **argv) {
    count ops = begin(argc, argv);
    struct switches before = switches_of(RUSAGE_SELF);
    count start = now_ns();
    for (count i = 0; i < ops; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, nothing, 0) != 0) die("pthread_create");
        pthread_join(thread, 0);
    }
    count took = now_ns() - start;
    struct switches after = switches_of(RUSAGE_SELF);
    printf("ops=%llu ns=%llu sleeps=%ld preempted=%ld threads=%llu processes=0\n", ops, took,
           after.sleeps - before.sleeps, after.preempted - before.preempted, ops);
    return 0;
}
