//! Counters on cache lines of their own: `false-sharing` without the sharing.

use super::counting;
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "padded",
    summary: "the price of counting alone: as false-sharing, but each thread on a cache line of its own",
    op: "one atomic addition to the thread's own counter",
    claim: Claim::NeverEntersKernel,
    default_ops: 40_000_000,
    crew: CrewSize::Threads(4),
    parameters: &[],
    unavailable: None,
    build: |settings| Ok(counting::build(settings, counting::LINE)),
};
