//! The screen of a look at a program: the verdict first, then locks, other sleeps, creation, threads and
//! processes, the evidence, and what could not be seen.

use concprobe_common::lock_calls::acquires;

use super::text::{Page, Style, wrapped};
use crate::{
    observation::{
        Latencies,
        trace::{Kind, Lock, Process, Sleeps, StackShare, Thread, Trace},
    },
    units::{count, duration_ns, mebibytes, share},
};

/// Rows that are shown of each table; `--verbose` shows all.
const ROWS: usize = 12;
/// Locks that are shown with their stacks.
const WITH_STACKS: usize = 3;
/// Frames that are shown of a stack.
const FRAMES: usize = 8;

/// The whole screen.
pub fn trace(trace: &Trace, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    title(&mut page, trace);
    page.heading("Verdict");
    bullets(&mut page, "•", &trace.verdict);
    locks(&mut page, trace);
    stacks(&mut page, trace);
    sleeps(&mut page, trace);
    creation(&mut page, trace);
    polling(&mut page, trace);
    calls(&mut page, trace);
    lock_calls(&mut page, trace);
    threads(&mut page, trace);
    processes(&mut page, trace);
    evidence(&mut page, trace);
    page.heading("Not visible");
    bullets(&mut page, "-", &trace.not_visible);
    if !trace.warnings.is_empty() {
        page.heading("Warnings");
        bullets(&mut page, "!", &trace.warnings);
    }
    page.text
}

fn title(page: &mut Page, trace: &Trace) {
    let of = match &trace.command {
        Some(command) => command.join(" "),
        None => format!("process {}", trace.pid),
    };
    let mut title = format!(
        "{}: {} looked at for {} at depth {}{}",
        printable(&of),
        trace.processes.iter().find(|process| process.pid == Some(trace.pid)).map_or("", |first| &first.name),
        duration_ns(trace.wall_ns),
        trace.depth.name(),
        if trace.stacks { ", with stacks" } else { "" }
    );
    if let Some(signal) = trace.interrupted_by {
        title.push_str(&format!(" — ended by signal {signal}"));
    }
    page.line(&title);
}

/// Without what a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn bullets(page: &mut Page, mark: &str, sentences: &[String]) {
    for sentence in sentences {
        for (index, line) in wrapped(&printable(sentence), 100).into_iter().enumerate() {
            page.line(&format!("  {} {line}", if index == 0 { mark } else { " " }));
        }
    }
}

fn optional(value: Option<u64>, show: fn(u64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// The first rows, and how many there are beside.
fn cut<T>(page: &Page, rows: &[T]) -> usize {
    if page.style.verbose { rows.len() } else { rows.len().min(ROWS) }
}

fn rest(page: &mut Page, shown: usize, all: usize) {
    if shown < all {
        page.line(&format!("  … and {} more (--verbose, or -o for all)", count((all - shown) as u64)));
    }
}

fn times(sleeps: &Sleeps) -> Vec<String> {
    let at = |latencies: &Latencies| {
        [latencies.p50_ns, latencies.p99_ns, latencies.max_ns].map(|value| optional(value, duration_ns))
    };
    let [p50, p99, max] = at(&sleeps.blocked);
    let open = if sleeps.open > 0 {
        format!("{} ({})", sleeps.open, duration_ns(sleeps.open_ns))
    } else {
        "-".to_owned()
    };
    vec![
        count(sleeps.threads),
        count(sleeps.slept),
        duration_ns(sleeps.blocked.sum_ns),
        p50,
        p99,
        max,
        duration_ns(sleeps.run_queue.sum_ns),
        open,
    ]
}

const TIMES: [&str; 8] = ["threads", "sleeps", "blocked", "p50", "p99", "max", "run-queue", "still asleep"];

fn locks(page: &mut Page, trace: &Trace) {
    if trace.locks.is_empty() {
        return;
    }
    page.heading("Futex waits, by word in memory");
    let shown = cut(page, &trace.locks);
    let rows = trace.locks[..shown]
        .iter()
        .map(|lock| {
            let mut row = vec![printable(&lock.name), kind(lock)];
            row.extend(times(&lock.sleeps));
            if let (Some(waits), Some(again), Some(wakes)) = (lock.waits, lock.again, lock.wakes) {
                row.extend([count(waits), count(again), optional(lock.timed_out, count), count(wakes)]);
            }
            row
        })
        .collect();
    let mut header = vec!["word", "kind"];
    header.extend(TIMES);
    if trace.counts.futex_waits.is_some() {
        header.extend(["waits", "again", "timed out", "wakes"]);
    }
    page.table(&header, rows);
    rest(page, shown, trace.locks.len());
}

fn kind(lock: &Lock) -> String {
    if lock.idle && lock.kind != Kind::Join {
        format!("{}, idle", lock.kind.name())
    } else {
        lock.kind.name().to_owned()
    }
}

fn stacks(page: &mut Page, trace: &Trace) {
    if !trace.stacks {
        return;
    }
    let costly = trace.locks.iter().filter(|lock| !lock.idle).take(if page.style.verbose {
        usize::MAX
    } else {
        WITH_STACKS
    });
    for lock in costly {
        page.heading(&format!("Who waits at {} {}", lock.kind.name(), printable(&lock.name)));
        for waiter in lock.sleeps.waiters.iter().take(if page.style.verbose { usize::MAX } else { 2 }) {
            stack(page, waiter);
        }
        for waker in lock.wakers.iter().take(if page.style.verbose { usize::MAX } else { 2 }) {
            page.line(&format!(
                "  {} ended by thread {} ({}):",
                share(waker.share),
                printable(&waker.thread),
                waker.host_tid
            ));
            frames(page, &waker.frames);
        }
    }
}

fn stack(page: &mut Page, stack: &StackShare) {
    page.line(&format!(
        "  {} of the time, thread {}:",
        share(stack.share),
        printable(&stack.threads.join(", "))
    ));
    frames(page, &stack.frames);
    if let Some(reason) = &stack.incomplete {
        page.line(&format!("      ({reason})"));
    }
}

fn frames(page: &mut Page, frames: &[String]) {
    let shown = if page.style.verbose { frames.len() } else { frames.len().min(FRAMES) };
    for frame in &frames[..shown] {
        page.line(&format!("      {}", printable(frame)));
    }
    if shown < frames.len() {
        page.line(&format!("      … {} more", frames.len() - shown));
    }
}

fn sleeps(page: &mut Page, trace: &Trace) {
    if trace.sleeps.is_empty() {
        return;
    }
    page.heading("Other sleeps, by system call (wall time)");
    let shown = cut(page, &trace.sleeps);
    let several = trace.processes.len() > 1;
    let rows = trace.sleeps[..shown]
        .iter()
        .map(|sleep| {
            let of = match sleep.host_pid {
                0 => " of processes beyond the table".to_owned(),
                _ if several => format!(" of {}", process_name(trace, sleep.host_pid)),
                _ => String::new(),
            };
            let mut row = vec![format!("{}{of}", sleep.call)];
            row.extend(times(&sleep.sleeps));
            row
        })
        .collect();
    let mut header = vec!["call"];
    header.extend(TIMES);
    page.table(&header, rows);
    rest(page, shown, trace.sleeps.len());
}

fn process_name(trace: &Trace, host_pid: u32) -> String {
    match trace.processes.iter().find(|process| process.host_pid == host_pid) {
        Some(process) => {
            format!("{} {}", printable(&process.name), process.pid.map_or(i64::from(host_pid), i64::from))
        }
        None => host_pid.to_string(),
    }
}

fn creation(page: &mut Page, trace: &Trace) {
    let creation = &trace.creation;
    if creation.threads.saturating_add(creation.processes) == 0 {
        return;
    }
    page.heading("Created");
    page.line(&format!(
        "  {} threads and {} processes; until the first run {} in the median, {} at p99; life {} in the median",
        count(creation.threads),
        count(creation.processes),
        optional(creation.latency.p50_ns, duration_ns),
        optional(creation.latency.p99_ns, duration_ns),
        optional(creation.life.p50_ns, duration_ns)
    ));
    if creation.threads.saturating_add(creation.processes) >= 100 || page.style.verbose {
        for creator in creation.creators.iter().take(2) {
            page.line(&format!(
                "  {} of them by thread {}:",
                share(creator.share),
                printable(&creator.threads.join(", "))
            ));
            frames(page, &creator.frames);
        }
    }
}

fn polling(page: &mut Page, trace: &Trace) {
    let Some(polling) = trace.polling.as_ref().filter(|polling| !polling.is_empty()) else { return };
    page.heading("Polling: calls that yielded nothing");
    let rows = polling
        .iter()
        .take(ROWS)
        .map(|thread| {
            vec![
                printable(&thread.thread),
                count(thread.in_vain),
                count(thread.calls),
                format!("{:.2}", thread.cpus),
            ]
        })
        .collect();
    page.table(&["thread", "in vain", "calls", "CPUs"], rows);
}

fn calls(page: &mut Page, trace: &Trace) {
    let Some(calls) = &trace.calls else { return };
    super::text::calls(page, calls);
}

fn lock_calls(page: &mut Page, trace: &Trace) {
    let Some(calls) = &trace.lock_calls else { return };
    page.heading(&format!("Calls of lock functions in {}", duration_ns(calls.slice_ns)));
    let rows = calls.calls.iter().map(|(function, calls)| vec![function.clone(), count(*calls)]).collect();
    page.table(&["function", "calls"], rows);
    let acquisitions: u64 = calls
        .calls
        .iter()
        .filter(|(function, _)| acquires(function))
        .fold(0, |sum, (_, calls)| sum.saturating_add(*calls));
    let part = if acquisitions == 0 {
        String::new()
    } else {
        format!(", {} of the calls that may sleep", share(calls.slept as f64 / acquisitions as f64))
    };
    page.line(&format!(
        "  {} sleeps at futex words meanwhile{part}; counting cost about {}",
        count(calls.slept),
        duration_ns(calls.cost_ns)
    ));
}

fn threads(page: &mut Page, trace: &Trace) {
    page.heading("Threads (wall time; the parts add up to it)");
    let shown = cut(page, &trace.threads);
    let rows = trace.threads[..shown].iter().map(thread_row).collect();
    page.table(
        &["thread", "id", "wall", "on-CPU", "blocked", "run-queue", "voluntary", "involuntary", "moved"],
        rows,
    );
    rest(page, shown, trace.threads.len());
}

fn thread_row(thread: &Thread) -> Vec<String> {
    let mut name = printable(&thread.name);
    if let Some(first) = &thread.first_name {
        name.push_str(&format!(" (was {})", printable(first)));
    }
    let id = match (thread.tid, thread.host_tid) {
        _ if thread.threads != 1 || thread.host_tid.is_none() => format!("{} ended", count(thread.threads)),
        (Some(tid), _) => tid.to_string(),
        (None, host) => host.map_or_else(|| "-".to_owned(), |host| format!("host {host}")),
    };
    let parts = &thread.parts;
    let part = |value| optional(value, duration_ns);
    vec![
        name,
        id,
        duration_ns(parts.wall_ns),
        part(parts.on_cpu_ns),
        part(parts.blocked_ns),
        part(parts.run_queue_ns),
        optional(thread.counts.voluntary_switches, count),
        optional(thread.counts.involuntary_switches, count),
        optional(thread.counts.migrations, count),
    ]
}

fn processes(page: &mut Page, trace: &Trace) {
    if trace.processes.len() < 2 {
        return;
    }
    page.heading("Processes");
    let mut processes: Vec<&Process> = trace.processes.iter().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.parts.on_cpu_ns));
    let shown = cut(page, &processes);
    let rows = processes[..shown]
        .iter()
        .map(|process| {
            let part = |value| optional(value, duration_ns);
            vec![
                printable(&process.name),
                process.pid.map_or_else(|| format!("host {}", process.host_pid), |pid| pid.to_string()),
                count(process.threads),
                part(process.parts.on_cpu_ns),
                part(process.parts.blocked_ns),
                part(process.parts.run_queue_ns),
                optional(process.counts.syscalls, count),
            ]
        })
        .collect();
    page.table(&["process", "id", "threads", "on-CPU", "blocked", "run-queue", "calls"], rows);
    rest(page, shown, trace.processes.len());
}

fn evidence(page: &mut Page, trace: &Trace) {
    page.heading("Evidence from the kernel");
    let counts = &trace.counts;
    let rows = [
        ("voluntary switches", counts.voluntary_switches),
        ("involuntary switches", counts.involuntary_switches),
        ("migrations", counts.migrations),
        ("futex waits that slept", counts.futex_wait_slept),
        ("futex waits", counts.futex_waits),
        ("of these, the value had changed", counts.futex_wait_again),
        ("of these, timed out", counts.futex_wait_timed_out),
        ("of these, interrupted", counts.futex_wait_interrupted),
        ("futex wakes", counts.futex_wakes),
        ("system calls", counts.syscalls),
        ("threads created", counts.threads_created),
        ("processes created", counts.processes_created),
    ];
    let rows = rows
        .iter()
        .map(|(name, value)| vec![(*name).to_owned(), value.map_or_else(|| "n/a".to_owned(), count)]);
    page.table(&["", "count"], rows.collect());
    let check = if trace.self_check.passed { "passed" } else { "FAILED" };
    page.line(&format!(
        "  self-check {check}: {}; {} events lost",
        trace.self_check.detail,
        count(trace.lost)
    ));
    if let Some(copies) = &trace.stack_copies {
        page.line(&format!(
            "  stacks: {} copied, {} unwound to the thread's beginning, {} cut off, {} without unwind \
             information, {} lost",
            count(copies.taken),
            count(copies.complete),
            count(copies.truncated),
            count(copies.without_unwind_info),
            count(copies.lost)
        ));
    }
    let peak = trace.memory.driver_peak_bytes.map_or_else(|| "?".to_owned(), mebibytes);
    page.line(&format!(
        "  memory: {} in the kernel's maps, fixed; concprobe itself {peak} at most",
        mebibytes(trace.memory.map_bytes)
    ));
}
