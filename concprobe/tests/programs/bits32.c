// bits32.c: a 32-bit program without a C library. It waits five times at `word` for 20 ms, and is woken by nobody.
// cc: -m32 -nostdlib -static -ffreestanding -fno-stack-protector -fno-pie -no-pie
enum { EXIT = 1, FUTEX = 240, WAIT_PRIVATE = 128 };

unsigned word;

static int call(int number, int first, int second, int third, int fourth) {
    int result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third), "S"(fourth)
                     : "memory");
    return result;
}

void _start(void) {
    int limit[2] = {0, 20000000};
    for (int turn = 0; turn < 5; turn++)
        call(FUTEX, (int)&word, WAIT_PRIVATE, 0, (int)limit);
    call(EXIT, 0, 0, 0, 0);
}
