// shared_word.c FILE: four processes that each wait five times for 20 ms at the same word of a file.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    int file = count > 1 ? open(words[1], O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, 4096))
        return 1;
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    uint32_t *word = (uint32_t *)(page + 256);
    fork();
    fork();
    struct timespec limit = {.tv_nsec = 20000000};
    for (int round = 0; round < 5; round++)
        syscall(SYS_futex, word, FUTEX_WAIT, 0, &limit, 0, 0);
    while (wait(0) > 0)
        ;
    return 0;
}
