//! `diff` as typed: two saved results, figure by figure, for people and for a CI job.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Command};

use super::{
    DONE, DOUBTFUL,
    output::{self, Destination},
};
use crate::{
    diff::{self, Condition, Diff, Judgement},
    report, saved,
};

const EXAMPLES: &str = "\
Examples:
  concprobe diff old.json new.json
  concprobe diff old.json new.json --fail-if 'p99 > +10%' --fail-if 'lost > 0'
  concprobe diff old.json new.json --fail-if 'slept.p50 > 20us' --format markdown

A condition is METRIC, one of > >= < <=, and a change in percent (+10%, -5%), a difference (+5ms, +100), or a limit
of the newer figure (5ms, 1000). A change that is not told from noise fails no condition; one for which there are
too few repetitions to tell goes by its figures.

Exit status: 0 no condition fails; 1 one does; 2 a file is no result, or has no such metric.";

/// `diff`.
pub fn command() -> Command {
    DiffOptions::augment_args(Command::new("diff"))
        .about("Two saved results, figure by figure: old, new, change, and whether it is more than noise")
        .after_help(EXAMPLES)
}

/// How to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table for people
    Text,
    /// A table for a page
    Markdown,
    /// For programs
    Json,
}

/// Options of `diff`.
#[derive(Debug, Args)]
pub struct DiffOptions {
    /// The older result
    old: PathBuf,
    /// The newer result
    new: PathBuf,
    /// Exit status 1 when that holds, as in 'p99 > +10%'
    #[arg(long, value_name = "CONDITION", value_parser = |text: &str| text.parse::<Condition>().map_err(|error| format!("{error:#}")))]
    fail_if: Vec<Condition>,
    /// How
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Where to write it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// As it is written for programs.
#[derive(serde::Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    diff: &'a Diff,
    conditions: &'a [Judgement],
}

/// Compares.
///
/// # Errors
/// What is wrong with a file or a condition.
pub fn diff(options: &DiffOptions) -> Result<u8> {
    let (old, new) = (saved::read(&options.old)?, saved::read(&options.new)?);
    let found = diff::diff(&old, &new)
        .with_context(|| format!("{} and {}", options.old.display(), options.new.display()))?;
    let judgements: Vec<Judgement> =
        options.fail_if.iter().map(|condition| condition.judge(&found)).collect::<Result<_>>()?;
    let text = match options.format {
        Format::Text => output::harmless(&report::diff(&found, &judgements, output::style(0))),
        Format::Markdown => output::harmless(&report::diff_markdown(&found, &judgements)),
        Format::Json => report::json(&Written { diff: &found, conditions: &judgements })?,
    };
    match &options.output {
        Some(path) => Destination::prepare(path)?.save(&text)?,
        None => output::print(&text)?,
    }
    Ok(if judgements.iter().any(|judgement| judgement.failed) { DOUBTFUL } else { DONE })
}
