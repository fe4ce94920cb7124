// futexops.c: one call of each futex form from one thread; prints what was returned.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
struct wv {
    uint64_t val, uaddr;
    uint32_t flags, resv;
};
static uint32_t w, w2, pi;
static void p(const char *n, long r) {
    printf("%-34s ret=%ld err=%s\n", n, r, r < 0 ? strerror(errno) : "-");
}
int main(void) {
    struct timespec rel = {0, 20 * 1000 * 1000}, abs_m, abs_r;
    clock_gettime(CLOCK_MONOTONIC, &abs_m);
    clock_gettime(CLOCK_REALTIME, &abs_r);
#define ADD(t)                                                                                               \
    do {                                                                                                     \
        t.tv_nsec += 20 * 1000 * 1000;                                                                       \
        if (t.tv_nsec >= 1000000000) {                                                                       \
            t.tv_nsec -= 1000000000;                                                                         \
            t.tv_sec++;                                                                                      \
        }                                                                                                    \
    } while (0)
    p("WAIT mismatch (EAGAIN)", syscall(SYS_futex, &w, FUTEX_WAIT, 1, 0, 0, 0));
    p("WAIT_PRIVATE 20ms", syscall(SYS_futex, &w, FUTEX_WAIT_PRIVATE, 0, &rel, 0, 0));
    clock_gettime(CLOCK_MONOTONIC, &abs_m);
    ADD(abs_m);
    p("WAIT_BITSET_PRIVATE 20ms abs", syscall(SYS_futex, &w, FUTEX_WAIT_BITSET_PRIVATE, 0, &abs_m, 0, -1));
    clock_gettime(CLOCK_REALTIME, &abs_r);
    ADD(abs_r);
    p("WAIT_BITSET|REALTIME 20ms",
      syscall(SYS_futex, &w, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &abs_r, 0, -1));
    p("WAKE_PRIVATE none", syscall(SYS_futex, &w, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0));
    p("WAKE_BITSET none", syscall(SYS_futex, &w, FUTEX_WAKE_BITSET_PRIVATE, 1, 0, 0, -1));
    p("WAKE_OP none", syscall(SYS_futex, &w, FUTEX_WAKE_OP_PRIVATE, 1, 1L, &w2,
                              FUTEX_OP(FUTEX_OP_SET, 0, FUTEX_OP_CMP_EQ, 0)));
    p("CMP_REQUEUE none", syscall(SYS_futex, &w, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1L, &w2, 0));
    p("LOCK_PI free", syscall(SYS_futex, &pi, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0, 0));
    p("UNLOCK_PI", syscall(SYS_futex, &pi, FUTEX_UNLOCK_PI_PRIVATE, 0, 0, 0, 0));
    struct wv v = {0, (uint64_t)(uintptr_t)&w, 2 | 128, 0};
    clock_gettime(CLOCK_MONOTONIC, &abs_m);
    ADD(abs_m);
    p("futex_waitv(449) 20ms", syscall(SYS_futex_waitv, &v, 1, 0, &abs_m, CLOCK_MONOTONIC));
    p("futex_wake(454) none", syscall(454, &w, 0xffffffffUL, 1, 2 | 128));
    clock_gettime(CLOCK_MONOTONIC, &abs_m);
    ADD(abs_m);
    p("futex_wait(455) 20ms", syscall(455, &w, 0UL, 0xffffffffUL, 2 | 128, &abs_m, CLOCK_MONOTONIC));
    p("bad op 99 (ENOSYS)", syscall(SYS_futex, &w, 99, 0, 0, 0, 0));
    return 0;
}
