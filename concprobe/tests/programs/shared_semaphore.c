// shared_semaphore.c FILE ROUNDS: two processes hand over by two semaphores in a file that each has mapped at an
// address of its own, 4096 + 512 and 4096 + 1024 from its start. With FILE `-`: in memory without a file. Prints the
// kernel's own count of the sleeps.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static void __attribute__((noinline)) ask(sem_t *there, sem_t *back) {
    sem_post(there);
    sem_wait(back);
    __asm__ volatile("");
}

static void __attribute__((noinline)) answer(sem_t *there, sem_t *back) {
    sem_wait(there);
    sem_post(back);
    __asm__ volatile("");
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    int in_file = strcmp(words[1], "-") != 0, pipes[2];
    long rounds = atol(words[2]), other = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    int file = in_file ? open(words[1], O_RDWR | O_CREAT, 0600) : -1;
    if (in_file && ftruncate(file, 8192))
        return 1;
    int flags = in_file ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
    char *memory = mmap(0, 8192, PROT_READ | PROT_WRITE, flags, file, 0);
    sem_init((sem_t *)(memory + 4096 + 512), 1, 0);
    sem_init((sem_t *)(memory + 4096 + 1024), 1, 0);
    if (pipe(pipes))
        return 1;
    if (fork() == 0) {
        char *page = memory + 4096;
        if (in_file) {
            /* The old place is taken first, so that the new one is another. */
            mmap(memory, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 4096);
        }
        long before = sleeps();
        for (long round = 0; round < rounds; round++)
            answer((sem_t *)(page + 512), (sem_t *)(page + 1024));
        other = sleeps() - before;
        return write(pipes[1], &other, sizeof other) != sizeof other;
    }
    long before = sleeps();
    for (long round = 0; round < rounds; round++)
        ask((sem_t *)(memory + 4096 + 512), (sem_t *)(memory + 4096 + 1024));
    long own = sleeps() - before;
    if (read(pipes[0], &other, sizeof other) != sizeof other)
        return 1;
    wait(0);
    printf("slept=%ld\n", own + other);
    return 0;
}
