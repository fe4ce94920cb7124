// words.c N: one thread waits at N futex words, 200 us at each. Prints the kernel's own count of its sleeps: now and
// then the time is over before it sleeps.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

int main(int count, char **arguments) {
    long words = count > 1 ? atol(arguments[1]) : 1000;
    int *word = malloc(words * sizeof *word);
    for (long index = 0; index < words; index++)
        word[index] = 0;
    struct timespec limit = {0, 200000};
    long before = sleeps();
    for (long index = 0; index < words; index++)
        syscall(SYS_futex, &word[index], FUTEX_WAIT_PRIVATE, 0, &limit, 0, 0);
    printf("slept=%ld\n", sleeps() - before);
    return 0;
}
