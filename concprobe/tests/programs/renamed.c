// renamed.c: one thread renames itself twice, another is renamed by the first thread, which also renames itself. All live for 50 ms.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_barrier_t together;

static void *own(void *unused) {
    prctl(PR_SET_NAME, "own-1");
    prctl(PR_SET_NAME, "own-2");
    pthread_barrier_wait(&together);
    return unused;
}

static void *others(void *unused) {
    pthread_barrier_wait(&together);
    return unused;
}

int main(void) {
    pthread_t first, second;
    pthread_barrier_init(&together, 0, 3);
    pthread_create(&first, 0, own, 0);
    pthread_create(&second, 0, others, 0);
    usleep(20000); /* it runs before it is renamed */
    pthread_setname_np(second, "by-main");
    prctl(PR_SET_NAME, "main-new");
    usleep(50000); /* so that each of them is worth a row of its own */
    pthread_barrier_wait(&together);
    pthread_join(first, 0);
    pthread_join(second, 0);
    return 0;
}
