// burnsleep.c [N=100 BURN_US=2000 SLEEP_US=2000]: N times: burn BURN_US of CPU time, then clock_nanosleep
// SLEEP_US; then prints the kernel's own figures for the thread (same line as preempt.c).
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long long cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
int main(int c, char **v) {
    long n = c > 1 ? atol(v[1]) : 100, b = c > 2 ? atol(v[2]) : 2000, s = c > 3 ? atol(v[3]) : 2000;
    struct timespec z = {s / 1000000, (s % 1000000) * 1000};
    for (long i = 0; i < n; i++) {
        long long e = cpu() + b * 1000;
        while (cpu() < e)
            for (volatile int k = 0; k < 500; k++) {
            }
        if (s)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &z, 0);
    }
    unsigned long long r = 0, w = 0;
    long vc = -1, iv = -1;
    char l[256];
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (f) {
        if (fscanf(f, "%llu %llu", &r, &w) != 2) {
        }
        fclose(f);
    }
    f = fopen("/proc/thread-self/status", "r");
    while (f && fgets(l, sizeof l, f)) {
        sscanf(l, "voluntary_ctxt_switches: %ld", &vc);
        sscanf(l, "nonvoluntary_ctxt_switches: %ld", &iv);
    }
    printf("tid=%ld run_ns=%llu wait_ns=%llu vcs=%ld ivcs=%ld\n", (long)syscall(SYS_gettid), r, w, vc, iv);
    return 0;
}
