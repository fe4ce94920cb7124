//! From raw runs to what is compared: each run is paired with the untraced one of its own round.

use serde::Serialize;

use super::answer::verdict;
use super::measure::{Measured, Outcome, Run};
use super::program::Count;
use super::tool::UNTRACED;
use crate::bench::statistics::Spread;

/// One tool on one program.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) tool: &'static str,
    pub(super) ns_per_op: Option<Spread>,
    /// Traced / untraced, pair by pair.
    pub(super) ratio: Option<Spread>,
    /// Traced - untraced, pair by pair.
    pub(super) added_ns: Option<Spread>,
    /// The most that were lost in a run, if the tool tells.
    pub(super) lost: Option<u64>,
    /// By count, the worst of all runs.
    pub(super) worst: Vec<(Count, f64)>,
    pub(super) note: Option<String>,
    pub(super) failed: usize,
    pub(super) first_failure: Option<String>,
}

/// Sums up the runs of `tool` on one program, which `runs` are all of.
pub(super) fn summarise(tool: &'static str, runs: &[Run]) -> Summary {
    let measured: Vec<(usize, &Measured)> = measured(runs, tool).collect();
    let pairs = pairs(runs, tool);
    let spread = |values: Vec<f64>| Spread::of(&values);
    let failures: Vec<&String> = runs
        .iter()
        .filter(|run| run.tool == tool)
        .filter_map(|run| match &run.outcome {
            Outcome::Failed(error) => Some(error),
            Outcome::Measured(_) => None,
        })
        .collect();
    Summary {
        tool,
        ns_per_op: spread(measured.iter().map(|(_, run)| run.ns_per_op).collect()),
        ratio: spread(pairs.iter().map(|(bare, traced)| traced / bare).collect()),
        added_ns: spread(pairs.iter().map(|(bare, traced)| traced - bare).collect()),
        lost: measured.iter().filter_map(|(_, run)| run.lost).max(),
        worst: worst(measured.iter().map(|(_, run)| *run)),
        note: measured.last().and_then(|(_, run)| run.note.clone()),
        failed: failures.len(),
        first_failure: failures.first().map(|error| (*error).clone()),
    }
}

fn measured<'a>(runs: &'a [Run], tool: &str) -> impl Iterator<Item = (usize, &'a Measured)> {
    let of_tool = move |run: &&Run| run.tool == tool;
    runs.iter().filter(of_tool).filter_map(|run| match &run.outcome {
        Outcome::Measured(measured) => Some((run.round, measured)),
        Outcome::Failed(_) => None,
    })
}

/// ns per op (untraced, traced) of the rounds in which both were measured.
fn pairs(runs: &[Run], tool: &str) -> Vec<(f64, f64)> {
    let untraced =
        |round| measured(runs, UNTRACED).find(|(of, _)| *of == round).map(|(_, run)| run.ns_per_op);
    measured(runs, tool).filter_map(|(round, run)| Some((untraced(round)?, run.ns_per_op))).collect()
}

fn worst<'a>(runs: impl Iterator<Item = &'a Measured>) -> Vec<(Count, f64)> {
    let mut worst: Vec<(Count, f64)> = Vec::new();
    for check in runs.flat_map(|run| &run.checks) {
        match worst.iter_mut().find(|(count, _)| *count == check.count) {
            Some((_, off)) if off.abs() < check.off_by.abs() => *off = check.off_by,
            Some(_) => {}
            None => worst.push((check.count, check.off_by)),
        }
    }
    worst
}

impl Summary {
    /// Whether every count that could be checked was right in every run.
    pub(super) fn is_right(&self) -> bool {
        self.worst.iter().all(|(_, off_by)| *off_by == 0.0)
    }

    /// The answer's quality in words: `futex calls low by 81 %; threads right`.
    pub(super) fn answer(&self) -> String {
        let mut parts = Vec::new();
        let right: Vec<&str> =
            self.worst.iter().filter(|(_, off)| *off == 0.0).map(|(count, _)| count.words()).collect();
        let wrong = self.worst.iter().filter(|(_, off)| *off != 0.0);
        parts.extend(wrong.map(|(count, off_by)| format!("{} {}", count.words(), verdict(*off_by))));
        if !right.is_empty() {
            parts.push(format!("right: {}", right.join(", ")));
        }
        parts.extend(self.note.clone());
        if self.failed > 0 {
            parts.push(format!("{} failed: {}", self.failed, self.first_failure.as_deref().unwrap_or("")));
        }
        if parts.is_empty() { "-".to_owned() } else { parts.join("; ") }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, check};
    use super::super::program::Facts;
    use super::*;

    fn run(round: usize, tool: &'static str, ns: u64, waits: u64, lost: Option<u64>) -> Run {
        let facts = Facts::read(&format!("ops=1 ns={ns} futex_waits=10000 threads=0 processes=0")).unwrap();
        let answer = Answer { counts: vec![(Count::FutexWaits, waits)], ..Answer::default() };
        let checks = if tool == UNTRACED { Vec::new() } else { check(&answer, &facts) };
        let measured = Measured { ns_per_op: facts.ns_per_op(), facts, checks, lost, note: None };
        Run { round, tool, outcome: Outcome::Measured(measured) }
    }

    fn failed(round: usize, tool: &'static str) -> Run {
        Run { round, tool, outcome: Outcome::Failed("no such event".to_owned()) }
    }

    #[test]
    fn ratios_are_of_runs_of_the_same_round() {
        let runs = [
            run(0, "perf-stat", 150, 10_000, None),
            run(0, UNTRACED, 100, 0, None),
            run(1, UNTRACED, 1_000, 0, None),
            run(1, "perf-stat", 1_100, 10_000, None),
            run(2, UNTRACED, 200, 0, None),
            run(2, "perf-stat", 240, 10_000, None),
        ];
        let summary = summarise("perf-stat", &runs);
        let ratio = summary.ratio.unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(ratio.median, 1.2) && close(ratio.least, 1.1) && close(ratio.most, 1.5), "{ratio:?}");
        assert!(close(summary.added_ns.unwrap().median, 50.0));
        assert_eq!((summary.lost, summary.answer().as_str()), (None, "right: futex waits"));
    }

    #[test]
    fn a_round_without_its_untraced_run_makes_no_pair() {
        let runs = [failed(0, UNTRACED), run(0, "strace", 500, 10_000, None)];
        let summary = summarise("strace", &runs);
        assert_eq!((summary.ratio, summary.ns_per_op.unwrap().n), (None, 1));
    }

    #[test]
    fn the_worst_answer_and_the_greatest_loss_of_all_runs_count() {
        let runs = [
            run(0, UNTRACED, 100, 0, None),
            run(0, "perf-trace", 300, 1_900, Some(7)),
            run(1, "perf-trace", 300, 9_999, Some(4)),
            failed(2, "perf-trace"),
        ];
        let summary = summarise("perf-trace", &runs);
        assert_eq!((summary.lost, summary.is_right()), (Some(7), false));
        assert_eq!(summary.answer(), "futex waits low by 81 %; 1 failed: no such event");
    }
}
