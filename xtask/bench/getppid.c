// getppid.c OPS: one thread makes system calls that do nothing. An op is one call.
#define _GNU_SOURCE
#include "measured.h"

int main(int argc, char **argv) {
    count ops = begin(argc, argv);
    struct switches before = switches_of(RUSAGE_SELF);
    count start = now_ns();
    for (count i = 0; i < ops; i++) syscall(SYS_getppid);
    count took = now_ns() - start;
    struct switches after = switches_of(RUSAGE_SELF);
    printf("ops=%llu ns=%llu getppid=%llu sleeps=%ld preempted=%ld threads=0 processes=0\n", ops, took, ops,
           after.sleeps - before.sleeps, after.preempted - before.preempted);
    return 0;
}
