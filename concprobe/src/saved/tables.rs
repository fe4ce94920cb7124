//! A result as tables of plain values, for CSV and Markdown.

use anyhow::{Result, bail};

use super::Saved;
use crate::observation::{
    Counts, Latencies, Observation, Parts,
    compare::Comparison,
    trace::{Sleeps, Trace},
};

/// Which table of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Ops by class, of a run
    Classes,
    /// Futex words, of a look
    Locks,
    /// Other sleeps, of a look
    Sleeps,
    /// Threads
    Threads,
    /// Processes, of a look
    Processes,
    /// Counted system calls
    Calls,
}

/// A header and its rows.
#[derive(Debug, Default)]
pub struct Table {
    /// Names of the columns: keys of the JSON.
    pub header: Vec<String>,
    /// Values; nothing for what was not measured.
    pub rows: Vec<Vec<String>>,
}

/// The table of that name, or the one that says most.
///
/// # Errors
/// When the result has no such table.
pub fn table(saved: &Saved, name: Option<Name>) -> Result<Table> {
    let table = match (saved, name) {
        (Saved::Run(run), None | Some(Name::Classes)) => classes(std::slice::from_ref(run)),
        (Saved::Sweep(runs), None | Some(Name::Classes)) => classes(runs),
        (Saved::Run(run), Some(Name::Threads)) => run_threads(run),
        (Saved::Run(run), Some(Name::Calls)) => calls(run.calls.as_deref()),
        (Saved::Trace(trace), None | Some(Name::Locks)) => locks(trace),
        (Saved::Trace(trace), Some(Name::Sleeps)) => other_sleeps(trace),
        (Saved::Trace(trace), Some(Name::Threads)) => threads(trace),
        (Saved::Trace(trace), Some(Name::Processes)) => processes(trace),
        (Saved::Trace(trace), Some(Name::Calls)) => calls(trace.calls.as_deref()),
        (Saved::Reproduction(reproduction), None | Some(Name::Classes)) => {
            let runs: Vec<Observation> =
                reproduction.sets.iter().flat_map(|set| set.observations.values().cloned()).collect();
            classes(&runs)
        }
        (Saved::Comparison(comparison), None) => trials(comparison)?,
        (Saved::Log(_), None) => log(saved)?,
        (_, Some(name)) => bail!("this kind of result has no table {name:?}"),
    };
    Ok(table)
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn optional(value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

const LATENCIES: [&str; 10] = [
    "count",
    "min_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "sum_ns",
    "blocked_ns",
    "run_queue_ns",
];

fn latencies(latencies: &Latencies) -> Vec<String> {
    vec![
        latencies.count.to_string(),
        optional(latencies.min_ns),
        optional(latencies.p50_ns),
        optional(latencies.p90_ns),
        optional(latencies.p99_ns),
        optional(latencies.p999_ns),
        optional(latencies.max_ns),
        latencies.sum_ns.to_string(),
        optional(latencies.blocked_ns),
        optional(latencies.run_queue_ns),
    ]
}

fn classes(runs: &[Observation]) -> Table {
    let mut table = Table { header: header(&["workload", "parameters", "class"]), rows: Vec::new() };
    table.header.extend(header(&LATENCIES));
    for run in runs {
        let parameters: Vec<String> =
            run.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let all = run.latency.iter().map(|all| ("all", all));
        for (class, figures) in run.classes.measured().chain(all) {
            let mut row = vec![run.workload.clone(), parameters.join(" "), class.to_owned()];
            row.extend(latencies(figures));
            table.rows.push(row);
        }
    }
    table
}

const PARTS: [&str; 6] = ["wall_ns", "on_cpu_ns", "user_ns", "kernel_ns", "blocked_ns", "run_queue_ns"];

fn parts(parts: &Parts) -> [String; 6] {
    [
        parts.wall_ns.to_string(),
        optional(parts.on_cpu_ns),
        optional(parts.user_ns),
        optional(parts.kernel_ns),
        optional(parts.blocked_ns),
        optional(parts.run_queue_ns),
    ]
}

const COUNTS: [&str; 6] = [
    "voluntary_switches",
    "involuntary_switches",
    "migrations",
    "syscalls",
    "threads_created",
    "processes_created",
];

fn counts(counts: &Counts) -> [String; 6] {
    [
        counts.voluntary_switches,
        counts.involuntary_switches,
        counts.migrations,
        counts.syscalls,
        counts.threads_created,
        counts.processes_created,
    ]
    .map(optional)
}

fn run_threads(run: &Observation) -> Table {
    let mut table = Table { header: header(&["name", "tid", "threads", "ops"]), rows: Vec::new() };
    table.header.extend(header(&PARTS).into_iter().chain(header(&COUNTS)));
    for thread in &run.threads {
        let tid = thread.tid.map_or_else(String::new, |tid| tid.to_string());
        let mut row = vec![thread.name.clone(), tid, thread.threads.to_string(), thread.ops.to_string()];
        row.extend(parts(&thread.parts).into_iter().chain(counts(&thread.counts)));
        table.rows.push(row);
    }
    table
}

fn threads(trace: &Trace) -> Table {
    let mut table = Table {
        header: header(&["name", "tid", "host_tid", "host_pid", "threads", "existed_before", "running"]),
        rows: Vec::new(),
    };
    table.header.extend(header(&PARTS).into_iter().chain(header(&COUNTS)));
    for thread in &trace.threads {
        let mut row = vec![
            thread.name.clone(),
            thread.tid.map_or_else(String::new, |tid| tid.to_string()),
            thread.host_tid.map_or_else(String::new, |tid| tid.to_string()),
            thread.host_pid.to_string(),
            thread.threads.to_string(),
            thread.existed_before.to_string(),
            thread.running.to_string(),
        ];
        row.extend(parts(&thread.parts).into_iter().chain(counts(&thread.counts)));
        table.rows.push(row);
    }
    table
}

fn processes(trace: &Trace) -> Table {
    let mut table = Table {
        header: header(&["name", "pid", "host_pid", "host_parent", "threads", "running"]),
        rows: Vec::new(),
    };
    table.header.extend(header(&PARTS).into_iter().chain(header(&COUNTS)));
    for process in &trace.processes {
        let mut row = vec![
            process.name.clone(),
            process.pid.map_or_else(String::new, |pid| pid.to_string()),
            process.host_pid.to_string(),
            process.host_parent.to_string(),
            process.threads.to_string(),
            process.running.to_string(),
        ];
        row.extend(parts(&process.parts).into_iter().chain(counts(&process.counts)));
        table.rows.push(row);
    }
    table
}

const SLEEPS: [&str; 11] = [
    "slept",
    "threads",
    "limited",
    "blocked_p50_ns",
    "blocked_p99_ns",
    "blocked_max_ns",
    "blocked_sum_ns",
    "run_queue_p99_ns",
    "run_queue_sum_ns",
    "open",
    "open_ns",
];

fn sleeps(sleeps: &Sleeps) -> [String; 11] {
    [
        sleeps.slept.to_string(),
        sleeps.threads.to_string(),
        sleeps.limited.to_string(),
        optional(sleeps.blocked.p50_ns),
        optional(sleeps.blocked.p99_ns),
        optional(sleeps.blocked.max_ns),
        sleeps.blocked.sum_ns.to_string(),
        optional(sleeps.run_queue.p99_ns),
        sleeps.run_queue.sum_ns.to_string(),
        sleeps.open.to_string(),
        sleeps.open_ns.to_string(),
    ]
}

fn locks(trace: &Trace) -> Table {
    let mut table = Table {
        header: header(&["name", "kind", "idle", "address", "host_pid", "operation"]),
        rows: Vec::new(),
    };
    table.header.extend(header(&SLEEPS));
    table.header.extend(header(&["waits", "again", "timed_out", "interrupted", "wakes"]));
    for lock in &trace.locks {
        let mut row = vec![
            lock.name.clone(),
            lock.kind.name().to_owned(),
            lock.idle.to_string(),
            lock.address.clone(),
            lock.host_pid.to_string(),
            lock.operation.clone(),
        ];
        row.extend(sleeps(&lock.sleeps));
        row.extend([lock.waits, lock.again, lock.timed_out, lock.interrupted, lock.wakes].map(optional));
        table.rows.push(row);
    }
    table
}

fn other_sleeps(trace: &Trace) -> Table {
    let mut table = Table { header: header(&["call", "host_pid"]), rows: Vec::new() };
    table.header.extend(header(&SLEEPS));
    for sleep in &trace.sleeps {
        let mut row = vec![sleep.call.clone(), sleep.host_pid.to_string()];
        row.extend(sleeps(&sleep.sleeps));
        table.rows.push(row);
    }
    table
}

fn calls(calls: Option<&[crate::observation::Call]>) -> Table {
    let rows = calls.unwrap_or_default().iter().map(|call| {
        vec![
            call.name.clone(),
            call.number.to_string(),
            call.compat.to_string(),
            call.calls.to_string(),
            call.errors.to_string(),
            call.again.to_string(),
        ]
    });
    Table { header: header(&["name", "number", "compat", "calls", "errors", "again"]), rows: rows.collect() }
}

/// A row for each trial, in the order of measuring.
fn trials(comparison: &Comparison) -> Result<Table> {
    let mut table = Table {
        header: header(&["round", "arm", "began_ns", "wall_ps", "batch_ps", "p99_ps"]),
        rows: Vec::new(),
    };
    for trial in &comparison.trials {
        let arm = serde_json::to_value(trial.arm)?;
        table.rows.push(vec![
            trial.round.to_string(),
            arm.as_str().unwrap_or_default().to_owned(),
            trial.began_ns.to_string(),
            trial.wall_ps.to_string(),
            optional(trial.batch_ps),
            optional(trial.p99_ps),
        ]);
    }
    Ok(table)
}

fn log(saved: &Saved) -> Result<Table> {
    let percentiles = [0.5, 0.9, 0.99, 0.999];
    let Saved::Log(histograms) = saved else { bail!("this is no interval log") };
    let rows = histograms.iter().map(|(name, histogram)| {
        let mut row = vec![name.clone(), histogram.len().to_string(), histogram.min().to_string()];
        row.extend(percentiles.map(|quantile| histogram.value_at_quantile(quantile).to_string()));
        row.push(histogram.max().to_string());
        row
    });
    Ok(Table {
        header: header(&["tag", "count", "min", "p50", "p90", "p99", "p999", "max"]),
        rows: rows.collect(),
    })
}
