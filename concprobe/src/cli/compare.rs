//! `compare` as typed: which two sides, and how they resolve into a plan.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{ArgMatches, Args, Command, FromArgMatches as _, parser::ValueSource, value_parser};

use super::arguments::{self, RunOptions, duration};
use crate::{
    compare::{self, Commands, Plan, Settings, Subject},
    harness::Entry,
    observation::{
        Depth,
        compare::{By, Comparison, Order},
    },
    plan::{self, Length},
    statistics::MOST_PAIRS,
    target::Identity,
    workload,
};

const EXAMPLES: &str = "\
Examples:
  sudo concprobe compare padded false-sharing --threads 2      two workloads
  sudo concprobe compare pool --workers 2 -- pool --workers 32 one workload with two settings
  concprobe compare -- './old input' './new input'             two commands, each run by sh -c
  sudo concprobe compare --trace -- 'gzip -1 f' 'gzip -9 f'    the same, and which part of the time it is
  concprobe compare a.json b.json                              two saved results
  concprobe compare a1.json a2.json -- b1.json b2.json         several of each
  concprobe compare -o both.json -- ./old ./new && concprobe compare both.json   saved, and shown again

Each round measures A, A once more, and B, in random order. Options of `concprobe run` follow the workload; \
those that follow the second hold for both, unless -- parts the sides.

Exit status: 0 answered, also with `cannot tell`; 1 measured, but something was lost; 2 could not compare; \
128 + N ended early by signal N, and what was measured is reported.";

/// How long a trial of a workload is when nothing else is asked for.
const TRIAL: Duration = Duration::from_millis(200);
/// The same, before anything counts.
const WARMUP: Duration = Duration::from_millis(50);

/// `compare`.
pub fn command() -> Command {
    SidesOptions::augment_args(Command::new("compare"))
        .about("Two workloads, commands or saved results: which takes less time, and how sure that is")
        .override_usage(
            "concprobe compare [OPTIONS] A B\n       \
             concprobe compare [OPTIONS] WORKLOAD [ITS OPTIONS] -- WORKLOAD [ITS OPTIONS]\n       \
             concprobe compare [OPTIONS] -- 'COMMAND A' 'COMMAND B'",
        )
        .after_help(EXAMPLES)
}

/// How to measure.
#[derive(Debug, Default, Args)]
struct MethodOptions {
    /// Pairs at most; fewer where the answer is clear before [default: 40]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(MOST_PAIRS)), allow_hyphen_values = true)]
    runs: Option<u32>,
    /// Begin no round that would end later [default: 2m]
    #[arg(long, value_name = "T", value_parser = duration, allow_hyphen_values = true)]
    max_time: Option<Duration>,
    /// Where the random order starts, to repeat one [default: another each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// In which order the trials of a round are [default: random]
    #[arg(long, value_enum)]
    order: Option<Order>,
    /// Do not measure A against itself: a third fewer trials, and no noise floor
    #[arg(long)]
    no_same: bool,
    /// A difference smaller than this is not called one [default: 0.5%]
    #[arg(long, value_name = "PERCENT", value_parser = percentage, allow_hyphen_values = true)]
    smallest: Option<f64>,
    /// Which figure is compared [default: batch where one thread works in batches, else wall]
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Commands: runs of each that do not count, before the first round [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(0..=1_000))]
    warmup_runs: Option<u32>,
    /// Commands: look at each run with the kernel programs, as `concprobe trace` does
    #[arg(long)]
    trace: bool,
    /// Commands: a run counts even if it fails
    #[arg(long)]
    ignore_failure: bool,
    /// Commands: let them write to stderr, in place of nowhere
    #[arg(long)]
    show_output: bool,
}

/// Where the result goes.
#[derive(Debug, Default, Args)]
struct OutputOptions {
    /// Where to write the whole result, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The whole result as JSON on stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SidesOptions {
    #[command(flatten)]
    method: MethodOptions,
    #[command(flatten)]
    output: OutputOptions,
    /// Workloads with their options, or saved results
    // What is no option of the comparison is one of a workload.
    #[arg(value_name = "SIDES", allow_hyphen_values = true, num_args = 0..)]
    sides: Vec<String>,
    /// Two commands
    #[arg(last = true, value_name = "COMMAND", num_args = 0..)]
    commands: Vec<String>,
}

/// What is to be done.
#[derive(Debug)]
pub struct Request {
    /// The task.
    pub task: Task,
    /// Where the whole result goes.
    pub output: Option<PathBuf>,
    /// The result as JSON on stdout.
    pub json: bool,
}

/// What is to be done.
#[derive(Debug)]
pub enum Task {
    /// Measure and compare.
    Measure(Box<Plan>),
    /// Compare what was saved.
    Saved([Vec<PathBuf>; 2], Box<Settings>),
    /// Show a saved comparison again.
    Show(Box<Comparison>),
}

/// Finds out what was meant.
///
/// # Errors
/// What does not fit together.
pub fn resolve(matches: &ArgMatches) -> Result<Request> {
    let mut options = SidesOptions::from_arg_matches(matches)?;
    let sides = std::mem::take(&mut options.sides);
    let commands = std::mem::take(&mut options.commands);
    if sides.is_empty() {
        return options.commands(commands);
    }
    // Clap leaves the dashes among the sides.
    let (left, right) = match sides.iter().position(|word| word == "--") {
        Some(at) => (&sides[..at], &sides[at + 1..]),
        None => (&sides[..], &commands[..]),
    };
    let word = &left[0];
    if let Some(entry) = workload::find(word) {
        options.workloads(entry, left, right)
    } else if Path::new(word).exists() || word.contains('/') || word.ends_with(".json") {
        options.saved(left, right)
    } else {
        bail!(
            "there is no workload and no file '{word}' (`concprobe list` shows the workloads; commands follow \
             --: concprobe compare -- 'cmd a' 'cmd b')"
        )
    }
}

impl SidesOptions {
    fn request(self, task: Task) -> Request {
        Request { task, output: self.output.output, json: self.output.json }
    }

    fn commands(self, commands: Vec<String>) -> Result<Request> {
        let commands: [String; 2] = commands.try_into().map_err(|commands: Vec<String>| {
            anyhow::anyhow!(
                "compare needs two sides, not {}: two workloads, two files, or after -- two commands, each \
                 quoted as one word",
                commands.len()
            )
        })?;
        ensure!(commands.iter().all(|command| !command.trim().is_empty()), "a command is empty");
        let plan = Plan {
            labels: commands.clone(),
            settings: self.method.settings(),
            subject: Subject::Commands(Commands {
                commands,
                identity: Identity::find(None)?,
                traced: self.method.trace,
                ignore_failure: self.method.ignore_failure,
                show_output: self.method.show_output,
            }),
        };
        Ok(self.request(Task::Measure(Box::new(plan))))
    }

    fn saved(mut self, left: &[String], right: &[String]) -> Result<Request> {
        let parsed = MethodOptions::augment_args(OutputOptions::augment_args(Command::new("compare")))
            .arg(clap::Arg::new("files").num_args(0..).value_parser(value_parser!(PathBuf)));
        let mut files: [Vec<PathBuf>; 2] = [Vec::new(), Vec::new()];
        for (words, files) in [left, right].into_iter().zip(&mut files) {
            let name = std::iter::once("concprobe compare".to_owned());
            let matches = parsed.clone().try_get_matches_from(name.chain(words.iter().cloned()));
            let matches = matches.unwrap_or_else(|error| error.exit());
            *files = matches.get_many::<PathBuf>("files").into_iter().flatten().cloned().collect();
            self.method.add(MethodOptions::from_arg_matches(&matches)?);
            self.output.add(OutputOptions::from_arg_matches(&matches)?);
        }
        self.method.refuse_commands_only()?;
        if let [first, rest @ ..] = &mut files
            && rest[0].is_empty()
        {
            if let [only] = first.as_slice() {
                let saved = compare::read(only)?.with_context(|| {
                    format!("{} is no comparison: compare needs two sides", only.display())
                })?;
                return Ok(self.request(Task::Show(Box::new(saved))));
            }
            ensure!(first.len() == 2, "several files of each side are parted by --");
            rest[0].extend(first.pop());
        }
        let settings = self.method.settings();
        Ok(self.request(Task::Saved(files, Box::new(settings))))
    }

    fn workloads(mut self, first: &'static Entry, left: &[String], right: &[String]) -> Result<Request> {
        let parted = !right.is_empty();
        let (left, right) = if parted {
            (left.to_vec(), right.to_vec())
        } else {
            let [one, other, common @ ..] = left else {
                bail!("compare needs two sides: concprobe compare {} OTHER", first.name)
            };
            ensure!(
                !other.starts_with('-'),
                "where the first side has options, -- parts the sides: concprobe compare {} {other} … -- …",
                first.name
            );
            (with(one, common), with(other, common))
        };
        let Some(second) = workload::find(&right[0]) else {
            bail!("there is no workload '{}' (`concprobe list` shows all)", right[0])
        };
        let mut sides = Vec::new();
        for (entry, words) in [(first, &left), (second, &right)] {
            sides.push(self.side(entry, words)?);
        }
        self.method.refuse_commands_only()?;
        let [one, other]: [plan::Plan; 2] =
            sides.try_into().map_err(|_| anyhow::anyhow!("compare needs two sides"))?;
        let labels = if parted {
            [left.join(" "), right.join(" ")]
        } else {
            [first.name.to_owned(), second.name.to_owned()]
        };
        let settings = self.method.settings();
        let plan = Plan { subject: Subject::Workloads(Box::new([one, other])), labels, settings };
        Ok(self.request(Task::Measure(Box::new(plan))))
    }

    /// One side, as `run` takes it; options of the comparison may stand among its own.
    fn side(&mut self, entry: &'static Entry, words: &[String]) -> Result<plan::Plan> {
        let command = MethodOptions::augment_args(arguments::workload_command(entry));
        let name = std::iter::once(format!("concprobe compare {}", entry.name));
        let matches = command
            .try_get_matches_from(name.chain(words[1..].iter().cloned()))
            .unwrap_or_else(|error| error.exit());
        self.method.add(MethodOptions::from_arg_matches(&matches)?);
        let mut plans = RunOptions::from_arg_matches(&matches)?.resolve(entry, &matches)?;
        ensure!(plans.len() == 1, "a side has one value of each parameter, not a list");
        let mut plan = plans.pop().context("a side has a value")?;
        self.output.add(OutputOptions { output: plan.output.take(), json: plan.json });
        let typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        if !typed("ops") && !typed("duration") {
            plan.length = Length::Time(TRIAL);
        }
        if !typed("warmup") {
            plan.warmup = WARMUP;
        }
        // Looking at every call would be part of the figure.
        if !typed("depth") && !typed("syscalls") && plan.depth.is_some() {
            plan.depth = Some(Depth::Switches);
        }
        Ok(plan)
    }
}

fn with(first: &String, rest: &[String]) -> Vec<String> {
    std::iter::once(first).chain(rest).cloned().collect()
}

impl MethodOptions {
    /// What was said later holds.
    fn add(&mut self, later: Self) {
        self.runs = later.runs.or(self.runs);
        self.max_time = later.max_time.or(self.max_time);
        self.seed = later.seed.or(self.seed);
        self.order = later.order.or(self.order);
        self.by = later.by.or(self.by);
        self.no_same |= later.no_same;
        self.smallest = later.smallest.or(self.smallest);
        self.warmup_runs = later.warmup_runs.or(self.warmup_runs);
        self.trace |= later.trace;
        self.ignore_failure |= later.ignore_failure;
        self.show_output |= later.show_output;
    }

    fn refuse_commands_only(&self) -> Result<()> {
        let said = [
            (self.trace, "--trace"),
            (self.ignore_failure, "--ignore-failure"),
            (self.show_output, "--show-output"),
            (self.warmup_runs.is_some(), "--warmup-runs"),
        ];
        match said.iter().find(|(said, _)| *said) {
            Some((_, option)) => bail!("{option} is for commands, which follow --"),
            None => Ok(()),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            runs: self.runs.unwrap_or(40),
            max_time: self.max_time.unwrap_or(Duration::from_secs(120)),
            // Short, to be typed again.
            seed: self.seed.unwrap_or_else(|| u64::from(fastrand::u32(..))),
            order: self.order.unwrap_or_default(),
            same_arm: !self.no_same,
            smallest: self.smallest.unwrap_or(0.005),
            warmup_runs: self.warmup_runs.unwrap_or(1),
            by: self.by,
        }
    }
}

impl OutputOptions {
    fn add(&mut self, later: Self) {
        self.output = later.output.or(self.output.take());
        self.json |= later.json;
    }
}

/// `0.5%` or `0.5`, as a part of one.
fn percentage(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=1_000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("must be a percentage from 0% to 1000%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(words: &[&str]) -> Result<Request> {
        let words = std::iter::once("compare").chain(words.iter().copied());
        resolve(&command().try_get_matches_from(words)?)
    }

    fn plan(words: &[&str]) -> Plan {
        match resolved(words).unwrap().task {
            Task::Measure(plan) => *plan,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_workload_with_two_settings_is_parted_by_two_dashes() {
        let plan =
            plan(&["--runs", "9", "pool", "--workers", "2", "--", "pool", "--workers", "32", "--seed", "5"]);
        assert_eq!(plan.labels, ["pool --workers 2", "pool --workers 32 --seed 5"]);
        let Subject::Workloads(sides) = plan.subject else { panic!("no workloads") };
        assert_eq!(sides.each_ref().map(|side| side.settings.parameters["workers"].as_str()), ["2", "32"]);
        assert_eq!((plan.settings.runs, plan.settings.seed), (9, 5));
        assert!(
            sides
                .iter()
                .all(|side| side.depth == Some(Depth::Switches) && side.length == Length::Time(TRIAL))
        );
    }

    #[test]
    fn options_after_two_workloads_hold_for_both() {
        let plan = plan(&["padded", "false-sharing", "--threads", "2", "--ops", "1000", "--runs", "3"]);
        let Subject::Workloads(sides) = plan.subject else { panic!("no workloads") };
        assert!(sides.iter().all(|side| side.settings.threads == 2 && side.length == Length::Ops(1_000)));
        assert_eq!((plan.settings.runs, plan.labels), (3, ["padded".to_owned(), "false-sharing".to_owned()]));
    }

    #[test]
    fn what_follows_two_dashes_at_once_is_commands() {
        let plan = plan(&["--seed", "1", "--", "sleep 1", "sleep 2"]);
        assert_eq!(plan.labels, ["sleep 1", "sleep 2"]);
        assert!(matches!(plan.subject, Subject::Commands(Commands { traced: false, .. })));
    }

    #[test]
    fn files_are_two_or_parted() {
        let files = |words: &[&str]| match resolved(words).unwrap().task {
            Task::Saved(files, _) => files.map(|files| files.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!(files(&["a.json", "b.json"]), [1, 1]);
        assert_eq!(files(&["a.json", "b.json", "c.json", "--", "d.json", "--runs", "3"]), [3, 1]);
    }

    #[test]
    fn what_is_not_two_sides_is_refused() {
        for (words, message) in [
            (&[][..], "two sides, not 0"),
            (&["--", "true"], "two sides, not 1"),
            (&["--", "true", " "], "a command is empty"),
            (&["sem-fast"], "needs two sides"),
            (&["sem-fast", "--threads", "2", "padded"], "-- parts the sides"),
            (&["sem-fast", "sem-slow"], "there is no workload 'sem-slow'"),
            (&["sem-fats", "sem-fast"], "no workload and no file 'sem-fats'"),
            (&["sem-fast", "padded", "--trace"], "--trace is for commands"),
            (&["pool", "--workers", "1,2", "--", "pool"], "not a list"),
            (&["a.json", "b.json", "c.json"], "parted by --"),
        ] {
            let error = resolved(words).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(message), "{words:?}: {error}");
        }
    }

    #[test]
    fn percentages_are_written_as_people_write_them() {
        assert_eq!(percentage("0.5%"), Ok(0.005));
        assert_eq!(percentage("2"), Ok(0.02));
        for text in ["-1%", "", "%", "five", "NaN", "inf"] {
            assert!(percentage(text).is_err(), "{text}");
        }
    }
}
