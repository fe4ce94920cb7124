// deadlock.c: two threads, each with the lock that the other one wants.
#include <pthread.h>

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t right_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void __attribute__((noinline)) left_first(void) {
    pthread_mutex_lock(&left_lock);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&right_lock);
    __asm__ volatile("");
}

static void __attribute__((noinline)) right_first(void) {
    pthread_mutex_lock(&right_lock);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&left_lock);
    __asm__ volatile("");
}

static void *other(void *unused) {
    right_first();
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&both, 0, 2);
    pthread_create(&thread, 0, other, 0);
    left_first();
    return 0;
}
