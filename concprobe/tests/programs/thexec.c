// thexec.c: a non-leader thread execs argv[1..]; all other threads die, tid becomes tgid.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static char **A;
static void *t(void *a) {
    (void)a;
    usleep(50000);
    execvp(A[0], A);
    _exit(99);
}
static void *s(void *a) {
    (void)a;
    for (;;)
        pause();
    return 0;
}
int main(int c, char **v) {
    (void)c;
    A = v + 1;
    pthread_t p;
    for (int i = 0; i < 4; i++)
        pthread_create(&p, 0, s, 0);
    pthread_create(&p, 0, t, 0);
    pause();
}
