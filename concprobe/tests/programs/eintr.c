// eintr.c: one thread in a 2 s futex WAIT, hit by SIGUSR1 (no SA_RESTART) each 10 ms; re-waits with the rest.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int w;
static volatile int done;
static void h(int s) { (void)s; }
static void *t(void *a) {
    (void)a;
    int e = 0;
    struct timespec d;
    clock_gettime(CLOCK_MONOTONIC, &d);
    d.tv_sec += 1;
    for (;;) {
        long r = syscall(SYS_futex, &w, FUTEX_WAIT_BITSET_PRIVATE, 0, &d, 0, -1);
        if (r < 0 && errno == EINTR) {
            e++;
            continue;
        }
        break;
    }
    printf("eintr=%d\n", e);
    done = 1;
    return 0;
}
int main(void) {
    struct sigaction s = {.sa_handler = h};
    sigaction(SIGUSR1, &s, 0);
    pthread_t p;
    pthread_create(&p, 0, t, 0);
    usleep(50000);
    while (!done) {
        pthread_kill(p, SIGUSR1);
        usleep(10000);
    }
    pthread_join(p, 0);
    return 0;
}
