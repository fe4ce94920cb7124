//! `trace` and `attach` as typed, and how they resolve into a look.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anyhow::Result;
use clap::{Args, Command, value_parser};

use super::arguments::duration;
use crate::{
    observation::Depth,
    probe::Way,
    target::Identity,
    trace::{Of, Plan},
};

const TRACE_EXAMPLES: &str = "\
Examples:
  sudo concprobe trace -- make -j4                  which locks and waits cost the build time
  sudo concprobe trace --syscalls -- ./server       every call too: polling, calls that did not sleep
  sudo concprobe trace -o result.json -- ./server   the whole result, to keep

Started through sudo, the command runs as the caller; --user root asks for root.

Exit status: that of the command (128 + N if signal N ended it); 127 if there is no such command, 126 if it \
cannot be executed; 1 if it succeeded and something was lost; 2 could not look, or not print the result.";

const ATTACH_EXAMPLES: &str = "\
Examples:
  sudo concprobe attach --pid $(pgrep -o postgres) --duration 10s
  sudo concprobe attach --pid 1234                  until Ctrl-C, or until the process ends

Exit status: 0 done; 1 done, but something was lost; 2 could not look; 128 + N ended early by signal N other \
than SIGINT.";

/// `trace`.
pub fn trace_command() -> Command {
    TraceOptions::augment_args(Command::new("trace"))
        .about("Looks at a command from its first instruction: which locks, sleeps and threads cost it time")
        .after_help(TRACE_EXAMPLES)
}

/// `attach`.
pub fn attach_command() -> Command {
    AttachOptions::augment_args(Command::new("attach"))
        .about("Looks at a process that runs already")
        .after_help(ATTACH_EXAMPLES)
}

/// What both have.
#[derive(Debug, Args)]
pub struct LookOptions {
    /// How deep the kernel programs look
    #[arg(long, value_enum, default_value_t = Depth::Switches)]
    depth: Depth,
    /// Count every futex call, with its outcome (as --depth calls)
    #[arg(long)]
    futex_calls: bool,
    /// Count every system call by number (implies --depth calls)
    #[arg(long)]
    syscalls: bool,
    /// Copy the stacks of a few sleeps: who waits, who wakes [default]
    #[arg(long, overrides_with = "no_stacks")]
    stacks: bool,
    /// Copy no stacks
    #[arg(long)]
    no_stacks: bool,
    /// Leave out the processes that it creates
    #[arg(long)]
    no_follow: bool,
    /// Count the calls of the C library's lock functions for this long: each costs microseconds [default: 1s]
    #[arg(long, value_name = "T", value_parser = duration, num_args = 0..=1, default_missing_value = "1s", require_equals = true)]
    count_calls: Option<Duration>,
    /// How long to look at most (500ms, 10s, 1m)
    #[arg(long, value_name = "T", value_parser = duration, allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// How many threads can be looked at at the same time
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = value_parser!(u32).range(16..=1_048_576))]
    max_threads: u32,
    /// How many locks are told apart; what does not fit is summed in one row
    #[arg(long, value_name = "N", default_value_t = concprobe_common::site::DEFAULT_SITES, value_parser = value_parser!(u32).range(2..=65_536))]
    max_locks: u32,
    /// Where to write the whole result, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The whole result as JSON on stdout, and nothing else there: a command's own output goes to stderr
    #[arg(long)]
    json: bool,
    /// All rows, and more about concprobe itself
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// How to attach the kernel programs
    #[arg(long, value_enum, hide = true)]
    attach: Option<Way>,
}

impl LookOptions {
    fn plan(&self, of: Of) -> Plan {
        let calls = self.futex_calls || self.syscalls;
        Plan {
            of,
            depth: if calls { Depth::Calls } else { self.depth },
            stacks: !self.no_stacks,
            count_by_number: self.syscalls,
            follow: !self.no_follow,
            count_calls: self.count_calls,
            duration: self.duration,
            max_threads: self.max_threads,
            max_locks: self.max_locks,
            way: self.attach,
            output: self.output.clone(),
            json: self.json,
            verbose: self.verbose,
        }
    }
}

/// Options of `trace`.
#[derive(Debug, Args)]
pub struct TraceOptions {
    #[command(flatten)]
    look: LookOptions,
    /// Who the command runs as, a name or a number [default: the caller, also under sudo]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", num_args = 1..)]
    command: Vec<OsString>,
}

impl TraceOptions {
    /// The look.
    ///
    /// # Errors
    /// When there is no such user.
    pub fn resolve(&self) -> Result<Plan> {
        let identity = Identity::find(self.user.as_deref())?;
        Ok(self.look.plan(Of::Command { command: self.command.clone(), identity }))
    }
}

/// Options of `attach`.
#[derive(Debug, Args)]
pub struct AttachOptions {
    /// The process
    #[arg(short, long, value_name = "PID", allow_hyphen_values = true)]
    pid: i32,
    #[command(flatten)]
    look: LookOptions,
}

impl AttachOptions {
    /// The look.
    pub fn resolve(&self) -> Plan {
        self.look.plan(Of::Process(self.pid))
    }
}
