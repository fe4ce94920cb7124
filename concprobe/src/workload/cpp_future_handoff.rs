//! C++ `std::promise` fulfilled by a new `std::thread`: the original of `future-handoff`.

use super::cpp::{self, Function};
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "cpp-future-handoff",
    summary: "the price of std::promise and std::future with a new std::thread each, in C++",
    op: "one promise, a thread that fulfils it, get(), and the join",
    claim: Claim::OneThreadPerOp,
    default_ops: 5_000,
    crew: CrewSize::Threads(1),
    parameters: &[cpp::WORK],
    unavailable: cpp::UNAVAILABLE,
    build: |settings| cpp::build(settings, Function::Handoff),
};
