// forks.c N [AT_ONCE=1]: N processes, so many at once, each with one getppid and one sleep of 1 ms.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words) {
    int processes = count > 1 ? atoi(words[1]) : 100, at_once = count > 2 ? atoi(words[2]) : 1, alive = 0;
    for (int index = 0; index < processes; index++) {
        pid_t child = fork();
        if (child < 0)
            _exit(11);
        if (child == 0) {
            getppid();
            usleep(1000);
            _exit(0);
        }
        if (++alive == at_once) {
            wait(0);
            alive--;
        }
    }
    while (wait(0) > 0)
        ;
    return 0;
}
