// libcwaits.c: one blocking wait each on a pthread mutex, condvar, semaphore, barrier, rwlock, and joins
// (threads named q_*).
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static sem_t s;
static pthread_barrier_t b;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static void *tm(void *a) {
    prctl(PR_SET_NAME, "q_mutex");
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    return 0;
}
static void *tc(void *a) {
    prctl(PR_SET_NAME, "q_cond");
    pthread_mutex_lock(&m);
    pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    return 0;
}
static void *ts(void *a) {
    prctl(PR_SET_NAME, "q_sem");
    sem_wait(&s);
    return 0;
}
static void *tb(void *a) {
    prctl(PR_SET_NAME, "q_barrier");
    pthread_barrier_wait(&b);
    return 0;
}
static void *tr(void *a) {
    prctl(PR_SET_NAME, "q_rwlock");
    pthread_rwlock_wrlock(&rw);
    pthread_rwlock_unlock(&rw);
    return 0;
}
static void *tj(void *a) {
    prctl(PR_SET_NAME, "q_joined");
    usleep(100000);
    return 0;
}
int main(void) {
    pthread_t t[6];
    sem_init(&s, 0, 0);
    pthread_barrier_init(&b, 0, 2);
    pthread_create(&t[1], 0, tc, 0);
    usleep(20000);
    pthread_mutex_lock(&m);
    pthread_rwlock_wrlock(&rw);
    pthread_create(&t[0], 0, tm, 0);
    pthread_create(&t[2], 0, ts, 0);
    pthread_create(&t[3], 0, tb, 0);
    pthread_create(&t[4], 0, tr, 0);
    pthread_create(&t[5], 0, tj, 0);
    usleep(50000);
    pthread_mutex_unlock(&m);
    pthread_rwlock_unlock(&rw);
    pthread_cond_signal(&c);
    sem_post(&s);
    pthread_barrier_wait(&b);
    prctl(PR_SET_NAME, "q_joiner");
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], 0);
    return 0;
}
