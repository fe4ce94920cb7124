//! The repository's tasks, as `cargo xtask TASK`: what each does is told by its own module.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "talking to a person is a task's purpose")]

mod bench;
mod command;
mod ebpf;
mod image;
mod kernels;
mod lint;
mod privileges;
mod run;
mod test;
mod workspace;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The tasks of the concprobe repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the eBPF object that concprobe embeds, or check that it is up to date
    BuildEbpf(ebpf::Options),
    /// Build concprobe and run one of its workloads, with the rights it needs
    #[command(disable_help_flag = true)]
    Run {
        /// Everything that `concprobe run` takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run all tests
    #[command(disable_help_flag = true)]
    Test {
        /// Further arguments of `cargo test`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Check formatting, lints, documentation and shell scripts
    Lint,
    /// Run the core of the root tests under other kernels, in emulated machines
    Kernels {
        /// Version prefixes like 6.1 or 5.10 [default: 6.1, 6.12, and if they can be had 5.10 and 7]
        series: Vec<String>,
    },
    /// Measure concprobe itself, as ratios within one run
    Bench {
        /// What to measure
        #[command(subcommand)]
        subject: bench::Subject,
        /// How many alternating runs
        #[arg(long, global = true, default_value_t = 11, value_parser = clap::value_parser!(u64).range(1..))]
        pairs: u64,
    },
    /// Build the container image and try it, without a container engine
    Image,
}

/// The arguments after the task's name, with the leading `--` that clap takes for its own.
fn as_given(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if env::args_os().nth(2).is_some_and(|first| first == "--") {
        arguments.insert(0, "--".into());
    }
    arguments
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::BuildEbpf(options) => ebpf::build_ebpf(&options),
        Task::Run { arguments } => run::run_concprobe(&as_given(arguments)),
        Task::Test { arguments } => test::test(&as_given(arguments)),
        Task::Lint => lint::lint(),
        Task::Kernels { series } => kernels::kernels(&series),
        Task::Bench { subject, pairs } => {
            bench::bench(&subject, usize::try_from(pairs).unwrap_or(usize::MAX))
        }
        Task::Image => image::image(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
