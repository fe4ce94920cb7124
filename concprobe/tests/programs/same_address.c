// same_address.c PROCESSES: as many processes, each a copy of the first, with a lock that is each one's own though it
// is at the same address in all of them. In each one thread waits once for the other.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sem_t own_semaphore;

static void *post(void *unused) {
    struct timespec while_it_sleeps = {0, 20000000};
    nanosleep(&while_it_sleeps, 0);
    sem_post(&own_semaphore);
    return unused;
}

int main(int count, char **words) {
    int processes = count > 1 ? atoi(words[1]) : 2;
    for (int index = 0; index < processes; index++)
        if (fork() == 0) {
            pthread_t thread;
            pthread_create(&thread, 0, post, 0);
            sem_wait(&own_semaphore);
            pthread_join(thread, 0);
            return 0;
        }
    while (wait(0) > 0)
        ;
    return 0;
}
