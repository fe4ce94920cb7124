//! One run of one program under one tool, and the rounds in which all tools alternate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::answer::{Check, check};
use super::child::Running;
use super::order::Order;
use super::program::{Facts, Prepared};
use super::tool::{Output, Tool, Way};

/// A tool with the program that it is on this machine.
pub(super) struct Located {
    pub(super) tool: &'static Tool,
    pub(super) path: PathBuf,
}

/// One run, raw.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub(super) round: usize,
    pub(super) tool: &'static str,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// How a run went.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Measured(Measured),
    Failed(String),
}

/// What came out of a run.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) ns_per_op: f64,
    pub(super) facts: Facts,
    pub(super) checks: Vec<Check>,
    pub(super) lost: Option<u64>,
    pub(super) note: Option<String>,
}

/// Above the alarm that ends a program which a tool has brought to a halt.
const LONGEST_RUN: Duration = Duration::from_secs(240);

/// Runs `program` once with nobody looking.
pub(super) fn run_alone(program: &Prepared, folder: &Path) -> Result<Facts> {
    let running = finished(Command::new(&program.path).arg(program.ops.to_string()), folder, "program")?;
    Facts::read(&running.printed())
}

/// `rounds` rounds of all tools, each round in another order.
pub(super) fn run_rounds(
    program: &Prepared,
    tools: &[Located],
    rounds: usize,
    order: &mut Order,
    folder: &Path,
) -> Vec<Run> {
    let mut runs = Vec::new();
    for round in 0..rounds {
        for index in order.shuffled(tools.len()) {
            let located = &tools[index];
            let outcome = match run_under(program, located, folder) {
                Ok(measured) => Outcome::Measured(measured),
                Err(error) => Outcome::Failed(format!("{error:#}")),
            };
            progress(program, round + 1, rounds, located.tool, &outcome);
            runs.push(Run { round, tool: located.tool.name, outcome });
        }
    }
    runs
}

fn progress(program: &Prepared, round: usize, rounds: usize, tool: &Tool, outcome: &Outcome) {
    let result = match outcome {
        Outcome::Measured(measured) => format!("{:.0} ns/op", measured.ns_per_op),
        Outcome::Failed(error) => format!("failed: {error}"),
    };
    eprintln!("{} {round}/{rounds} {}: {result}", program.program.name, tool.name);
}

fn run_under(program: &Prepared, located: &Located, folder: &Path) -> Result<Measured> {
    let Located { tool, path } = located;
    let file = folder.join("tool.file");
    // A tool that writes nothing must not be judged by another's answer.
    let _ = fs::remove_file(&file);
    let ops = (program.ops / tool.fewer).max(1).to_string();
    let mut alone = Command::new(&program.path);
    alone.arg(&ops);
    let mut with_tool = Command::new(path);
    with_tool.args(tool.arguments(&file)).current_dir(folder);

    let (printed_by_program, output) = match tool.way {
        Way::Alone => {
            let running = finished(&mut alone, folder, "program")?;
            (running.printed(), output_of(program, &running, None, &file))
        }
        Way::Around => {
            let running = finished(with_tool.arg(&program.path).arg(&ops), folder, "tool")?;
            (running.printed(), output_of(program, &running, None, &file))
        }
        Way::Beside(attached) => {
            let mut watcher = Running::start(&mut with_tool, folder, "tool")?;
            watcher.wait_until_attached(attached)?;
            let running = finished(&mut alone, folder, "program")?;
            watcher.interrupt()?;
            (running.printed(), output_of(program, &watcher, Some(running.id()), &file))
        }
    };
    let facts = Facts::read(&printed_by_program)?;
    let answer = (tool.answer)(&output)?;
    // A recording of perf takes a hundred megabytes.
    let _ = fs::remove_file(&file);
    let checks = check(&answer, &facts);
    Ok(Measured { ns_per_op: facts.ns_per_op(), checks, facts, lost: answer.lost, note: answer.note })
}

/// Runs `command` to its end. Tools have exit codes of their own, so only a run that printed no facts has failed.
fn finished(command: &mut Command, folder: &Path, name: &str) -> Result<Running> {
    let mut running = Running::start(command, folder, name)?;
    let status = running.wait(LONGEST_RUN)?;
    Facts::read(&running.printed())
        .with_context(|| format!("ended with {status}{}", running.last_words()))?;
    Ok(running)
}

fn output_of<'a>(program: &Prepared, tool: &Running, pid: Option<u32>, file: &'a Path) -> Output<'a> {
    Output {
        program: program.program.name,
        pid,
        printed: tool.printed(),
        complaints: tool.complaints(),
        file,
    }
}
