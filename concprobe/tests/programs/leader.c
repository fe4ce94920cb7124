// leader.c: the main thread exits (pthread_exit) at once; a worker goes on for MS ms.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int ms;
static void *t(void *a) {
    (void)a;
    for (int i = 0; i < 10; i++) {
        getppid();
        usleep(ms * 100);
    }
    printf("worker done\n");
    exit(3);
}
int main(int c, char **v) {
    ms = c > 1 ? atoi(v[1]) : 1000;
    pthread_t p;
    pthread_create(&p, 0, t, 0);
    pthread_exit(0);
}
