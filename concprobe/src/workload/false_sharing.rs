//! Counters side by side on one cache line: threads that share no data, and yet the line.

use super::counting;
use crate::harness::{Claim, CrewSize, Entry};

pub(super) static ENTRY: Entry = Entry {
    name: "false-sharing",
    summary: "the price of neighbours: each thread counts for itself, but on a cache line of all",
    op: "one atomic addition to the thread's own counter",
    claim: Claim::NeverEntersKernel,
    default_ops: 40_000_000,
    crew: CrewSize::Threads(4),
    parameters: &[],
    unavailable: None,
    build: |settings| Ok(counting::build(settings, 1)),
};
