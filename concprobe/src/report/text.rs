//! The screen for people: the verdict first, then classes, parts, evidence, the histogram, the machine.

use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};

use super::plot;
use crate::{
    environment::format_cpu_list,
    harness::tally,
    observation::{Call, Latencies, Observation, Parts},
    units::{count, duration_ns, mebibytes, per_op_ps, share},
};

/// How the screen is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Bold headings.
    pub colour: bool,
    /// More about concprobe itself.
    pub verbose: bool,
}

/// A screen in the making.
pub(super) struct Page {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Page {
    pub(super) fn heading(&mut self, heading: &str) {
        let (on, off) = if self.style.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        self.line(&format!("\n{on}{heading}{off}"));
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Indented, every column but the first flush right.
    pub(super) fn table(&mut self, header: &[&str], rows: Vec<Vec<String>>) {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(header.iter().copied());
        table.add_rows(rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((if index == 0 { 2 } else { 1 }, 1));
            if index > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            self.line(line.trim_end());
        }
    }
}

/// The whole screen.
///
/// # Errors
/// When a histogram of the observation cannot be decoded.
pub fn text(observation: &Observation, style: Style) -> Result<String> {
    let mut page = Page { text: String::new(), style };
    title(&mut page, observation);
    page.heading("Verdict");
    for sentence in &observation.verdict {
        for (index, line) in wrapped(sentence, 100).into_iter().enumerate() {
            page.line(&format!("  {} {line}", if index == 0 { "•" } else { " " }));
        }
    }
    classes(&mut page, observation);
    parts(&mut page, observation);
    setup(&mut page, observation);
    creation(&mut page, observation);
    evidence(&mut page, observation);
    extras(&mut page, observation);
    histogram(&mut page, observation)?;
    if let Some(found) = &observation.calls {
        calls(&mut page, found);
    }
    if style.verbose {
        itself(&mut page, observation);
    }
    machine(&mut page, observation);
    for warning in &observation.warnings {
        for (index, line) in wrapped(warning, 100).into_iter().enumerate() {
            page.line(&format!("  {} {line}", if index == 0 { "!" } else { " " }));
        }
    }
    Ok(page.text)
}

fn title(page: &mut Page, observation: &Observation) {
    let mut title = format!(
        "{}: {} ops in {} repetitions, {}",
        observation.workload,
        count(observation.ops),
        observation.repetitions.len(),
        duration_ns(observation.wall_ns)
    );
    if observation.estimate {
        title.push_str(" — ESTIMATE, without evidence from the kernel");
    }
    if let Some(signal) = observation.interrupted_by {
        let _ = write!(title, " — PARTIAL, interrupted by signal {signal}");
    }
    page.line(&title);
    page.line(&format!("  an op: {}", observation.op));
}

fn classes(page: &mut Page, observation: &Observation) {
    page.heading("Ops by class");
    let optional = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), duration_ns);
    let mut rows = Vec::new();
    let all = observation.latency.iter().map(|latency| ("all (classes unknown)", latency));
    let shown: Vec<_> =
        if observation.estimate { all.collect() } else { observation.classes.measured().collect() };
    for (name, class) in shown {
        let fine = observation.batches.as_ref().filter(|_| matches!(name, "fast" | "not_switched"));
        let figures = match fine {
            Some(batches) => [batches.min_ps, batches.p50_ps, batches.p99_ps, batches.max_ps]
                .map(|value| value.map_or_else(|| "-".to_owned(), per_op_ps)),
            None => [class.min_ns, class.p50_ns, class.p99_ns, class.max_ns].map(optional),
        };
        let part = class.count as f64 / observation.ops.max(1) as f64;
        let mut row = vec![name.replace('_', " "), count(class.count), share(part)];
        row.extend(figures);
        rows.push(row);
    }
    page.table(&["class", "ops", "share", "min", "p50", "p99", "max"], rows);
    if let Some(batches) = &observation.batches {
        page.line(&format!(
            "  timed in batches of {} ops: {} undisturbed; {} in which the kernel was entered, whose ops carry their batch's mean",
            count(batches.ops),
            count(batches.undisturbed),
            count(batches.disturbed)
        ));
    }
}

fn parts(page: &mut Page, observation: &Observation) {
    let threads: u64 = observation.threads.iter().map(|thread| thread.threads).fold(0, u64::saturating_add);
    page.heading(&format!(
        "Where the time went ({} of {} {})",
        duration_ns(observation.parts.wall_ns),
        count(threads),
        if threads == 1 { "thread" } else { "threads" }
    ));
    let mut rows = vec![part_row("all", &observation.parts)];
    if observation.threads.len() > 1 {
        let few = observation.threads.iter().take(16);
        rows.extend(few.map(|thread| part_row(&thread.name, &thread.parts)));
    }
    page.table(&["thread", "wall", "user", "kernel", "blocked", "run-queue", "unaccounted"], rows);
    if observation.threads.len() > 16 {
        page.line(&format!("  … and {} more, in the JSON", observation.threads.len() - 16));
    }
}

fn setup(page: &mut Page, observation: &Observation) {
    if let Some(setup) = observation.footprint.crew_setup_ns {
        page.line(&format!("  making the crew took {}, which is in no other figure", duration_ns(setup)));
    }
}

fn part_row(name: &str, parts: &Parts) -> Vec<String> {
    let wall = parts.wall_ns.max(1) as f64;
    let part =
        |value: Option<u64>| value.map_or_else(|| "n/a".to_owned(), |value| share(value as f64 / wall));
    let (user, kernel) = match (parts.user_ns, parts.kernel_ns) {
        (None, None) => (format!("on-CPU {}", part(parts.on_cpu_ns)), "n/a".to_owned()),
        (user, kernel) => (part(user), part(kernel)),
    };
    let unaccounted = parts.unaccounted_ns.map_or_else(
        || "n/a".to_owned(),
        |ns| format!("{}{}", if ns < 0 { "-" } else { "" }, share(ns.unsigned_abs() as f64 / wall)),
    );
    vec![
        name.to_owned(),
        duration_ns(parts.wall_ns),
        user,
        kernel,
        part(parts.blocked_ns),
        part(parts.run_queue_ns),
        unaccounted,
    ]
}

fn creation(page: &mut Page, observation: &Observation) {
    let Some(creation) = observation.creation.filter(|creation| creation.ops > 0) else { return };
    page.heading("What creating costs, by op");
    let row = |name: &str, sum: u64| {
        vec![
            name.to_owned(),
            duration_ns(sum / creation.ops),
            share(sum as f64 / creation.op_ns.max(1) as f64),
        ]
    };
    page.table(
        &["part", "mean", "share"],
        vec![
            row("library, before clone", creation.setup_ns),
            row("clone, until runnable", creation.clone_ns),
            row("wait for the first run", creation.first_run_wait_ns),
            row("run, exit and join", creation.exit_and_join_ns),
            row("whole op", creation.op_ns),
        ],
    );
    if let Some(exit_ns) = creation.exit_ns.filter(|exit_ns| *exit_ns > 0) {
        let mean = duration_ns(exit_ns / creation.ops);
        page.line(&format!(
            "  a thread's exit takes {mean} until its last switch, the end of it after the join"
        ));
    }
}

fn evidence(page: &mut Page, observation: &Observation) {
    let counts = &observation.counts;
    page.heading(if observation.estimate {
        "Counts (getrusage)"
    } else {
        "Evidence from the kernel (exact)"
    });
    let per_op = |value: u64| format!("{:.3}", value as f64 / observation.ops.max(1) as f64);
    let rows = [
        ("system calls", counts.syscalls),
        ("futex waits", counts.futex_waits),
        ("  of these slept", counts.futex_wait_slept),
        ("  value had changed", counts.futex_wait_again),
        ("futex wakes", counts.futex_wakes),
        ("voluntary switches", counts.voluntary_switches),
        ("involuntary switches", counts.involuntary_switches),
        ("migrations", counts.migrations),
        ("threads created", counts.threads_created),
        ("processes created", counts.processes_created),
    ]
    .into_iter()
    .map(|(name, value)| match value {
        Some(value) => vec![name.to_owned(), count(value), per_op(value)],
        None => vec![name.to_owned(), "n/a".to_owned(), String::new()],
    })
    .collect();
    page.table(&["event", "count", "per op"], rows);
    let intervals = observation.intervals.iter().flat_map(|intervals| {
        [
            ("blocked", &intervals.blocked),
            ("run-queue", &intervals.run_queue),
            ("creation", &intervals.creation),
        ]
    });
    let rows: Vec<Vec<String>> = intervals
        .filter(|(_, interval)| interval.count > 0)
        .map(|(name, interval)| latency_row(name, interval))
        .collect();
    if !rows.is_empty() {
        page.table(&["interval", "count", "min", "p50", "p99", "max"], rows);
    }
}

fn extras(page: &mut Page, observation: &Observation) {
    if observation.extra_times.is_empty() && observation.extra_counts.is_empty() {
        return;
    }
    page.heading("Beside the ops");
    let rows: Vec<Vec<String>> =
        observation.extra_times.iter().map(|(name, times)| latency_row(name, times)).collect();
    if !rows.is_empty() {
        page.table(&["time", "count", "min", "p50", "p99", "max"], rows);
    }
    for (name, number) in &observation.extra_counts {
        page.line(&format!("  {name}: {}", count(*number)));
    }
}

fn latency_row(name: &str, latencies: &Latencies) -> Vec<String> {
    let mut row = vec![name.to_owned(), count(latencies.count)];
    row.extend(
        [latencies.min_ns, latencies.p50_ns, latencies.p99_ns, latencies.max_ns]
            .map(|value| value.map_or_else(|| "-".to_owned(), duration_ns)),
    );
    row
}

fn histogram(page: &mut Page, observation: &Observation) -> Result<()> {
    let (heading, encoded, label): (_, _, fn(u64) -> String) = match &observation.batches {
        Some(batches) => ("Time of an op, by undisturbed batch", batches.histogram.as_ref(), per_op_ps),
        None => (
            "Latency of an op",
            observation.latency.as_ref().and_then(|latency| latency.histogram.as_ref()),
            duration_ns,
        ),
    };
    let Some(encoded) = encoded else { return Ok(()) };
    let rows = plot::rows(&tally::decode(encoded)?, label);
    if rows.is_empty() {
        return Ok(());
    }
    page.heading(heading);
    for (label, number, bar) in rows {
        page.line(format!("  {label:>10} {:>12} {bar}", count(number)).trim_end());
    }
    Ok(())
}

pub(super) fn calls(page: &mut Page, calls: &[Call]) {
    page.heading("System calls");
    let rows = calls
        .iter()
        .map(|call| {
            let table = if call.compat { " (32-bit)" } else { "" };
            vec![format!("{}{table}", call.name), count(call.calls), count(call.errors), count(call.again)]
        })
        .collect();
    page.table(&["call", "calls", "errors", "EAGAIN"], rows);
}

fn itself(page: &mut Page, observation: &Observation) {
    page.heading("concprobe itself");
    let mut say = |line: String| page.line(&format!("  {line}"));
    if let Some(probe) = &observation.probe {
        match observation.probe_cost_ns_per_event {
            Some(cost) => say(format!(
                "kernel programs: {} a run, over {} runs during the warm-up",
                duration_ns(cost),
                count(probe.timed_runs)
            )),
            None => say("kernel programs: cost n/a".to_owned()),
        }
        for (name, number) in observation.blurs.iter().filter(|(_, number)| **number > 0) {
            say(format!(
                "events that the kernel did not report, found out later: {} {}",
                count(*number),
                name.replace('_', " ")
            ));
        }
        if let Some(missed) = probe.missed_runs {
            say(format!("runs that the kernel left out: {}", count(missed)));
        }
    }
    if let Some(check) = observation.depth_check {
        say(format!(
            "an op at depth calls {}, at depth switches {}",
            per_op_ps(check.calls_per_op_ps),
            per_op_ps(check.switches_per_op_ps)
        ));
    }
    let footprint = &observation.footprint;
    if let Some(start) = footprint.start_to_first_op_ns {
        say(format!("start to first op: {}", duration_ns(start)));
    }
    let memory = |bytes: Option<u64>| bytes.map_or_else(|| "n/a".to_owned(), mebibytes);
    say(format!(
        "peak memory: driver {}, workload {}",
        memory(footprint.driver_peak_bytes),
        memory(footprint.workload_peak_bytes)
    ));
}

fn machine(page: &mut Page, observation: &Observation) {
    page.heading("Measured on");
    let environment = &observation.environment;
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "n/a".to_owned());
    page.line(&format!(
        "  {}, {} CPUs usable ({}), Linux {}, clock {}, {}",
        text(&environment.cpu_model),
        environment.cpus_usable.len(),
        format_cpu_list(&environment.cpus_usable),
        text(&environment.kernel_release),
        text(&environment.clock_source),
        environment
            .virtualisation
            .as_ref()
            .map_or_else(|| "no hypervisor seen".to_owned(), |name| format!("under {name}")),
    ));
    let depth = match (&observation.depth, &observation.attached_by) {
        (Some(depth), Some(way)) => format!("depth {}, {way} tracepoints", depth.name()),
        _ => "no kernel programs".to_owned(),
    };
    let lost = observation.lost.map_or_else(|| "n/a".to_owned(), count);
    let cost = observation.probe_cost_ns_per_event.map_or_else(|| "n/a".to_owned(), duration_ns);
    page.line(&format!("  {depth}, {cost} an event; events lost: {lost}"));
    let word = if observation.self_check.passed { "passed" } else { "FAILED" };
    for (index, line) in
        wrapped(&format!("self-check {word}: {}", observation.self_check.detail), 100).into_iter().enumerate()
    {
        page.line(&format!("  {}{line}", if index == 0 { "" } else { "  " }));
    }
}

/// Breaks a text into lines of at most `width` characters, at spaces.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| !line.is_empty());
        match line {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(word.to_owned()),
            None => lines = vec![word.to_owned()],
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_at_spaces_and_lose_no_word() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
