// queue_up.c KIND THREADS ROUNDS HOLD_MS: the first thread has a lock while THREADS others want it; it waits
// until each of them sleeps, keeps the lock for HOLD_MS more, and gives it back, ROUNDS times, always with new
// threads. So there are exactly THREADS * ROUNDS sleeps, none shorter than HOLD_MS. KIND is mutex, timed, recursive,
// inheriting, writers or readers. Meanwhile it takes another lock all the time, that nobody else wants.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t counter_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cold_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static const char *kind;
static pid_t ids[64];

static int is(const char *other) { return !strcmp(kind, other); }

static void __attribute__((noinline)) take(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 1000;
    if (is("writers"))
        pthread_rwlock_wrlock(&table_lock);
    else if (is("readers"))
        pthread_rwlock_rdlock(&table_lock);
    else if (is("timed"))
        pthread_mutex_timedlock(&counter_lock, &end);
    else
        pthread_mutex_lock(&counter_lock);
    __asm__ volatile("");
}

static void __attribute__((noinline)) give_back(void) {
    if (is("writers") || is("readers"))
        pthread_rwlock_unlock(&table_lock);
    else
        pthread_mutex_unlock(&counter_lock);
    __asm__ volatile("");
}

static void __attribute__((noinline)) give_next(void) {
    give_back();
    __asm__ volatile("");
}

static void *want(void *id) {
    __atomic_store_n((pid_t *)id, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    take();
    give_next();
    return 0;
}

/* In a futex call, and not on the way into it. */
static int sleeps(pid_t thread) {
    char path[64], text[64] = "";
    if (thread == 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    int file = open(path, O_RDONLY);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 && atoi(text) == SYS_futex;
}

static void __attribute__((noinline)) hold(long ms, int threads) {
    struct timespec now, end;
    for (int index = 0; index < threads; index++)
        while (!sleeps(__atomic_load_n(&ids[index], __ATOMIC_ACQUIRE)))
            ;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += ms % 1000 * 1000000;
    do {
        pthread_mutex_lock(&cold_lock);
        clock_gettime(CLOCK_MONOTONIC, &now);
        pthread_mutex_unlock(&cold_lock);
    } while ((now.tv_sec - end.tv_sec) * 1000000000LL + now.tv_nsec - end.tv_nsec < 0);
}

int main(int count, char **words) {
    pthread_mutexattr_t attributes;
    pthread_t waiting[64];
    if (count < 5)
        return 2;
    kind = words[1];
    int threads = atoi(words[2]), rounds = atoi(words[3]);
    pthread_mutexattr_init(&attributes);
    if (is("recursive"))
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    if (is("inheriting"))
        pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&counter_lock, &attributes);
    for (int round = 0; round < rounds; round++) {
        if (is("readers"))
            pthread_rwlock_wrlock(&table_lock);
        else
            take();
        memset(ids, 0, sizeof ids);
        for (int index = 0; index < threads; index++)
            pthread_create(&waiting[index], 0, want, &ids[index]);
        hold(atol(words[4]), threads);
        give_back();
        for (int index = 0; index < threads; index++)
            pthread_join(waiting[index], 0);
    }
    return 0;
}
