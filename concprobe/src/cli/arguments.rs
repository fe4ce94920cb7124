//! Commands and options as typed, and how they resolve into a plan.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command,
    builder::ValueParser,
    error::{ContextKind, ContextValue, ErrorKind},
    value_parser,
};

use super::{compare, diff, look, show};
use crate::{
    environment::{self, Environment, format_cpu_list},
    harness::{CrewSize, Entry, Kind, Settings},
    observation::Depth,
    plan::{Length, Plan},
    probe::Way,
    reproduce,
    run::process,
    workload,
};

/// No run is longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

const ABOUT: &str = "Tells why a concurrency primitive costs what it costs: the fast path, the sleep path, or \
the creation of a thread, with evidence from the kernel";

const EXAMPLES: &str = "\
Examples:
  concprobe list                                    what can be measured
  sudo concprobe run sem-fast                       a semaphore that nobody waits for
  sudo concprobe run sem-pingpong --pin 0           two processes that hand over on one CPU
  sudo concprobe run thread-create -o result.json   the whole result, to keep
  sudo concprobe trace -- make -j4                  the locks and waits of any program
  sudo concprobe attach --pid 1234 --duration 10s   and of one that runs already
  concprobe run sem-fast --no-bpf                   an estimate, without privileges
  concprobe doctor                                  what this machine allows

Exit status: 0 done; 1 measured, but something was lost, a self-check failed, or the result could not be \
saved; 2 could not run; 128 + N ended early by signal N.";

/// The whole command line.
pub fn command() -> Command {
    Command::new("concprobe")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("list").about("The workloads, with what each shows").arg(
                Arg::new("markdown").long("markdown").action(ArgAction::SetTrue).help("As a table in Markdown"),
            ),
        )
        .subcommand(run())
        .subcommand(look::trace_command())
        .subcommand(look::attach_command())
        .subcommand(show::command())
        .subcommand(compare::command())
        .subcommand(diff::command())
        .subcommand(ReproduceOptions::augment_args(Command::new("reproduce")).about(
            "The published measurements M1 to M5, side by side with this machine, and whether the shape holds",
        ).after_help("Takes a few minutes. Exit status: 0 done; 1 a claim is refuted here; 2 could not run."))
        .subcommand(
            Command::new("doctor")
                .about("What this machine allows, and what to do about the rest")
                .after_help("Exit status: 0 if `concprobe run` would work here, 2 if not.")
                .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("The checks as JSON")),
        )
        .subcommand(
            Command::new(process::COMMAND)
                .hide(true)
                .arg(Arg::new("socket").required(true).value_parser(value_parser!(i32))),
        )
}

fn run() -> Command {
    workload::TABLE.iter().fold(
        Command::new("run")
            .about("Runs a workload and tells what its ops cost and why")
            .after_help(EXAMPLES)
            .subcommand_required(true)
            .subcommand_value_name("WORKLOAD")
            .subcommand_help_heading("Workloads")
            .disable_help_subcommand(true),
        |run, entry| run.subcommand(workload_command(entry)),
    )
}

pub(super) fn workload_command(entry: &'static Entry) -> Command {
    // The options bring a description of their own, so the workload's comes after them.
    let command =
        RunOptions::augment_args(Command::new(entry.name)).about(entry.summary).after_help(format!(
            "An op: {}\nClaim: {}\nOps when nothing else is asked for: {}",
            entry.op,
            entry.claim.sentence(),
            entry.default_ops
        ));
    entry.parameters.iter().fold(command, |command, parameter| {
        command.arg(
            Arg::new(parameter.name)
                .long(parameter.name)
                .help(parameter.help)
                .default_value(parameter.default)
                .allow_hyphen_values(true)
                .value_parser(parser(parameter.kind)),
        )
    })
}

/// Reads the command line; ends the process after help, and after what cannot be understood.
pub fn read() -> ArgMatches {
    command().try_get_matches().unwrap_or_else(|error| {
        unknown_workload(&error).unwrap_or(error).exit();
    })
}

/// Clap speaks of subcommands where people think of workloads.
fn unknown_workload(error: &clap::Error) -> Option<clap::Error> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None; // one that is missing, for instance
    }
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else { return None };
    if !error.get(ContextKind::Usage)?.to_string().contains(" run ") {
        return None;
    }
    let nearest = match error.get(ContextKind::SuggestedSubcommand) {
        // The last is the one that clap finds most like it.
        Some(ContextValue::Strings(names)) => names.last().map(|name| format!(": did you mean {name}?")),
        _ => None,
    };
    let message = format!(
        "there is no workload '{typed}'{} (`concprobe list` shows all {})\n",
        nearest.unwrap_or_default(),
        workload::TABLE.len()
    );
    Some(clap::Error::raw(error.kind(), message))
}

/// What to reproduce, and where the result goes.
#[derive(Debug, Args)]
pub struct ReproduceOptions {
    /// Which sets [default: all]
    #[arg(value_enum)]
    names: Vec<reproduce::Name>,
    /// Where to write the whole result, as JSON
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The whole result as JSON on stdout, and nothing else there
    #[arg(long)]
    pub json: bool,
}

impl ReproduceOptions {
    /// The sets, each once.
    pub fn sets(&self) -> Vec<reproduce::Name> {
        if self.names.is_empty() {
            return reproduce::Name::ALL.to_vec();
        }
        let mut names = self.names.clone();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Options that every workload has.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Size of the crew [default: 1, or what the workload needs]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..), allow_hyphen_values = true)]
    threads: Option<u32>,
    /// Ops in all, shared out over the repetitions
    #[arg(long, visible_alias = "tasks", value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000_000), allow_hyphen_values = true)]
    ops: Option<u64>,
    /// Time in all, shared out over the repetitions (500us, 2s, 1m)
    #[arg(long, value_name = "T", value_parser = duration, conflicts_with = "ops", allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Into how many repetitions the run is split
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// How long to run before anything counts (0s for not at all)
    #[arg(long, value_name = "T", default_value = "100ms", value_parser = duration_or_zero, allow_hyphen_values = true)]
    warmup: Duration,
    /// CPUs to pin the members of the crew to, in turn (0,2-3), or none
    #[arg(long, value_name = "CPUS", default_value = "none")]
    pin: String,
    /// How deep the kernel programs look
    #[arg(long, value_enum, default_value_t = Depth::Calls, conflicts_with = "no_bpf")]
    depth: Depth,
    /// Count system calls by number as well
    #[arg(long, conflicts_with = "no_bpf")]
    syscalls: bool,
    /// Measure with what an ordinary user can read: an estimate
    #[arg(long)]
    no_bpf: bool,
    /// Where to write the whole result, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The whole result as JSON on stdout, and nothing else there
    #[arg(long)]
    json: bool,
    /// More about concprobe itself; twice: the kernel programs' messages
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// How long a workload may do no op before it counts as hanging
    #[arg(long, value_name = "T", default_value = "20s", value_parser = duration, hide = true)]
    patience: Duration,
    /// How to attach the kernel programs
    #[arg(long, value_enum, hide = true)]
    attach: Option<Way>,
}

impl RunOptions {
    /// Checks what clap cannot, and fills in what was not said: a plan, or one for each value of a sweep.
    ///
    /// # Errors
    /// What does not fit together, or is not to be had on this machine.
    pub fn resolve(&self, entry: &'static Entry, matches: &ArgMatches) -> Result<Vec<Plan>> {
        if let Some(reason) = entry.unavailable {
            bail!("{} is not available: {reason}", entry.name);
        }
        let typed: BTreeMap<String, String> = entry
            .parameters
            .iter()
            .filter_map(|parameter| {
                let value = matches.get_one::<String>(parameter.name)?;
                Some((parameter.name.to_owned(), value.clone()))
            })
            .collect();
        swept(&typed)?.into_iter().map(|parameters| self.plan(entry, parameters)).collect()
    }

    fn plan(&self, entry: &'static Entry, parameters: BTreeMap<String, String>) -> Result<Plan> {
        let depth = if self.depth == Depth::Switches && self.syscalls {
            bail!("--syscalls counts calls, which --depth switches does not look at: leave one of them out");
        } else {
            (!self.no_bpf).then_some(self.depth)
        };
        let length = match (self.ops, self.duration) {
            (Some(ops), _) => Length::Ops(ops),
            (None, Some(time)) => Length::Time(time),
            (None, None) => Length::Ops(entry.default_ops),
        };
        let threads = crew_size(entry, self.threads, &parameters)?;
        Ok(Plan {
            entry,
            length,
            repeat: u64::from(self.repeat),
            warmup: self.warmup,
            pin: pin(&self.pin)?,
            depth,
            way: self.attach,
            count_by_number: self.syscalls,
            patience: self.patience + longest_wait(&parameters),
            output: self.output.clone(),
            json: self.json,
            verbose: self.verbose,
            settings: Settings { threads, parameters },
        })
    }
}

/// One set of parameters for each value of the one that is a list, in the order of the list.
fn swept(typed: &BTreeMap<String, String>) -> Result<Vec<BTreeMap<String, String>>> {
    let lists: Vec<(&String, &String)> = typed.iter().filter(|(_, value)| value.contains(',')).collect();
    match lists.as_slice() {
        [] => Ok(vec![typed.clone()]),
        [(name, values)] => Ok(values
            .split(',')
            .map(|value| {
                let mut parameters = typed.clone();
                parameters.insert((*name).clone(), value.to_owned());
                parameters
            })
            .collect()),
        _ => bail!("only one parameter at a time can be a list"),
    }
}

/// The longest that a single op waits by its parameters; the watchdog must wait longer.
fn longest_wait(parameters: &BTreeMap<String, String>) -> Duration {
    parameters.values().filter_map(|value| humantime::parse_duration(value).ok()).max().unwrap_or_default()
}

/// Checks a parameter's value; it stays as typed.
fn parser(kind: Kind) -> ValueParser {
    match kind {
        Kind::Choice(words) => ValueParser::from(words.to_vec()),
        Kind::Count(least, most) => ValueParser::from(move |text: &str| {
            let fits = |value: &str| value.parse().is_ok_and(|count: u64| (least..=most).contains(&count));
            if text.split(',').all(fits) {
                Ok(text.to_owned())
            } else {
                Err(format!("must be a number from {least} to {most}, or a list of such to sweep (1,2,4)"))
            }
        }),
        Kind::Duration => ValueParser::from(|text: &str| duration_or_zero(text).map(|_| text.to_owned())),
    }
}

fn crew_size(entry: &Entry, threads: Option<u32>, parameters: &BTreeMap<String, String>) -> Result<usize> {
    let size = match entry.crew {
        CrewSize::Threads(default) => return Ok(threads.map_or(default, |threads| threads as usize)),
        CrewSize::Fixed(size) => size,
        CrewSize::OneMoreThan(name) => {
            1 + parameters.get(name).map_or(Ok(0), |value| value.parse::<usize>())?
        }
    };
    if let Some(threads) = threads.filter(|threads| *threads as usize != size) {
        bail!("{} is played by exactly {size}, not {threads}: leave --threads out", entry.name);
    }
    Ok(size)
}

fn pin(text: &str) -> Result<Option<Vec<usize>>> {
    if text == "none" {
        return Ok(None);
    }
    let wanted = environment::parse_cpu_list(text)?;
    let usable = Environment::read().cpus_usable;
    if let Some(cpu) = wanted.iter().find(|cpu| !usable.contains(cpu)) {
        bail!("cannot pin to CPU {cpu}: this process may use {}", format_cpu_list(&usable));
    }
    Ok(Some(wanted))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err("must be longer than nothing".to_owned()),
        time => Ok(time),
    }
}

fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err("a duration is not negative".to_owned());
    }
    let time =
        humantime::parse_duration(text).map_err(|error| format!("{error} (write 500us, 20ms, 2s, 1m)"))?;
    if time > LONGEST { Err("must not be longer than a day".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn durations_are_written_as_people_write_them() {
        assert_eq!(duration("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration_or_zero("0s"), Ok(Duration::ZERO));
        for text in ["0s", "-1s", "5", "", "2 fortnights", "100years", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_is_swept_in_its_order_and_two_lists_are_refused() {
        let typed = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let plans = swept(&typed(&[("workers", "4,1,2"), ("task-work", "10")])).unwrap();
        let workers: Vec<&str> = plans.iter().map(|parameters| parameters["workers"].as_str()).collect();
        assert_eq!(workers, ["4", "1", "2"]);
        assert!(plans.iter().all(|parameters| parameters["task-work"] == "10"));
        assert_eq!(swept(&typed(&[])).unwrap().len(), 1);
        assert!(swept(&typed(&[("workers", "1,2"), ("task-work", "1,2")])).is_err());
    }

    #[test]
    fn the_watchdog_waits_longer_than_an_op() {
        let parameters =
            BTreeMap::from([("delay".to_owned(), "1m".to_owned()), ("fds".to_owned(), "3".to_owned())]);
        assert_eq!(longest_wait(&parameters), Duration::from_secs(60));
        assert_eq!(longest_wait(&BTreeMap::new()), Duration::ZERO);
    }

    #[test]
    fn a_crew_of_fixed_size_takes_no_other() {
        let pingpong = workload::find("sem-pingpong").unwrap();
        let none = BTreeMap::new();
        assert_eq!(crew_size(pingpong, None, &none).unwrap(), 2);
        assert_eq!(crew_size(pingpong, Some(2), &none).unwrap(), 2);
        assert!(crew_size(pingpong, Some(3), &none).is_err());
    }
}
