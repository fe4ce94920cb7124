//! `same`: how often `concprobe compare` calls equals different. It compares workloads and a command with
//! themselves, again and again, in turn; at most 5 % may be called different.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::concprobe::Concprobe;

/// Both sides of each, the same words: cheap ops, ops that sleep, ops that share, creation, and a command.
const SUBJECTS: [&[&str]; 5] = [
    &["sem-fast", "sem-fast", "--no-bpf", "--duration", "10ms", "--repeat", "3", "--warmup", "2ms"],
    &["sem-pingpong", "sem-pingpong", "--no-bpf", "--duration", "10ms", "--repeat", "3", "--warmup", "2ms"],
    &[
        "false-sharing",
        "false-sharing",
        "--threads",
        "2",
        "--no-bpf",
        "--duration",
        "10ms",
        "--repeat",
        "3",
        "--warmup",
        "2ms",
    ],
    &["thread-create", "thread-create", "--no-bpf", "--duration", "10ms", "--repeat", "3", "--warmup", "2ms"],
    &["--", SPIN, SPIN],
];

/// A command that only computes, for about ten milliseconds.
const SPIN: &str = "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done";

/// How much of it.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Options {
    /// How many comparisons
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    trials: u64,
    /// Pairs of each at most; nineteen are three looks, forty are five
    #[arg(long, default_value_t = 19, value_parser = clap::value_parser!(u64).range(1..=500))]
    runs: u64,
}

/// Compares equals.
pub(super) fn same(concprobe: &Concprobe, options: Options) -> Result<()> {
    let trials = usize::try_from(options.trials).unwrap_or(usize::MAX);
    let began = Instant::now();
    let mut different: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for trial in 0..trials {
        let subject = SUBJECTS[trial % SUBJECTS.len()];
        let name = if subject[0] == "--" { "a command" } else { subject[0] };
        let answer = compare(concprobe, subject, options.runs, trial)?;
        let outcome = answer["outcome"].as_str().context("the result has no answer.outcome")?;
        let count = different.entry(name).or_default();
        count.1 += 1;
        if outcome != "cannot_tell" {
            count.0 += 1;
            println!("{name}, seed {trial}: {outcome}, p = {}", answer["p_value"]);
        }
    }
    for (name, (different, all)) in &different {
        println!("{name}: {different} of {all} called different");
    }
    let called: usize = different.values().map(|(different, _)| different).sum();
    println!("all: {called} of {trials} called different, in {:.0} s", began.elapsed().as_secs_f64());
    ensure!(called * 20 <= trials, "more than 5 % of equals were called different");
    Ok(())
}

/// The answer of one comparison; its seed is its number.
fn compare(concprobe: &Concprobe, subject: &[&str], runs: u64, seed: usize) -> Result<Value> {
    let mut command = Command::new(&concprobe.0);
    command.args(["compare", "--json", "--runs", &runs.to_string(), "--seed", &seed.to_string()]);
    command.args(["--max-time", "1h"]).args(subject);
    let output = command.stderr(Stdio::null()).output().context("cannot run concprobe")?;
    if !output.status.success() {
        bail!("{command:?} failed: {}; try it by hand", output.status);
    }
    let mut result: Value = serde_json::from_slice(&output.stdout).context("concprobe printed no JSON")?;
    Ok(result["answer"].take())
}
