//! What a tool answered, and whether that was right.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::program::{Count, Facts};

/// What a tool told about one run, in terms that the program can check.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) counts: Vec<(Count, u64)>,
    /// Events that the tool says it lost; `None` if it does not tell.
    pub(super) lost: Option<u64>,
    /// What else a reader should know about the answer.
    pub(super) note: Option<String>,
    /// It counts the whole system: more than the program did is no mistake.
    pub(super) everyone: bool,
}

/// One count beside the truth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Check {
    pub(super) count: Count,
    pub(super) correct: u64,
    pub(super) found: u64,
    /// 0 if right; -0.2 if low by 20 %.
    pub(super) off_by: f64,
}

/// Below this a count says nothing about loss, and its start-up is too large a part.
const WORTH_CHECKING: u64 = 1_000;

/// What still counts as right: the agreement that switch counts had with getrusage (`overhead.md`).
const TOLERANCE: f64 = 0.002;

/// Compares those counts of an answer that the program knows.
pub(super) fn check(answer: &Answer, facts: &Facts) -> Vec<Check> {
    let known = answer.counts.iter().filter_map(|&(count, found)| {
        let correct = facts.correct(count)?;
        (count.is_exact() || *correct.start() >= WORTH_CHECKING).then_some((count, correct, found))
    });
    known
        .map(|(count, correct, found)| {
            let slack = if count.is_exact() { 0 } else { facts.slack() };
            let off_by = deviation(&correct, found, slack);
            let nearest = found.clamp(*correct.start(), *correct.end());
            let off_by = if answer.everyone { off_by.min(0.0) } else { off_by };
            Check { count, correct: nearest, found, off_by }
        })
        .collect()
}

/// By what part `found` is off; 0 within the slack and the tolerance.
#[expect(clippy::cast_precision_loss, reason = "far below 2⁵³")]
fn deviation(correct: &RangeInclusive<u64>, found: u64, slack: u64) -> f64 {
    let nearest = found.clamp(*correct.start(), *correct.end());
    let off = found as f64 - nearest as f64;
    let exact = slack == 0;
    let allowed = if exact { 0.0 } else { (TOLERANCE * nearest as f64).max(slack as f64) };
    if off.abs() <= allowed { 0.0 } else { off / (nearest as f64).max(1.0) }
}

/// The verdict on the worst of the checks of one count.
pub(super) fn verdict(off_by: f64) -> String {
    let percent = 100.0 * off_by.abs();
    let digits = usize::from(percent < 10.0);
    match off_by {
        0.0 => "right".to_owned(),
        off if off < 0.0 => format!("low by {percent:.digits$} %"),
        _ => format!("high by {percent:.digits$} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(counts: Vec<(Count, u64)>, everyone: bool) -> Vec<f64> {
        let line = "ops=1 ns=1 futex_waits=100000 futex_wakes=0 sleeps=12 preempted=5 threads=2 processes=0";
        let answer = Answer { counts, everyone, ..Answer::default() };
        check(&answer, &Facts::read(line).unwrap()).iter().map(|check| check.off_by).collect()
    }

    #[test]
    fn start_up_calls_and_two_per_mille_are_right() {
        assert_eq!(checked(vec![(Count::FutexWaits, 100_200)], false), [0.0]);
        assert_eq!(checked(vec![(Count::FutexWaits, 99_800)], false), [0.0]);
        assert_eq!(checked(vec![(Count::FutexWaits, 80_000)], false), [-0.2]);
        assert_eq!(checked(vec![(Count::FutexWaits, 150_000)], false), [0.5]);
    }

    #[test]
    fn threads_are_right_to_the_last_one() {
        assert_eq!(
            checked(vec![(Count::Threads, 2), (Count::Threads, 1), (Count::Threads, 3)], false),
            [0.0, -0.5, 0.5]
        );
        assert_eq!(checked(vec![(Count::Processes, 0), (Count::Processes, 1)], false), [0.0, 1.0]);
    }

    #[test]
    fn few_events_and_unknown_ones_are_not_judged() {
        assert!(checked(vec![(Count::Sleeps, 0), (Count::Getppid, 7)], false).is_empty());
    }

    #[test]
    fn who_counts_everyone_may_count_more_but_not_less() {
        assert_eq!(checked(vec![(Count::FutexCalls, 150_000)], true), [0.0]);
        assert_eq!(checked(vec![(Count::FutexCalls, 50_000)], true), [-0.5]);
    }

    #[test]
    fn verdicts_are_words() {
        assert_eq!([0.0, -0.81, 0.054].map(verdict), ["right", "low by 81 %", "high by 5.4 %"]);
    }
}
