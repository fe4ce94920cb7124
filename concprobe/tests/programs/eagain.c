// eagain.c [N=100000]: N futex WAIT calls whose value never matches: all return EAGAIN at once.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int c, char **v) {
    long n = c > 1 ? atol(v[1]) : 100000, e = 0;
    int w = 0;
    for (long i = 0; i < n; i++)
        e += syscall(SYS_futex, &w, FUTEX_WAIT_PRIVATE, 1, 0, 0, 0) < 0;
    printf("eagain=%ld\n", e);
    return 0;
}
