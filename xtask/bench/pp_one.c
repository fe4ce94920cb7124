// pp_one.c OPS: two processes on one CPU hand over to each other by semaphores in shared memory. An op is one hand-over.
#define _GNU_SOURCE
#include "measured.h"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>

struct shared {
    struct semaphore ping, pong;
    struct calls calls[2];
};

int main(int argc, char **argv) {
    count rounds = (begin(argc, argv) + 1) / 2;
    struct switches before = switches_of(RUSAGE_SELF);
    struct shared *shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) die("mmap");
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0) die("cannot pin to CPU 0");
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (count i = 0; i <= rounds; i++) {
            down(&shared->ping, &shared->calls[1]);
            up(&shared->pong, &shared->calls[1]);
        }
        _exit(0);
    }
    // The first round is not timed: it waits for the child to come up.
    up(&shared->ping, &shared->calls[0]);
    down(&shared->pong, &shared->calls[0]);
    count start = now_ns();
    for (count i = 0; i < rounds; i++) {
        up(&shared->ping, &shared->calls[0]);
        down(&shared->pong, &shared->calls[0]);
    }
    count took = now_ns() - start;
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) die("waitpid");
    struct switches own = switches_of(RUSAGE_SELF), childs = switches_of(RUSAGE_CHILDREN);
    struct calls *a = &shared->calls[0], *b = &shared->calls[1];
    printf("ops=%llu ns=%llu futex_waits=%llu futex_again=%llu futex_wakes=%llu sleeps=%ld preempted=%ld "
           "threads=0 processes=1\n",
           2 * rounds, took, a->waits + b->waits, a->again + b->again, a->wakes + b->wakes,
           own.sleeps - before.sleeps + childs.sleeps, own.preempted - before.preempted + childs.preempted);
    return 0;
}
