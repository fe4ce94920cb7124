// till.c [THREADS ROUNDS]: clerks who want one till. Each holds it while it burns 200 us of CPU time, so that
// the others go to sleep for it. Then a token goes round between two threads, ROUNDS times, by two semaphores.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t till = PTHREAD_MUTEX_INITIALIZER;
static sem_t there, back;
static long rounds;

static long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void __attribute__((noinline)) count_money(void) {
    long end = cpu_ns() + 200000;
    while (cpu_ns() < end)
        ;
    __asm__ volatile("");
}

static void __attribute__((noinline)) serve_customer(void) {
    pthread_mutex_lock(&till);
    count_money();
    pthread_mutex_unlock(&till);
    __asm__ volatile("");
}

static void *clerk(void *unused) {
    for (int customer = 0; customer < 200; customer++)
        serve_customer();
    return unused;
}

static void __attribute__((noinline)) answer(void) {
    sem_wait(&there);
    sem_post(&back);
    __asm__ volatile("");
}

static void *partner(void *unused) {
    for (long round = 0; round < rounds; round++)
        answer();
    return unused;
}

int main(int count, char **words) {
    int clerks = count > 1 ? atoi(words[1]) : 3;
    rounds = count > 2 ? atol(words[2]) : 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    pthread_t threads[64];
    for (int index = 0; index < clerks; index++)
        pthread_create(&threads[index], 0, clerk, 0);
    for (int index = 0; index < clerks; index++)
        pthread_join(threads[index], 0);
    if (rounds == 0)
        return 0;
    sched_setaffinity(0, sizeof one, &one);
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    pthread_create(&threads[0], 0, partner, 0);
    for (long round = 0; round < rounds; round++) {
        sem_post(&there);
        sem_wait(&back);
    }
    pthread_join(threads[0], 0);
    return 0;
}
