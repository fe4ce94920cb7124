// words.c N: one thread waits at N futex words, 50 us at each.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **arguments) {
    long words = count > 1 ? atol(arguments[1]) : 1000;
    int *word = calloc(words, sizeof *word);
    struct timespec limit = {0, 50000};
    for (long index = 0; index < words; index++)
        syscall(SYS_futex, &word[index], FUTEX_WAIT_PRIVATE, 0, &limit, 0, 0);
    return 0;
}
