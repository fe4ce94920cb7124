// The originals that `async-tasks`, `future-handoff` and `future-deferred` are measured against.
// Each returns 0, or 1 when something was thrown: nothing passes into Rust.
#include <cstdint>
#include <future>
#include <thread>
#include <utility>

namespace {

// The task of `src/workload/task.rs`. (Xorshift, G. Marsaglia, 2003.)
std::uint64_t task(std::uint64_t work) {
    volatile std::uint64_t seed = 0x9e3779b97f4a7c15u;
    std::uint64_t state = seed;
    for (volatile std::uint64_t step = 0; step < work; step = step + 1) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}

template <typename Call>
int guarded(std::uint64_t *result, Call call) noexcept {
    try {
        *result = call();
        return 0;
    } catch (...) {
        return 1;
    }
}

} // namespace

extern "C" int concprobe_async(std::uint64_t work, std::uint64_t *result) noexcept {
    return guarded(result, [work] { return std::async(std::launch::async, task, work).get(); });
}

extern "C" int concprobe_deferred(std::uint64_t work, std::uint64_t *result) noexcept {
    return guarded(result, [work] { return std::async(std::launch::deferred, task, work).get(); });
}

extern "C" int concprobe_handoff(std::uint64_t work, std::uint64_t *result) noexcept {
    return guarded(result, [work] {
        std::promise<std::uint64_t> promise;
        std::future<std::uint64_t> future = promise.get_future();
        std::thread producer([work, &promise] { promise.set_value(task(work)); });
        std::uint64_t value = future.get();
        producer.join();
        return value;
    });
}
