// sysloop.c: P processes x T threads, each makes exactly N getppid calls by syscall(2).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static long n;
static void *t(void *a) {
    (void)a;
    for (long i = 0; i < n; i++)
        syscall(SYS_getppid);
    return 0;
}
int main(int c, char **v) {
    int P = c > 1 ? atoi(v[1]) : 1, T = c > 2 ? atoi(v[2]) : 4;
    n = c > 3 ? atol(v[3]) : 100000;
    for (int i = 0; i < P; i++)
        if (!fork()) {
            pthread_t p[256];
            for (int j = 0; j < T; j++)
                pthread_create(&p[j], 0, t, 0);
            for (int j = 0; j < T; j++)
                pthread_join(p[j], 0);
            _exit(0);
        }
    while (wait(0) > 0)
        ;
    return 0;
}
