//! Threads and processes: a row for each thread whose block is there, sums of the others by name.

use std::collections::BTreeMap;

use concprobe_common::block::{Block, Counter, EndedKey, EndedNamed, place};

use super::subject::Subject;
use crate::{
    figures::{self, Look},
    observation::{
        Counts, Parts,
        trace::{Open, Process, Thread},
    },
};

/// A thread's name, which may be any bytes.
pub(super) fn name(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes[..end].escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\"")
}

/// The row of a thread whose block was read at `now`.
pub(super) fn of_block(block: &Block, now: u64, subject: &Subject, look: Look) -> Thread {
    let ended = block.place == place::DEAD;
    let end = if ended { block.ended_ns } else { now };
    let started = if block.started_ns == 0 { end } else { block.started_ns };
    let mut counters = block.counters;
    let open = (!ended).then(|| open_part(block, subject)).flatten().map(|counter| {
        let duration_ns = end.saturating_sub(block.since_ns.max(started));
        counters[counter as usize] += duration_ns;
        Open {
            part: match counter {
                Counter::BlockedNs => "blocked",
                Counter::RunQueueNs => "run_queue",
                _ => "on_cpu",
            }
            .to_owned(),
            duration_ns,
            since_before: block.existed != 0 && block.since_ns <= started,
        }
    });
    if let Some(waited) = subject.waited_unseen(block) {
        // It had no event at all and is runnable: the kernel's own account tells running from waiting.
        let waited = waited.min(counters[Counter::OnCpuNs as usize]);
        counters[Counter::OnCpuNs as usize] -= waited;
        counters[Counter::RunQueueNs as usize] += waited;
    }
    Thread {
        name: name(&block.name),
        first_name: (block.renames > 0).then(|| name(&block.first_name)),
        renames: block.renames,
        tid: subject.own_tid(block.tid),
        host_tid: Some(block.tid),
        host_pid: block.tgid,
        threads: 1,
        existed_before: block.existed != 0,
        running: !ended,
        open,
        parts: figures::parts(end.saturating_sub(started), &counters, look),
        counts: figures::counts(&counters, look),
        calls_again: look.calls.then_some(counters[Counter::CallsAgain as usize]),
        empty_polls: look.calls.then_some(counters[Counter::EmptyPolls as usize]),
    }
}

/// The sum into which the interval goes that had no end.
fn open_part(block: &Block, subject: &Subject) -> Option<Counter> {
    if block.place == place::UNSEEN {
        return Some(if subject.sleeps(block.tid) { Counter::BlockedNs } else { Counter::OnCpuNs });
    }
    if block.started_ns == 0 {
        return None; // it never ran: its time has not begun
    }
    place::counter(block.place)
}

/// The row of threads that ended under one name.
pub(super) fn of_ended(key: &EndedKey, sums: &EndedNamed, look: Look) -> Thread {
    Thread {
        name: name(&key.name),
        first_name: None,
        renames: 0,
        tid: None,
        host_tid: None,
        host_pid: key.tgid,
        threads: sums.threads,
        existed_before: false,
        running: false,
        open: None,
        parts: figures::parts(sums.wall_ns, &sums.counters, look),
        counts: figures::counts(&sums.counters, look),
        calls_again: look.calls.then_some(sums.counters[Counter::CallsAgain as usize]),
        empty_polls: look.calls.then_some(sums.counters[Counter::EmptyPolls as usize]),
    }
}

/// What is known of a process beside its threads' rows.
#[derive(Debug, Default)]
struct Facts {
    name: Option<String>,
    parent: u32,
    running: bool,
    threads: u64,
    parts: Vec<Parts>,
    counts: Vec<Counts>,
}

/// The processes of these threads.
pub(super) fn processes(
    threads: &[Thread],
    blocks: &[(Block, u64)],
    ended: &[(EndedKey, EndedNamed)],
    subject: &Subject,
) -> Vec<Process> {
    let mut processes: BTreeMap<u32, Facts> = BTreeMap::new();
    for thread in threads {
        let facts = processes.entry(thread.host_pid).or_default();
        facts.threads += thread.threads;
        facts.running |= thread.running;
        facts.parts.push(thread.parts);
        facts.counts.push(thread.counts);
        facts.name.get_or_insert_with(|| thread.name.clone());
    }
    for (key, sums) in ended {
        if let Some(facts) = processes.get_mut(&key.tgid) {
            facts.parent = sums.parent;
            if sums.leader != 0 {
                facts.name = Some(name(&key.name));
            }
        }
    }
    for (block, _) in blocks {
        if let Some(facts) = processes.get_mut(&block.tgid) {
            facts.parent = block.parent;
            if block.tid == block.tgid {
                facts.name = Some(name(&block.name));
            }
        }
    }
    processes
        .into_iter()
        .map(|(host_pid, facts)| Process {
            pid: subject.own_tid(host_pid),
            host_pid,
            host_parent: facts.parent,
            name: facts.name.unwrap_or_default(),
            running: facts.running,
            threads: facts.threads,
            parts: figures::sum_parts(facts.parts.iter()),
            counts: figures::sum_counts(facts.counts.iter()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn names_are_shown_whatever_bytes_they_are() {
        let padded = |text: &[u8]| {
            let mut bytes = [0; 16];
            bytes[..text.len()].copy_from_slice(text);
            bytes
        };
        for (bytes, shown) in [
            (&b"worker"[..], "worker"),
            (b"", ""),
            (b"a,b\"c'd", "a,b\"c'd"),
            (b"line\nbreak", "line\\nbreak"),
            (b"\x1b[31m", "\\x1b[31m"),
            (b"\xff\xfe", "\\xff\\xfe"),
            (b"fifteen letters", "fifteen letters"),
        ] {
            assert_eq!(name(&padded(bytes)), shown);
        }
    }
}
