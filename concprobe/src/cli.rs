//! The command line: commands, exit status, and who writes to which stream.

mod arguments;
mod compare;
mod diff;
mod look;
mod output;
mod show;

use std::{path::Path, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::{ArgMatches, FromArgMatches as _};

use crate::{
    doctor::{self, State},
    harness::crew,
    observation::{self, Observation},
    plan::Plan,
    report, reproduce, run, saved,
    target::{Identity, NotStarted},
    trace, workload,
};
use output::{Destination, OwnStdout};

/// Done.
const DONE: u8 = 0;
/// Measured, but something was lost, a self-check failed, or the result could not be saved.
const DOUBTFUL: u8 = 1;
/// Could not run.
const FAILED: u8 = 2;

/// Runs the program. `started_ns` is when it began (`CLOCK_MONOTONIC`).
pub fn main(started_ns: u64) -> ExitCode {
    let matches = arguments::read();
    let status = match dispatch(&matches, started_ns) {
        Ok(status) => status,
        Err(error) if output::is_broken_pipe(&error) => DONE,
        Err(error) => {
            output::complain(&error);
            FAILED
        }
    };
    ExitCode::from(status)
}

fn dispatch(matches: &ArgMatches, started_ns: u64) -> Result<u8> {
    match matches.subcommand() {
        Some(("list", options)) => {
            let list = if options.get_flag("markdown") { report::list_markdown } else { report::list };
            output::print(&list(workload::TABLE)).map(|()| DONE)
        }
        Some(("doctor", options)) => examine(options.get_flag("json")),
        Some(("run", options)) => measure(options, started_ns),
        Some(("reproduce", options)) => reproduce_sets(options),
        Some(("trace", options)) => look_at(look::TraceOptions::from_arg_matches(options)?.resolve()?),
        Some(("attach", options)) => look_at(look::AttachOptions::from_arg_matches(options)?.resolve()),
        Some(("show", options)) => show::show(&show::ShowOptions::from_arg_matches(options)?),
        Some(("compare", options)) => compare_sides(&compare::resolve(options)?),
        Some(("diff", options)) => diff::diff(&diff::DiffOptions::from_arg_matches(options)?),
        Some((run::process::COMMAND, options)) => serve(options),
        _ => unreachable!("clap demands one of the commands"),
    }
}

fn examine(json: bool) -> Result<u8> {
    let diagnosis = doctor::examine();
    let text = if json {
        serde_json::to_string_pretty(&diagnosis)? + "\n"
    } else {
        let mut text = String::new();
        for check in &diagnosis.checks {
            let mark = match check.state {
                State::Met => "ok",
                State::Limited => "limited",
                State::Unmet if check.required => "MISSING",
                State::Unmet => "missing",
                State::Unknown => "unknown",
            };
            text.push_str(&format!("{mark:>8}  {}: {}\n", check.name, check.found));
            if let Some(advice) = &check.advice {
                text.push_str(&format!("{:>8}  → {advice}\n", ""));
            }
        }
        text.push_str(if diagnosis.run_would_work() {
            "\n`concprobe run` works here.\n"
        } else {
            "\n`concprobe run` does not work here: see MISSING above. `concprobe run WORKLOAD --no-bpf` does.\n"
        });
        text
    };
    output::print(&text)?;
    Ok(if diagnosis.run_would_work() { DONE } else { FAILED })
}

fn measure(options: &ArgMatches, started_ns: u64) -> Result<u8> {
    let (name, options) = options.subcommand().context("no workload was named")?;
    let entry = workload::find(name).context("no such workload")?;
    let plans = arguments::RunOptions::from_arg_matches(options)?.resolve(entry, options)?;
    let first = plans.first().context("there is nothing to run")?;
    let destination = destination(first.output.as_deref())?;
    if first.verbose >= 2 {
        output::show_messages();
    }
    let runtime = run::runtime()?;
    let outcome = runtime.block_on(carry_out(&plans, started_ns));
    // What is still at work there (the signal handlers) has nothing left to do.
    runtime.shutdown_background();
    let observations = match outcome {
        Ok(observations) => observations,
        Err(error) => {
            if let Some(destination) = destination {
                destination.abandon();
            }
            return Err(if first.depth.is_some() {
                run::explain(error, &output::arguments())
            } else {
                error
            });
        }
    };
    deliver(&plans, &observations, destination)
}

/// One run after the other, until one is interrupted.
async fn carry_out(plans: &[Plan], started_ns: u64) -> Result<Vec<Observation>> {
    let mut observations: Vec<Observation> = Vec::new();
    for plan in plans {
        match run::run(plan, started_ns).await {
            Ok(observation) => observations.push(observation),
            // What was measured before is kept.
            Err(error) if !observations.is_empty() => {
                output::complain(&error);
                break;
            }
            Err(error) => return Err(error),
        }
        if observations.iter().any(|observation| observation.interrupted_by.is_some()) {
            break;
        }
    }
    Ok(observations)
}

fn deliver(plans: &[Plan], observations: &[Observation], destination: Option<Destination>) -> Result<u8> {
    let [plan, ..] = plans else { return Ok(DONE) };
    let style = output::style(plan.verbose);
    let wants_json = plan.json || destination.is_some();
    let (json, screen) = match observations {
        [observation] if plans.len() == 1 => (
            wants_json.then(|| report::json(observation)).transpose()?,
            (!plan.json).then(|| report::text(observation, style)).transpose()?,
        ),
        several => (
            wants_json
                .then(|| report::json(&Sweep { schema: saved::SWEEP_SCHEMA, sweep: several }))
                .transpose()?,
            (!plan.json).then(|| report::sweep(several, &saved::swept_parameter(several), style)),
        ),
    };
    let delivered = hand_over(screen.as_deref(), json.as_deref(), destination)?;
    if plan.json {
        for warning in observations.iter().flat_map(|observation| &observation.warnings) {
            output::warn(warning);
        }
    }
    let in_order = |one: &Observation| one.self_check.passed && one.lost.unwrap_or(0) == 0;
    Ok(match observations.iter().find_map(|observation| observation.interrupted_by) {
        _ if delivered != DONE => delivered,
        Some(signal) => u8::try_from(128 + signal).unwrap_or(DOUBTFUL),
        None if observations.len() == plans.len() && observations.iter().all(in_order) => DONE,
        None => DOUBTFUL,
    })
}

/// A sweep as it is saved.
#[derive(serde::Serialize)]
struct Sweep<'a> {
    schema: &'static str,
    sweep: &'a [Observation],
}

fn reproduce_sets(options: &ArgMatches) -> Result<u8> {
    let options = arguments::ReproduceOptions::from_arg_matches(options)?;
    let destination = destination(options.output.as_deref())?;
    let runtime = run::runtime()?;
    let outcome = runtime.block_on(reproduce::reproduce(&options.sets()));
    runtime.shutdown_background();
    let reproduction = match outcome {
        Ok(reproduction) => reproduction,
        Err(error) => {
            if let Some(destination) = destination {
                destination.abandon();
            }
            return Err(run::explain(error, &output::arguments()));
        }
    };
    let json = (options.json || destination.is_some()).then(|| report::json(&reproduction)).transpose()?;
    let screen = report::reproduction(&reproduction, output::style(0));
    let delivered = hand_over(if options.json { None } else { Some(&screen) }, json.as_deref(), destination)?;
    Ok(match reproduction.interrupted_by {
        _ if delivered != DONE => delivered,
        Some(signal) => u8::try_from(128 + signal).unwrap_or(DOUBTFUL),
        None if reproduction.refuted() => DOUBTFUL,
        None => DONE,
    })
}

fn look_at(plan: trace::Plan) -> Result<u8> {
    let (json, verbose) = (plan.json, plan.verbose);
    let destination = destination(plan.output.as_deref())?;
    let own_stdout = json.then(OwnStdout::take).transpose()?;
    let runtime = run::runtime()?;
    let outcome = runtime.block_on(trace::trace(plan));
    runtime.shutdown_background();
    drop(own_stdout);
    let seen = match outcome {
        Ok(seen) => seen,
        Err(error) => {
            if let Some(destination) = destination {
                destination.abandon();
            }
            // The command's own fault is not one of privileges.
            if let Some(not_started) = error.downcast_ref::<NotStarted>() {
                let status = u8::try_from(not_started.shell_status()).unwrap_or(FAILED);
                output::complain(&error);
                return Ok(status);
            }
            if let Some(trace::Interrupted(signal)) = error.downcast_ref() {
                let status = u8::try_from(128 + signal).unwrap_or(FAILED);
                output::complain(&error);
                return Ok(status);
            }
            return Err(run::explain(error, &output::arguments()));
        }
    };
    let text = (json || destination.is_some()).then(|| report::json(&seen)).transpose()?;
    let screen = (!json).then(|| report::trace(&seen, output::style(verbose)));
    // The command's own end stands, whatever becomes of the report.
    let delivered = hand_over(screen.as_deref(), text.as_deref(), destination).unwrap_or_else(|error| {
        if output::is_broken_pipe(&error) {
            return DONE;
        }
        output::complain(&error);
        FAILED
    });
    let in_order = seen.lost == 0 && seen.self_check.passed;
    Ok(match seen.exit {
        Some(exit) if exit.status != Some(0) => exit_status(exit),
        _ if delivered != DONE => delivered,
        None if seen.command.is_none()
            && seen.interrupted_by.is_some_and(|signal| signal != libc::SIGINT) =>
        {
            u8::try_from(128 + seen.interrupted_by.unwrap_or(0)).unwrap_or(DOUBTFUL)
        }
        _ if in_order => DONE,
        _ => DOUBTFUL,
    })
}

/// Where the whole result goes; under sudo it belongs to the caller.
fn destination(path: Option<&Path>) -> Result<Option<Destination>> {
    let Some(path) = path else { return Ok(None) };
    let owner = Identity::find(None).ok().and_then(|identity| identity.owner());
    Ok(Some(Destination::prepare(path)?.give_to(owner)))
}

fn compare_sides(request: &compare::Request) -> Result<u8> {
    let destination = destination(request.output.as_deref())?;
    let outcome = match &request.task {
        compare::Task::Measure(plan) => {
            let runtime = run::runtime()?;
            let outcome = runtime.block_on(crate::compare::compare(plan));
            runtime.shutdown_background();
            outcome.map_err(|error| {
                if plan.needs_kernel_programs() { run::explain(error, &output::arguments()) } else { error }
            })
        }
        compare::Task::Saved(sides, settings) => crate::compare::saved(sides, settings),
        compare::Task::Show(saved) => Ok(saved.as_ref().clone()),
    };
    let comparison = match outcome {
        Ok(comparison) => comparison,
        Err(error) => {
            if let Some(destination) = destination {
                destination.abandon();
            }
            return Err(error);
        }
    };
    let json = (request.json || destination.is_some()).then(|| report::json(&comparison)).transpose()?;
    let screen = (!request.json).then(|| report::compare(&comparison, output::style(0)));
    let delivered = hand_over(screen.as_deref(), json.as_deref(), destination)?;
    Ok(match comparison.interrupted_by {
        _ if delivered != DONE => delivered,
        Some(signal) => u8::try_from(128 + signal).unwrap_or(DOUBTFUL),
        None if comparison.lost > 0 => DOUBTFUL,
        None => DONE,
    })
}

/// As a shell says it.
fn exit_status(exit: observation::trace::Exit) -> u8 {
    let status = exit.status.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(status).unwrap_or(u8::MAX)
}

/// Prints the screen, or without one the JSON, first, and saves the JSON then, so that a full disk does not
/// take the result away.
fn hand_over(screen: Option<&str>, json: Option<&str>, destination: Option<Destination>) -> Result<u8> {
    let printed = output::print(screen.or(json).unwrap_or_default());
    let saved = match (destination, json) {
        (Some(destination), Some(json)) => destination.save(json),
        _ => Ok(()),
    };
    if let Err(error) = &saved {
        output::complain(error);
    }
    printed?;
    Ok(if saved.is_ok() { DONE } else { DOUBTFUL })
}

fn serve(options: &ArgMatches) -> Result<u8> {
    let socket = options.get_one("socket").copied().context("no socket")?;
    crew::serve(socket, workload::find)?;
    Ok(DONE)
}
