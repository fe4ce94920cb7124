//! The programs that are looked at, and the line of facts that each prints about itself.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

/// One program of `xtask/bench`.
#[derive(Debug)]
pub(super) struct Program {
    /// The word on the command line, the stem of the C file, and the name of its processes.
    pub(super) name: &'static str,
    /// What an op is.
    pub(super) op: &'static str,
    /// Ops of about half a second on the machine where the gates were measured; the warm-up corrects it.
    pub(super) ops: u64,
    /// Wall time of an op there (`overhead.md`); of storm and nosleep the inverse of 0.31 M switches
    /// (a hand-over is one, up to 10 %) and 1.4 M calls a second, on both CPUs together.
    pub(super) reference_ns: f64,
}

const fn program(name: &'static str, op: &'static str, ops: u64, reference_ns: f64) -> Program {
    Program { name, op, ops, reference_ns }
}

/// In the order in which they are measured and shown.
pub(super) static PROGRAMS: [Program; 5] = [
    program("pp_one", "hand-over between two processes on one CPU", 150_000, 4_200.0),
    program("storm", "hand-over within one of 32 pairs of threads", 200_000, 1e3 / 0.31),
    program("nosleep", "futex call that does not sleep, by four threads", 900_000, 1e3 / 1.4),
    program("getppid", "system call that does nothing", 600_000, 1_120.0),
    program("spawn", "pthread_create and pthread_join", 12_000, 49_000.0),
];

/// The program of this name.
pub(super) fn find(name: &str) -> Result<&'static Program, String> {
    PROGRAMS.iter().find(|program| program.name == name).ok_or_else(|| {
        format!("there is no program {name}: {}", PROGRAMS.each_ref().map(|one| one.name).join(", "))
    })
}

/// A program that is compiled, with the ops that suit this machine.
pub(super) struct Prepared {
    pub(super) program: &'static Program,
    pub(super) path: PathBuf,
    pub(super) ops: u64,
}

/// How long the measured phase should take, untraced.
const WANTED_NS: f64 = 0.5e9;

/// The ops that take [`WANTED_NS`], after a run that told how long they take; whole thousands, for reading.
pub(super) fn suitable_ops(seen: &Facts) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and far below 2⁵³")]
    let thousands = (WANTED_NS / seen.ns_per_op() / 1e3).round() as u64;
    thousands.clamp(1, 100_000) * 1_000
}

/// What a program knows exactly about its own run; the names are those that it prints.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Facts(BTreeMap<String, u64>);

impl Facts {
    /// Finds the line `ops=N ns=M …` among what a tool printed around it.
    pub(super) fn read(output: &str) -> Result<Self> {
        let line = output.lines().find(|line| line.starts_with("ops=")).context("the program told no ops")?;
        let mut facts = BTreeMap::new();
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').with_context(|| format!("no fact: {word}"))?;
            facts.insert(name.to_owned(), value.parse().with_context(|| format!("no number: {word}"))?);
        }
        if ["ops", "ns"].iter().any(|name| facts.get(*name).is_none_or(|value| *value == 0)) {
            bail!("the program did nothing: {line}");
        }
        Ok(Self(facts))
    }

    fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Wall time per op.
    #[expect(clippy::cast_precision_loss, reason = "far below 2⁵³")]
    pub(super) fn ns_per_op(&self) -> f64 {
        let number = |name| self.get(name).unwrap_or_default() as f64;
        number("ns") / number("ops")
    }

    /// What a correct count of `kind` is, if the program knows it.
    ///
    /// A dying thread's last switch comes after getrusage's last look at it: sleeps with and without them are right.
    pub(super) fn correct(&self, kind: Count) -> Option<RangeInclusive<u64>> {
        let last_switches = self.get("threads").unwrap_or_default();
        let sum = |a, b| Some(self.get(a)? + self.get(b)?);
        let and_last = |count: u64| count..=count + last_switches;
        let exactly = |count: u64| count..=count;
        match kind {
            Count::FutexCalls => sum("futex_waits", "futex_wakes").map(exactly),
            Count::FutexWaits => self.get("futex_waits").map(exactly),
            Count::FutexSlept => Some(exactly(self.get("futex_waits")? - self.get("futex_again")?)),
            Count::FutexWakes => self.get("futex_wakes").map(exactly),
            Count::FutexAgain => self.get("futex_again").map(exactly),
            Count::Getppid => self.get("getppid").map(exactly),
            Count::Sleeps => self.get("sleeps").map(and_last),
            Count::Preemptions => self.get("preempted").map(exactly),
            Count::Switches => sum("sleeps", "preempted").map(and_last),
            Count::Threads => self.get("threads").map(exactly),
            Count::Processes => self.get("processes").map(exactly),
            Count::Forks => sum("threads", "processes").map(exactly),
        }
    }

    /// Calls and switches outside the measured loop, which the program cannot count: a few for each thread.
    pub(super) fn slack(&self) -> u64 {
        const FOR_START_UP: u64 = 32;
        FOR_START_UP + 4 * self.correct(Count::Forks).map_or(0, |forks| (*forks.end()).min(100))
    }
}

/// What a tool may have counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Count {
    FutexCalls,
    FutexWaits,
    FutexSlept,
    FutexWakes,
    FutexAgain,
    Getppid,
    Sleeps,
    Preemptions,
    Switches,
    Threads,
    Processes,
    Forks,
}

impl Count {
    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::FutexCalls => "futex calls",
            Self::FutexWaits => "futex waits",
            Self::FutexSlept => "futex sleeps",
            Self::FutexWakes => "futex wakes",
            Self::FutexAgain => "EAGAIN",
            Self::Getppid => "getppid",
            Self::Sleeps => "sleeps",
            Self::Preemptions => "preemptions",
            Self::Switches => "switches",
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::Forks => "forks",
        }
    }

    /// Whether the program's own number holds to the last one, with no start-up to allow for.
    pub(super) fn is_exact(self) -> bool {
        matches!(self, Self::Threads | Self::Processes | Self::Forks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORM: &str = "ops=10 ns=2500 futex_waits=7 futex_again=1 futex_wakes=6 sleeps=8 preempted=2 threads=64 processes=0";

    #[test]
    fn facts_are_found_among_what_a_tool_prints() {
        let facts = Facts::read(&format!("strace: attached\n{STORM}\nsummary ops=3\n")).unwrap();
        assert!((facts.ns_per_op() - 250.0).abs() < 1e-9);
        assert_eq!(facts.correct(Count::FutexCalls), Some(13..=13));
        assert_eq!(facts.correct(Count::Sleeps), Some(8..=72));
        assert_eq!(facts.correct(Count::Switches), Some(10..=74));
        assert_eq!(facts.correct(Count::Forks), Some(64..=64));
        assert_eq!(facts.correct(Count::Getppid), None);
    }

    #[test]
    fn a_run_without_ops_is_no_run() {
        for output in ["", "killed", "ops=0 ns=5", "ops=5", "ops=5 ns=0", "ops=5 ns=x", "ops=5 ns"] {
            assert!(Facts::read(output).is_err(), "{output}");
        }
    }

    #[test]
    fn ops_are_scaled_to_the_wanted_time() {
        let ops = |line: &str| suitable_ops(&Facts::read(line).unwrap());
        assert_eq!(ops("ops=1000 ns=1120000"), 446_000);
        assert_eq!(ops("ops=1 ns=4000000000"), 1_000);
    }

    #[test]
    fn many_threads_do_not_widen_the_slack_without_bound() {
        let slack =
            |threads: u64| Facts::read(&format!("ops=1 ns=1 threads={threads} processes=0")).unwrap().slack();
        assert_eq!([slack(0), slack(64), slack(12_000)], [32, 288, 432]);
    }
}
