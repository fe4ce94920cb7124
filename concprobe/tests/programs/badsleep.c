// badsleep.c [N=1000]: N nanosleep and N clock_nanosleep calls with an invalid time: all fail with EINVAL.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(int c, char **v) {
    long n = c > 1 ? atol(v[1]) : 1000, e = 0;
    struct timespec t = {-1, -1};
    for (long i = 0; i < n; i++) {
        e += syscall(SYS_nanosleep, &t, 0) < 0;
        e += syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, 0) < 0;
    }
    printf("failed=%ld\n", e);
    return 0;
}
