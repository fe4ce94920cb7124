// Threads with names that a report must not take as they are; each sleeps so many milliseconds (50).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *NAMES[] = {"a,b;c",    "say \"hi\"",   "new\nline",       "\xff\xfe\xc3(",
                              "tab\there", "\x1b[31mred", "exactly15chars_", ""};
enum { COUNT = sizeof NAMES / sizeof *NAMES };
static useconds_t duration = 50000;
static pthread_barrier_t named;

static void *sleeper(void *name) {
  prctl(PR_SET_NAME, name);
  pthread_barrier_wait(&named);
  usleep(duration);
  return NULL;
}

int main(int count, char **arguments) {
  pthread_t threads[COUNT];
  if (count > 1) duration = atoi(arguments[1]) * 1000;
  prctl(PR_SET_NAME, "main\x1b[32m\n");
  pthread_barrier_init(&named, NULL, COUNT + 1);
  for (int i = 0; i < COUNT; i++) pthread_create(&threads[i], NULL, sleeper, (void *)NAMES[i]);
  pthread_barrier_wait(&named);
  puts("named");
  fflush(stdout);
  for (int i = 0; i < COUNT; i++) pthread_join(threads[i], NULL);
  return 0;
}
