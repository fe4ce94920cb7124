//! `show` as typed: saved results, printed again or turned into what other tools read.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Command};

use super::{
    DONE,
    output::{self, Destination},
};
use crate::{
    report,
    saved::{self, Saved, tables},
};

const EXAMPLES: &str = "\
Examples:
  concprobe show result.json                           as it was printed
  concprobe show result.json --format csv --table threads
  concprobe show result.json --format hlog -o out.hlog for HdrHistogram's own tools
  concprobe show result.json --format folded           stacks of a look, for a flame graph
  concprobe show a.json b.json --merge                 several runs as one

Exit status: 0 done; 2 a file is no result, or has not what was asked for.";

/// `show`.
pub fn command() -> Command {
    ShowOptions::augment_args(Command::new("show"))
        .about("Prints saved results again, or as CSV, Markdown, .hlog, .hgrm or folded stacks")
        .after_help(EXAMPLES)
}

/// How to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The screen for people
    Text,
    /// The whole result
    Json,
    /// A table (RFC 4180)
    Csv,
    /// The same table
    Markdown,
    /// An interval log of HdrHistogram, a line for each histogram
    Hlog,
    /// Percentiles of each histogram
    Hgrm,
    /// Collapsed stacks with blocked microseconds, outermost first
    Folded,
}

/// Options of `show`.
#[derive(Debug, Args)]
pub struct ShowOptions {
    /// Saved results, or interval logs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Which table, for csv and markdown [default: the one that says most]
    #[arg(long, value_enum)]
    table: Option<tables::Name>,
    /// All of them as one: histograms added, counts summed
    #[arg(long)]
    merge: bool,
    /// Where to write it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// All rows, and more about concprobe itself
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// Shows.
///
/// # Errors
/// What is wrong with a file, or what it does not have.
pub fn show(options: &ShowOptions) -> Result<u8> {
    let mut results: Vec<Saved> =
        options.files.iter().map(|path| saved::read(path)).collect::<Result<_>>()?;
    if options.merge {
        results = vec![saved::merge(results)?];
    }
    let text = render(&results, options)?;
    match &options.output {
        Some(path) => Destination::prepare(path)?.save(&text)?,
        None => output::print(&text)?,
    }
    Ok(DONE)
}

fn render(results: &[Saved], options: &ShowOptions) -> Result<String> {
    match options.format {
        Format::Text => {
            let shown: Vec<String> =
                results.iter().map(|result| text(result, options.verbose)).collect::<Result<_>>()?;
            Ok(shown.join("\n"))
        }
        Format::Json => match results {
            [result] => json(result),
            _ => bail!("several results are not one JSON: add --merge, or show them one at a time"),
        },
        Format::Csv => report::csv(&table(results, options)?),
        Format::Markdown => Ok(report::markdown(&table(results, options)?)),
        Format::Hlog => saved::log::write(results),
        Format::Hgrm => {
            let mut text = String::new();
            for result in results {
                result.each_histogram(&mut |name, histogram| {
                    text.push_str(&format!("# {name}\n{}", saved::log::percentiles(&histogram)));
                    Ok(())
                })?;
            }
            Ok(text)
        }
        Format::Folded => results
            .iter()
            .map(|result| match result {
                Saved::Trace(trace) if !trace.stacks => {
                    bail!("no stacks were copied in this look: trace with --stacks")
                }
                Saved::Trace(trace) => Ok(report::folded(trace)),
                _ => bail!("only results of trace and attach have stacks"),
            })
            .collect(),
    }
}

/// The table of all results; of several, each row begins with the file that it comes from.
fn table(results: &[Saved], options: &ShowOptions) -> Result<tables::Table> {
    if let [result] = results {
        return tables::table(result, options.table);
    }
    let mut all = tables::Table::default();
    for (result, path) in results.iter().zip(&options.files) {
        let table = tables::table(result, options.table)?;
        let header = [vec!["file".to_owned()], table.header].concat();
        if all.header.is_empty() {
            all.header = header;
        } else if all.header != header {
            bail!(
                "{} is {}, which does not fit into one table with the first",
                path.display(),
                result.kind()
            );
        }
        let file = path.display().to_string();
        all.rows.extend(table.rows.into_iter().map(|row| [vec![file.clone()], row].concat()));
    }
    Ok(all)
}

fn text(result: &Saved, verbose: u8) -> Result<String> {
    let style = output::style(verbose);
    let text = match result {
        Saved::Run(run) => report::text(run, style).context("a histogram of the result cannot be read")?,
        Saved::Sweep(runs) => report::sweep(runs, &saved::swept_parameter(runs), style),
        Saved::Reproduction(reproduction) => report::reproduction(reproduction, style),
        Saved::Trace(trace) => report::trace(trace, style),
        Saved::Comparison(comparison) => report::compare(comparison, style),
        Saved::Log(_) => report::markdown(&tables::table(result, None)?),
    };
    Ok(output::harmless(&text))
}

fn json(result: &Saved) -> Result<String> {
    match result {
        Saved::Run(run) => report::json(run.as_ref()),
        Saved::Sweep(sweep) => {
            report::json(&super::Sweep { schema: saved::SWEEP_SCHEMA, sweep: sweep.as_slice() })
        }
        Saved::Reproduction(reproduction) => report::json(reproduction.as_ref()),
        Saved::Trace(trace) => report::json(trace.as_ref()),
        Saved::Comparison(comparison) => report::json(comparison.as_ref()),
        Saved::Log(_) => bail!("an interval log is no result of concprobe"),
    }
}
