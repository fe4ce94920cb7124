// idle_workers.c WORKERS MS: workers that wait for tasks at a condition variable, most of the time for nothing, while
// the first thread computes for MS milliseconds of its CPU time and then gives each of them one small task.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t tasks_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t tasks_there = PTHREAD_COND_INITIALIZER;
static int tasks;

static void compute(long ms) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    long long end = now.tv_sec * 1000LL + now.tv_nsec / 1000000 + ms;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec * 1000LL + now.tv_nsec / 1000000 < end);
}

static void __attribute__((noinline)) wait_for_task(void) {
    pthread_mutex_lock(&tasks_lock);
    while (tasks == 0)
        pthread_cond_wait(&tasks_there, &tasks_lock);
    tasks--;
    pthread_mutex_unlock(&tasks_lock);
    __asm__ volatile("");
}

static void *worker(void *unused) {
    wait_for_task();
    return unused;
}

int main(int count, char **words) {
    pthread_t threads[64];
    if (count < 3)
        return 2;
    int workers = atoi(words[1]);
    for (int index = 0; index < workers; index++)
        pthread_create(&threads[index], 0, worker, 0);
    compute(atol(words[2]));
    for (int index = 0; index < workers; index++) {
        pthread_mutex_lock(&tasks_lock);
        tasks++;
        pthread_cond_signal(&tasks_there);
        pthread_mutex_unlock(&tasks_lock);
    }
    for (int index = 0; index < workers; index++)
        pthread_join(threads[index], 0);
    return 0;
}
