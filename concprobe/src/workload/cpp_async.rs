//! C++ `std::async` with `launch::async`: the original of `async-tasks`.

use super::cpp::{self, Function};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "cpp-async",
    summary: "the price of std::async with a thread for each tiny task, in C++",
    op: "one std::async(launch::async) and get()",
    claim: Claim::OneThreadPerOp,
    default_ops: 5_000,
    crew: CrewSize::Threads(1),
    parameters: &[cpp::WORK],
    unavailable: cpp::UNAVAILABLE,
    build: |settings| cpp::build(settings, Function::Async),
};
