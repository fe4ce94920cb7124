// sem_fast.c BATCH BATCHES: post+wait on a semaphore that is never empty, in a plain loop.
// Prints the least time of an op over the batches, in picoseconds.
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv) {
    uint64_t batch = argc > 1 ? strtoull(argv[1], 0, 10) : 0, batches = argc > 2 ? strtoull(argv[2], 0, 10) : 0;
    if (batch == 0 || batches == 0) {
        fprintf(stderr, "usage: sem_fast BATCH BATCHES\n");
        return 2;
    }
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    uint64_t least = UINT64_MAX;
    for (uint64_t i = 0; i < batches; i++) {
        uint64_t start = now_ns();
        for (uint64_t j = 0; j < batch; j++) {
            sem_post(&semaphore);
            sem_wait(&semaphore);
        }
        uint64_t took = now_ns() - start;
        if (took < least) least = took;
    }
    printf("%llu\n", (unsigned long long)(least * 1000 / batch));
    return 0;
}
