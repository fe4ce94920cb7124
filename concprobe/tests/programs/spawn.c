// spawn.c: N threads one after another (K at once), each does one getppid and one 1 ms sleep.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *t(void *a) {
    (void)a;
    getppid();
    usleep(1000);
    return 0;
}
int main(int c, char **v) {
    int n = c > 1 ? atoi(v[1]) : 1000, k = c > 2 ? atoi(v[2]) : 1;
    pthread_t p[4096];
    if (k > 4096)
        k = 4096;
    for (int i = 0; i < n; i += k) {
        int m = n - i < k ? n - i : k;
        for (int j = 0; j < m; j++)
            if (pthread_create(&p[j], 0, t, 0))
                _exit(11);
        for (int j = 0; j < m; j++)
            pthread_join(p[j], 0);
    }
    return 0;
}
