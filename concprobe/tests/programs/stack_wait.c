/* A thread that sleeps below functions with known names, on a lock at a known kind of place.
 * Usage: stack_wait KIND [FILE]; prints the number of the sleeping process, its thread and the address. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t shards[20000];
sem_t queue_items;
pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static const char *kind = "mutex";
static pthread_mutex_t *lock = &queue_lock;
static volatile int sink;

__attribute__((noinline)) void inner_wait(int depth) {
    char room[64];
    memset(room, depth, sizeof room);
    if (!strcmp(kind, "semaphore")) {
        sem_wait(&queue_items);
    } else if (!strcmp(kind, "condition")) {
        pthread_cond_wait(&queue_filled, lock);
    } else {
        pthread_mutex_lock(lock);
    }
    sink += room[depth & 63];
}

__attribute__((noinline)) void middle_wait(int depth) {
    inner_wait(depth + 1);
    sink += depth;
}

/* Without a bound that the compiler knows, the frame is addressed by a frame pointer. */
__attribute__((noinline)) void outer_wait(int depth) {
    volatile char *room = __builtin_alloca(16 + depth);
    room[0] = (char)depth;
    middle_wait(depth + 1);
    sink += room[0];
}

__attribute__((noinline)) void deep_wait(int depth) {
    volatile char room[128];
    room[0] = (char)depth;
    if (depth > 0) {
        deep_wait(depth - 1);
    } else {
        outer_wait(1);
    }
    sink += room[0];
}

/* Code made at run time, which keeps a frame pointer and has no other information on it. */
__attribute__((noinline)) void call_made(void) {
#if defined(__x86_64__)
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xbf, 1, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
    unsigned char *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[64];
    memcpy(made, code, sizeof code);
    mprotect(made, 4096, PROT_READ | PROT_EXEC);
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *file = fopen(name, "w");
    fprintf(file, "%lx %zx made_function\n", (unsigned long)made, sizeof code);
    fclose(file);
    __asm__ volatile("call *%1" : : "a"(outer_wait), "r"(made) : "rdi", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory");
#else
    outer_wait(1);
#endif
    sink += 1;
}

static void announce(void *address) {
    printf("%d %ld %p\n", getpid(), syscall(SYS_gettid), address);
    fflush(stdout);
}

void *thread_body(void *argument) {
    if (!strcmp(kind, "condition")) {
        pthread_mutex_lock(lock);
    }
    announce(argument);
    if (!strcmp(kind, "made")) {
        call_made();
    } else if (!strcmp(kind, "deep")) {
        deep_wait(400);
    } else {
        outer_wait(1);
    }
    sink += 1;
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t thread;
    void *address;
    if (count > 1) {
        kind = arguments[1];
    }
    if (!strcmp(kind, "heap")) {
        char *memory = malloc(256);
        lock = (pthread_mutex_t *)(memory + 64);
        pthread_mutex_init(lock, NULL);
    } else if (!strcmp(kind, "zeroed")) {
        lock = &shards[15000];
    } else if (!strcmp(kind, "shared")) {
        pthread_mutexattr_t attributes;
        int file = open(arguments[2], O_RDWR | O_CREAT, 0600);
        if (file < 0 || ftruncate(file, 8192)) {
            return 1;
        }
        char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 4096);
        lock = (pthread_mutex_t *)(memory + 128);
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(lock, &attributes);
    }
    address = !strcmp(kind, "semaphore") ? (void *)&queue_items
              : !strcmp(kind, "condition") ? (void *)&queue_filled
                                           : (void *)lock;
    if (strcmp(kind, "condition")) {
        pthread_mutex_lock(lock);
    }
    if (!strcmp(kind, "fork")) {
        if (fork() == 0) {
            announce(address);
            outer_wait(1);
        }
        pause();
    }
    if (!strcmp(kind, "main")) {
        announce(address);
        outer_wait(1);
    }
    pthread_create(&thread, NULL, thread_body, address);
    pthread_join(thread, NULL);
    return 0;
}
