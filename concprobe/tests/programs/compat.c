// compat.c: N int-0x80 (i386) getpid calls (nr 20) and N i386 futex WAKE (nr 240) from a 64-bit process.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int c, char **v) {
    int n = c > 1 ? atoi(v[1]) : 1000;
    long r = 0;
    int *w = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    for (int i = 0; i < n; i++) {
        int ret;
        __asm__ volatile("int $0x80" : "=a"(ret) : "a"(20) : "r8", "r9", "r10", "r11", "memory");
        r += ret > 0;
    }
    for (int i = 0; i < n; i++) {
        int ret;
        __asm__ volatile("int $0x80"
                         : "=a"(ret)
                         : "a"(240), "b"(w), "c"(129), "d"(1), "S"(0), "D"(0)
                         : "r8", "r9", "r10", "r11", "memory");
        r += ret == 0;
    }
    printf("ok=%ld of %d\n", r, 2 * n);
    return 0;
}
