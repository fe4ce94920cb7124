//! Reading what the tools print: one file for each family.

pub(super) mod bpftrace;
pub(super) mod concprobe;
pub(super) mod libbpf_tools;
pub(super) mod perf;
pub(super) mod strace;

use std::fs;

use anyhow::{Context as _, Result};

use super::answer::Answer;
use super::program::Count;
use super::tool::Output;

/// Without a tool there is no answer.
#[expect(clippy::unnecessary_wraps, reason = "it has the type of the readers that can fail")]
pub(super) fn nothing(_output: &Output<'_>) -> Result<Answer> {
    Ok(Answer::default())
}

fn file(output: &Output<'_>) -> Result<String> {
    fs::read_to_string(output.file).with_context(|| format!("cannot read {}", output.file.display()))
}

/// What system calls of this name tell. Processes are created by `clone`, threads by `clone3`, with Debian's glibc.
fn counted_by_call(name: &str) -> Option<Count> {
    match name {
        "futex" => Some(Count::FutexCalls),
        "getppid" => Some(Count::Getppid),
        "clone3" => Some(Count::Threads),
        "clone" => Some(Count::Processes),
        _ => None,
    }
}

/// Sums per count, every count of `all` being there: a tool that saw none of a kind lists it nowhere.
fn summed(all: &[Count], seen: impl IntoIterator<Item = (Count, u64)>) -> Vec<(Count, u64)> {
    let mut sums: Vec<_> = all.iter().map(|&count| (count, 0)).collect();
    for (count, events) in seen {
        if let Some((_, sum)) = sums.iter_mut().find(|(which, _)| *which == count) {
            *sum += events;
        }
    }
    sums
}
