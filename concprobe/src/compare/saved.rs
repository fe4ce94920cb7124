//! Saved results: their figures as trials.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail, ensure};

use super::{Settings, analyse, analysis, figure, trial, variables};
use crate::{
    environment::Environment,
    observation::{
        Observation,
        compare::{Arm, By, Comparison, Doubt, Kind, Outcome, SCHEMA, Side, Trial},
        trace::Trace,
    },
    saved::{self, Saved},
};

/// What is compared of a result.
struct Subject {
    name: String,
    started_at: u64,
    environment: Environment,
    parameters: BTreeMap<String, String>,
    /// Figures of its repetitions.
    repetitions: Vec<u64>,
    measured: trial::Measured,
}

/// A saved comparison, to be shown again; none if the file holds anything else.
///
/// # Errors
/// When the file cannot be read, or holds no result.
pub fn read(path: &Path) -> Result<Option<Comparison>> {
    Ok(match saved::read(path)? {
        Saved::Comparison(comparison) => Some(*comparison),
        _ => None,
    })
}

/// Compares saved results: one of each side, or several.
///
/// # Errors
/// When a file cannot be read, is no result, or they cannot be compared.
pub fn saved(sides: &[Vec<PathBuf>; 2], settings: &Settings) -> Result<Comparison> {
    let mut read = Vec::new();
    for paths in sides {
        read.push(paths.iter().map(|path| subject(path)).collect::<Result<Vec<Subject>>>()?);
    }
    let (Some(right), Some(left)) = (read.pop(), read.pop()) else { bail!("two sides are compared") };
    let (Some(first), Some(second)) = (left.first(), right.first()) else { bail!("two sides are compared") };
    let one_each = left.len() == 1 && right.len() == 1;
    let kind = if one_each { Kind::SavedRepetitions } else { Kind::SavedRuns };
    let mut differ = variables::of_parameters(&first.parameters, &second.parameters);
    if first.name != second.name {
        differ.insert(0, format!("subject ({} / {})", first.name, second.name));
    }
    differ.extend(variables::of_machines(&first.environment, &second.environment));
    let label =
        |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let side = |paths: &[PathBuf], result: &Subject| Side {
        label: label(paths),
        parameters: result.parameters.clone(),
        summary: None,
        tail: None,
    };
    let by = if one_each { By::Wall } else { settings.by.unwrap_or_default() };
    let method = settings.method(by);
    let mut comparison = Comparison {
        schema: SCHEMA.to_owned(),
        concprobe: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: first.started_at,
        warnings: Vec::new(),
        environment: first.environment.clone(),
        kind,
        figure: figure(kind, by).to_owned(),
        sides: [side(&sides[0], first), side(&sides[1], second)],
        differ,
        answer: analysis::answer(&analysis::Samples::default(), method.level, &method),
        method,
        trials: trials(&left, Arm::A, one_each).chain(trials(&right, Arm::B, one_each)).collect(),
        looks: Vec::new(),
        tail: None,
        order_effect: None,
        drift: None,
        parts: None,
        interrupted_by: None,
        lost: left.iter().chain(&right).filter(|result| result.measured.doubt.is_some()).count() as u64,
        verdict: Vec::new(),
        unavailable: BTreeMap::new(),
    };
    let mut doubts: Vec<String> =
        left.iter().chain(&right).filter_map(|result| result.measured.doubt.clone()).collect();
    doubts.dedup();
    comparison.warnings.extend(doubts.into_iter().map(|doubt| format!("a result is doubtful: {doubt}")));
    if !interleaved(&left, &right) {
        comparison.warnings.push(
            "one side was measured after the other, not in turn: what changed on the machine in between is \
             part of the difference"
                .to_owned(),
        );
    }
    analyse(&mut comparison);
    Ok(comparison)
}

/// The repetitions of one run are not runs: that they agree says little about the next run.
pub(super) fn doubt(comparison: &mut Comparison) {
    for question in std::iter::once(&mut comparison.answer.question).chain(&mut comparison.tail) {
        question.outcome = Outcome::CannotTell;
        question.doubt = Some(Doubt::OneRun);
    }
    comparison.answer.more_pairs = None;
}

fn trials(results: &[Subject], arm: Arm, by_repetition: bool) -> impl Iterator<Item = Trial> {
    results.iter().enumerate().flat_map(move |(round, result)| {
        let whole = Trial {
            round: round as u64,
            arm,
            began_ns: result.started_at.saturating_mul(1_000_000_000),
            wall_ps: result.measured.wall_ps,
            batch_ps: result.measured.batch_ps,
            p99_ps: result.measured.p99_ps,
            parts: result.measured.parts,
        };
        let mut trials = vec![whole.clone()];
        if by_repetition {
            trials = result
                .repetitions
                .iter()
                .enumerate()
                .map(|(index, wall_ps)| Trial {
                    round: index as u64,
                    wall_ps: *wall_ps,
                    // These are of the whole run.
                    batch_ps: whole.batch_ps.filter(|_| index == 0),
                    p99_ps: whole.p99_ps.filter(|_| index == 0),
                    parts: whole.parts.filter(|_| index == 0),
                    ..whole.clone()
                })
                .collect();
        }
        trials
    })
}

/// Each side has a result that is older than one of the other.
fn interleaved(left: &[Subject], right: &[Subject]) -> bool {
    let bounds = |results: &[Subject]| {
        let times = || results.iter().map(|result| result.started_at);
        times().min().zip(times().max())
    };
    match (bounds(left), bounds(right)) {
        (Some((first_left, last_left)), Some((first_right, last_right))) => {
            first_left < last_right && first_right < last_left
        }
        _ => false,
    }
}

fn subject(path: &Path) -> Result<Subject> {
    let subject = match saved::read(path)? {
        Saved::Run(run) => of_run(&run),
        Saved::Trace(seen) => of_look(&seen),
        other => {
            bail!("{} cannot be compared: it is {}, not of one run or look", path.display(), other.kind())
        }
    };
    ensure!(
        subject.measured.wall_ps > 0,
        "{} has no figure to compare: nothing was measured",
        path.display()
    );
    Ok(subject)
}

fn of_run(observation: &Observation) -> Subject {
    let repetitions = observation.repetitions.iter().filter(|repetition| repetition.ops > 0);
    Subject {
        name: observation.workload.clone(),
        started_at: observation.started_at,
        environment: observation.environment.clone(),
        parameters: observation.parameters.clone(),
        repetitions: repetitions.map(|repetition| repetition.per_op_ps).collect(),
        measured: trial::of_observation(observation),
    }
}

fn of_look(seen: &Trace) -> Subject {
    let measured = trial::of_trace(seen);
    Subject {
        name: seen.command.as_ref().map_or_else(|| "a process".to_owned(), |words| words.join(" ")),
        started_at: seen.started_at,
        environment: seen.environment.clone(),
        parameters: seen.parameters.clone(),
        repetitions: vec![measured.wall_ps],
        measured,
    }
}
