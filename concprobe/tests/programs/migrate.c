// migrate.c [N=1000]: N times: sleep 1 ms, then move to the other CPU (0/1); prints moves seen with
// sched_getcpu.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int c, char **v) {
    int n = c > 1 ? atoi(v[1]) : 1000, m = 0, last = sched_getcpu();
    for (int i = 0; i < n; i++) {
        cpu_set_t s;
        CPU_ZERO(&s);
        CPU_SET(i & 1, &s);
        usleep(1000);
        sched_setaffinity(0, sizeof s, &s);
        int k = sched_getcpu();
        m += k != last;
        last = k;
    }
    printf("moves=%d sleeps=%d\n", m, n);
    return 0;
}
