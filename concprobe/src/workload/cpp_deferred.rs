//! C++ `std::async` with `launch::deferred`: the original of `future-deferred`.

use super::cpp::{self, Function};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "cpp-deferred",
    summary: "the price of std::async that runs on the caller at get(), in C++",
    op: "one std::async(launch::deferred) and get()",
    claim: Claim::CreatesNoThread,
    default_ops: 200_000,
    crew: CrewSize::Threads(1),
    parameters: &[cpp::WORK],
    unavailable: cpp::UNAVAILABLE,
    build: |settings| cpp::build(settings, Function::Deferred),
};
