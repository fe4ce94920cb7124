// poll.c [N]: N reads of an empty pipe that does not block, and N polls of it that do not wait.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words) {
    long times = count > 1 ? atol(words[1]) : 100000;
    int ends[2];
    if (pipe2(ends, O_NONBLOCK))
        return 1;
    struct pollfd empty = {.fd = ends[0], .events = POLLIN};
    char byte;
    for (long time = 0; time < times; time++) {
        if (read(ends[0], &byte, 1) >= 0 || poll(&empty, 1, 0) != 0)
            return 2;
    }
    return 0;
}
