// The same in C++: names are mangled, and calls go through templates, members and handlers of exceptions.
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace store {
std::mutex gate;
volatile int sink;

struct Shelf {
    __attribute__((noinline)) void take(int count);
};

void Shelf::take(int count) {
    std::lock_guard<std::mutex> guard(gate);
    sink = sink + count;
}

template <typename Number> __attribute__((noinline)) void fetch(Shelf &shelf, Number count) {
    try {
        shelf.take(static_cast<int>(count));
    } catch (const std::runtime_error &) {
        sink = 1;
    }
    sink = sink + 1;
}
} // namespace store

int main() {
    store::gate.lock();
    std::thread thread([] {
        std::printf("%d %ld %p\n", getpid(), syscall(SYS_gettid), static_cast<void *>(&store::gate));
        std::fflush(stdout);
        store::Shelf shelf;
        store::fetch<long>(shelf, 3);
        store::sink = store::sink + 1;
    });
    thread.join();
}
