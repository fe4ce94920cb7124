//! `bench overhead`: what `concprobe trace` costs a program, beside the tracers that distributions package, whether
//! their answers were right, and whether concprobe's gates hold.

mod answer;
mod child;
mod gate;
mod machine;
mod measure;
mod order;
mod program;
mod reading;
mod summary;
mod table;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use super::c_program;
use super::concprobe::Concprobe;
use gate::Gate;
use machine::Machine;
use measure::{Located, Run, run_alone, run_rounds};
use order::Order;
use program::{PROGRAMS, Prepared, Program};
use summary::{Summary, summarise};
use tool::{TOOLS, Tool, UNTRACED};

use crate::workspace;

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Programs to look at: pp_one, storm, nosleep, getppid, spawn [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = program::find)]
    program: Vec<&'static Program>,
    /// Tools to compare, untraced being always there: again, switches, calls, stacks, strace, … [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tool::find)]
    tools: Vec<&'static Tool>,
    /// Whether to compare the other tracers that are installed
    #[arg(long, value_enum, default_value_t = Peers::On, conflicts_with = "tools")]
    peers: Peers,
    /// Measure this concprobe instead of building one
    #[arg(long, value_name = "FILE")]
    concprobe: Option<PathBuf>,
    /// Repeats the order of an earlier run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where to write all raw figures, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peers {
    On,
    Off,
}

/// Everything that was measured, for `-o`.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    machine: Machine,
    seed: u64,
    pairs: usize,
    programs: Vec<OfProgram>,
    gates: Vec<Gate>,
}

#[derive(Serialize)]
struct OfProgram {
    name: &'static str,
    ops: u64,
    summaries: Vec<Summary>,
    runs: Vec<Run>,
}

/// A tool that is not there, and how to get it.
type Missing = (&'static Tool, String);

/// Measures, prints the tables, and fails if a gate does not pass.
pub(super) fn overhead(options: &Options, pairs: usize) -> Result<()> {
    let (tools, missing) = options.located_tools()?;
    let folder = workspace::target_dir().join(format!("bench/overhead-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let done = compare(options, &tools, pairs, &folder);
    // What the tools left there; nothing depends on its going.
    let _ = fs::remove_dir_all(&folder);
    let report = done?;
    table::print_missing(&missing);
    table::print_gates(&report.gates);
    if let Some(path) = &options.output {
        let json = serde_json::to_string_pretty(&report)?;
        fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed = report.gates.iter().filter(|gate| !gate.passes()).count();
    if failed > 0 {
        bail!("{failed} of {} gates are not passed", report.gates.len());
    }
    Ok(())
}

fn compare(options: &Options, tools: &[Located], pairs: usize, folder: &Path) -> Result<Report> {
    let bare_call = prepare(program::find("getppid").map_err(anyhow::Error::msg)?, folder)?;
    let machine = Machine::read(run_alone(&bare_call, folder)?.ns_per_op())?;
    let seed = options.seed.unwrap_or_else(Order::new_seed);
    let mut order = Order::from_seed(seed);
    machine.print();
    println!("{pairs} rounds in random order, seed {seed}");

    let (mut programs, mut gates) = (Vec::new(), Vec::new());
    for program in options.programs() {
        let prepared = prepare(program, folder)?;
        let runs = run_rounds(&prepared, tools, pairs, &mut order, folder);
        let summaries: Vec<Summary> =
            tools.iter().map(|located| summarise(located.tool.name, &runs)).collect();
        table::print_program(&prepared, &summaries);
        gates.extend(summaries.iter().filter_map(|summary| Gate::judge(program, summary)));
        programs.push(OfProgram { name: program.name, ops: prepared.ops, summaries, runs });
    }
    Ok(Report { schema: "concprobe-overhead/1", machine, seed, pairs, programs, gates })
}

/// Compiles it, and finds the ops that suit this machine in a run that also warms it up.
fn prepare(program: &'static Program, folder: &Path) -> Result<Prepared> {
    let mut prepared = Prepared { program, path: c_program::compile(program.name)?, ops: program.ops };
    prepared.ops = program::suitable_ops(&run_alone(&prepared, folder)?);
    Ok(prepared)
}

impl Options {
    /// In the table's order, each once.
    fn programs(&self) -> impl Iterator<Item = &'static Program> {
        let is_wanted = |program: &Program| self.program.iter().any(|wanted| wanted.name == program.name);
        PROGRAMS.iter().filter(move |program| self.program.is_empty() || is_wanted(program))
    }

    /// In the table's order, each once, the untraced run always.
    fn wanted_tools(&self) -> Vec<&'static Tool> {
        let named = |tool: &Tool| self.tools.iter().any(|wanted| wanted.name == tool.name);
        let by_default = |tool: &Tool| self.tools.is_empty() && (self.peers == Peers::On || !tool.is_peer());
        TOOLS.iter().filter(|tool| tool.name == UNTRACED || named(tool) || by_default(tool)).collect()
    }

    /// The tools that are there, and why the others are not; one that was named must be there.
    fn located_tools(&self) -> Result<(Vec<Located>, Vec<Missing>)> {
        let wanted = self.wanted_tools();
        let concprobe = match &self.concprobe {
            // Tools are started in a folder of their own.
            Some(path) => {
                path.canonicalize().with_context(|| format!("no concprobe at {}", path.display()))?
            }
            None if wanted.iter().any(|tool| tool.is_concprobe()) => Concprobe::build()?.0,
            None => PathBuf::new(),
        };
        let (mut located, mut missing) = (Vec::new(), Vec::new());
        for tool in wanted {
            match tool.locate(&concprobe) {
                Ok(path) => located.push(Located { tool, path }),
                Err(reason) if self.tools.is_empty() => missing.push((tool, reason)),
                Err(reason) => bail!("{}: {reason}", tool.name),
            }
        }
        Ok((located, missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        options: Options,
    }

    fn tools(arguments: &[&str]) -> Vec<&'static str> {
        let typed = Typed::try_parse_from([&["overhead"], arguments].concat()).unwrap();
        typed.options.wanted_tools().iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn untraced_is_always_first_and_names_keep_the_tables_order() {
        assert_eq!(tools(&["--tools", "strace,switches,strace"]), [UNTRACED, "switches", "strace"]);
        assert_eq!(tools(&["--tools", "untraced"]), [UNTRACED]);
    }

    #[test]
    fn without_peers_concprobe_is_left() {
        assert_eq!(tools(&["--peers", "off"]), [UNTRACED, "again", "switches", "calls", "stacks"]);
        assert_eq!(tools(&[]).len(), TOOLS.len());
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        let error = Typed::try_parse_from(["overhead", "--program", "sem"]).err().unwrap().to_string();
        assert!(error.contains("pp_one, storm, nosleep, getppid, spawn"), "{error}");
    }
}
