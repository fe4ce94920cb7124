// preempt.c [T=2 MS=1000 PIN=1]: T threads (pinned to CPU 0 when PIN=1) spin for MS ms of wall time (no
// blocking in the loop), then each prints the kernel's own figures for itself: tid, on-CPU ns, run-queue-wait
// ns, voluntary, involuntary switches.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int ms, pin = 1;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void oracle(void) {
    unsigned long long r = 0, w = 0;
    long v = -1, iv = -1;
    char l[256];
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (f) {
        if (fscanf(f, "%llu %llu", &r, &w) != 2) {
        }
        fclose(f);
    }
    f = fopen("/proc/thread-self/status", "r");
    while (f && fgets(l, sizeof l, f)) {
        sscanf(l, "voluntary_ctxt_switches: %ld", &v);
        sscanf(l, "nonvoluntary_ctxt_switches: %ld", &iv);
    }
    if (f)
        fclose(f);
    printf("tid=%ld run_ns=%llu wait_ns=%llu vcs=%ld ivcs=%ld\n", (long)syscall(SYS_gettid), r, w, v, iv);
}
static void *t(void *a) {
    (void)a;
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET(0, &s);
    if (pin)
        sched_setaffinity(0, sizeof s, &s);
    struct timespec b, e;
    clock_gettime(CLOCK_MONOTONIC, &b);
    do {
        for (volatile int i = 0; i < 10000; i++) {
        }
        clock_gettime(CLOCK_MONOTONIC, &e);
    } while ((e.tv_sec - b.tv_sec) * 1000 + (e.tv_nsec - b.tv_nsec) / 1000000 < ms);
    pthread_mutex_lock(&m);
    oracle();
    pthread_mutex_unlock(&m);
    return 0;
}
int main(int c, char **v) {
    int n = c > 1 ? atoi(v[1]) : 2;
    ms = c > 2 ? atoi(v[2]) : 1000;
    pin = c > 3 ? atoi(v[3]) : 1;
    pthread_t p[64];
    for (int i = 0; i < n; i++)
        pthread_create(&p[i], 0, t, 0);
    for (int i = 0; i < n; i++)
        pthread_join(p[i], 0);
    return 0;
}
