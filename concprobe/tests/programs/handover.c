// handover.c KIND ROUNDS [PAIRS=0]: threads that hand over to each other ROUNDS times, by `semaphore`, `condition`
// or `barrier`. With PAIRS 0: on CPU 0, under SCHED_FIFO where that is allowed, so that nobody interrupts them and
// each wait is a sleep. Otherwise so many pairs, spread over the CPUs. Prints fifo=1 if that was allowed, and the
// kernel's own count of their sleeps.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct pair {
    sem_t there, back;
    int cpu;
};

static struct pair pairs[64];
static pthread_mutex_t board_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t board_changed = PTHREAD_COND_INITIALIZER;
static int turn;
static pthread_barrier_t finish_line;
static long rounds, slept;

static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static void stay_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void __attribute__((noinline)) ask(struct pair *pair) {
    sem_post(&pair->there);
    sem_wait(&pair->back);
    __asm__ volatile("");
}

static void __attribute__((noinline)) answer(struct pair *pair) {
    sem_wait(&pair->there);
    sem_post(&pair->back);
    __asm__ volatile("");
}

static void __attribute__((noinline)) move(int mine) {
    pthread_mutex_lock(&board_lock);
    while (turn != mine)
        pthread_cond_wait(&board_changed, &board_lock);
    turn = !mine;
    pthread_cond_signal(&board_changed);
    pthread_mutex_unlock(&board_lock);
    __asm__ volatile("");
}

static void __attribute__((noinline)) arrive(void) {
    pthread_barrier_wait(&finish_line);
    __asm__ volatile("");
}

static const char *kind = "semaphore";

static void take_part(struct pair *pair, int first) {
    long before = sleeps();
    for (long round = 0; round < rounds; round++) {
        if (!strcmp(kind, "condition"))
            move(!first);
        else if (!strcmp(kind, "barrier"))
            arrive();
        else if (first)
            ask(pair);
        else
            answer(pair);
    }
    __atomic_add_fetch(&slept, sleeps() - before, __ATOMIC_RELAXED);
}

static void *asker(void *pair) {
    stay_on(((struct pair *)pair)->cpu);
    take_part(pair, 1);
    return 0;
}

static void *partner(void *pair) {
    stay_on(((struct pair *)pair)->cpu);
    take_part(pair, 0);
    return 0;
}

int main(int count, char **words) {
    pthread_t threads[128];
    kind = words[1];
    rounds = atol(words[2]);
    int many = count > 3 ? atoi(words[3]) : 0, cpus = sysconf(_SC_NPROCESSORS_ONLN), fifo = 0;
    if (many == 0) {
        struct sched_param parameter = {.sched_priority = 1};
        fifo = sched_setscheduler(0, SCHED_FIFO, &parameter) == 0;
        many = 1;
    }
    pthread_barrier_init(&finish_line, 0, 2);
    for (int index = 0; index < many; index++) {
        sem_init(&pairs[index].there, 0, 0);
        sem_init(&pairs[index].back, 0, 0);
        pairs[index].cpu = index % cpus;
        pthread_create(&threads[2 * index], 0, asker, &pairs[index]);
        pthread_create(&threads[2 * index + 1], 0, partner, &pairs[index]);
    }
    for (int index = 0; index < 2 * many; index++)
        pthread_join(threads[index], 0);
    printf("fifo=%d slept=%ld\n", fifo, slept);
    return 0;
}
