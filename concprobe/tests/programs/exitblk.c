// exitblk.c: N threads blocked for ever in futex WAIT; main sleeps MS ms then exit_group.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int w;
static void *t(void *a) {
    (void)a;
    for (;;)
        syscall(SYS_futex, &w, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    return 0;
}
int main(int c, char **v) {
    int n = c > 1 ? atoi(v[1]) : 8, ms = c > 2 ? atoi(v[2]) : 500;
    pthread_t p;
    for (int i = 0; i < n; i++)
        pthread_create(&p, 0, t, 0);
    usleep(ms * 1000);
    _exit(7);
}
