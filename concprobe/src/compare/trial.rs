//! One trial in a fresh process: a run of a workload, or of a command, with or without the kernel programs.

use std::{collections::BTreeMap, process::Stdio};

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::signals::Signals;
use crate::{
    clock,
    observation::{
        Depth, Observation, Parts,
        compare::PartsOfOp,
        trace::{Exit, Trace},
    },
    plan, run, statistics,
    target::Identity,
    trace,
};

/// What a trial yielded.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) wall_ps: u64,
    pub(super) batch_ps: Option<u64>,
    pub(super) p99_ps: Option<u64>,
    pub(super) parts: Option<PartsOfOp>,
    /// Everything that was asked for.
    pub(super) parameters: BTreeMap<String, String>,
    /// Something is missing, or a self-check failed: what.
    pub(super) doubt: Option<String>,
}

/// How a trial ended.
#[derive(Debug)]
pub(super) enum Ended {
    Done(Box<Measured>),
    /// A signal asked to end; the trial does not count.
    Interrupted(i32),
}

/// Commands as they are run.
#[derive(Clone, Debug)]
pub struct Commands {
    /// For `sh -c`.
    pub commands: [String; 2],
    /// Who they run as.
    pub identity: Identity,
    /// The kernel programs look at them.
    pub traced: bool,
    /// A run that fails counts as well.
    pub ignore_failure: bool,
    /// Their output goes to stderr, in place of nowhere.
    pub show_output: bool,
}

/// Runs a workload.
///
/// # Errors
/// When it cannot be run.
pub(super) async fn workload(plan: &plan::Plan) -> Result<Ended> {
    let observation = run::run(plan, clock::now_ns()).await?;
    if let Some(signal) = observation.interrupted_by {
        return Ok(Ended::Interrupted(signal));
    }
    Ok(Ended::Done(Box::new(of_observation(&observation))))
}

/// What a run says of its workload. Its wall time is the crew's for one op in the middle repetition: one that
/// was disturbed does not move it.
pub(super) fn of_observation(observation: &Observation) -> Measured {
    let figures: Vec<f64> = observation
        .repetitions
        .iter()
        .filter(|repetition| repetition.ops > 0)
        .map(|repetition| repetition.per_op_ps as f64)
        .collect();
    #[expect(clippy::cast_sign_loss, reason = "times are not negative")]
    let wall_ps = statistics::median(&figures).unwrap_or(0.0).round() as u64;
    let doubt = match observation.lost {
        _ if !observation.self_check.passed => Some(observation.self_check.detail.clone()),
        Some(lost) if lost > 0 => Some(format!("{lost} events were lost")),
        _ => None,
    };
    Measured {
        wall_ps,
        batch_ps: observation.batches.as_ref().and_then(|batches| batches.p50_ps),
        p99_ps: p99_ps(observation),
        parts: observation.depth.is_some().then(|| parts(&observation.parts, observation.ops)),
        parameters: observation.parameters.clone(),
        doubt,
    }
}

/// The 99th percentile of an op, or of ops in batches that of a batch.
pub(super) fn p99_ps(observation: &Observation) -> Option<u64> {
    match &observation.batches {
        Some(batches) => batches.p99_ps,
        None => Some(observation.latency.as_ref()?.p99_ns?.saturating_mul(1_000)),
    }
}

pub(super) fn parts(parts: &Parts, ops: u64) -> PartsOfOp {
    let by_op = |ns: u64| u64::try_from(u128::from(ns) * 1_000 / u128::from(ops.max(1))).unwrap_or(u64::MAX);
    PartsOfOp {
        on_cpu_ps: parts.on_cpu_ns.map(by_op),
        user_ps: parts.user_ns.map(by_op),
        kernel_ps: parts.kernel_ns.map(by_op),
        blocked_ps: parts.blocked_ns.map(by_op),
        run_queue_ps: parts.run_queue_ns.map(by_op),
        creation_ps: parts.creation_ns.map(by_op),
    }
}

impl Commands {
    /// Runs one of the commands.
    ///
    /// # Errors
    /// When it cannot be run, or fails.
    pub(super) async fn run(&self, second: bool, signals: &mut Signals) -> Result<Ended> {
        let command = &self.commands[usize::from(second)];
        if self.traced { self.look_at(command).await } else { self.time(command, signals).await }
    }

    async fn time(&self, command: &str, signals: &mut Signals) -> Result<Ended> {
        let output = || -> Result<Stdio> {
            Ok(if self.show_output { Stdio::from(std::io::stderr()) } else { Stdio::null() })
        };
        let before = children_cpu_ns();
        let began_ns = clock::now_ns();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", command]);
        self.identity.apply_to(&mut shell);
        let mut child = Command::from(shell)
            .stdin(Stdio::null())
            .stdout(output()?)
            .stderr(output()?)
            // So that all of it can be ended.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start sh")?;
        let group = child.id().and_then(|pid| i32::try_from(pid).ok());
        let status = tokio::select! {
            status = child.wait() => status.context("cannot wait for the command")?,
            signal = signals.next() => {
                if let Some(group) = group {
                    // SAFETY: a plain system call; the leader was not waited for, so the number is still its.
                    unsafe { libc::kill(-group, libc::SIGKILL) };
                }
                let _ = child.wait().await;
                return Ok(Ended::Interrupted(signal));
            }
        };
        let wall_ns = clock::now_ns().saturating_sub(began_ns);
        let (user_ns, kernel_ns) = children_cpu_ns();
        let (user_ns, kernel_ns) = (user_ns.saturating_sub(before.0), kernel_ns.saturating_sub(before.1));
        self.check(command, status.success(), &status.to_string())?;
        let picoseconds = |ns: u64| ns.saturating_mul(1_000);
        Ok(Ended::Done(Box::new(Measured {
            wall_ps: picoseconds(wall_ns),
            parts: Some(PartsOfOp {
                on_cpu_ps: Some(picoseconds(user_ns + kernel_ns)),
                user_ps: Some(picoseconds(user_ns)),
                kernel_ps: Some(picoseconds(kernel_ns)),
                ..PartsOfOp::default()
            }),
            ..Measured::default()
        })))
    }

    async fn look_at(&self, command: &str) -> Result<Ended> {
        let streams = if self.show_output { "exec >&2" } else { "exec >/dev/null 2>&1" };
        let script = format!("{streams} </dev/null\n{command}");
        let plan = trace::Plan {
            of: trace::Of::Command {
                command: vec!["sh".into(), "-c".into(), script.into()],
                identity: self.identity.clone(),
            },
            depth: Depth::Switches,
            stacks: false,
            count_by_number: false,
            follow: true,
            count_calls: None,
            duration: None,
            max_threads: 16_384,
            max_locks: concprobe_common::site::DEFAULT_SITES,
            way: None,
            output: None,
            json: false,
            verbose: 0,
        };
        let seen = trace::trace(plan).await?;
        if let Some(signal) = seen.interrupted_by {
            return Ok(Ended::Interrupted(signal));
        }
        let exit = seen.exit.unwrap_or(Exit { status: None, signal: None });
        let description = match exit {
            Exit { status: Some(status), .. } => format!("exit status: {status}"),
            Exit { signal: Some(signal), .. } => format!("signal: {signal}"),
            Exit { .. } => "nobody knows how".to_owned(),
        };
        self.check(command, exit.status == Some(0), &description)?;
        Ok(Ended::Done(Box::new(of_trace(&seen))))
    }

    fn check(&self, command: &str, succeeded: bool, status: &str) -> Result<()> {
        if !succeeded && !self.ignore_failure {
            bail!(
                "'{command}' failed ({status}): how long a failure takes says little; --show-output shows \
                 what it writes, --ignore-failure counts it"
            );
        }
        Ok(())
    }
}

/// What a look says of its command. Its wall time is that of the first process's first thread, which does
/// not contain the start and end of the look.
pub(super) fn of_trace(seen: &Trace) -> Measured {
    let first = seen.threads.iter().find(|thread| thread.tid == Some(seen.pid));
    let wall_ns = first.map_or(seen.wall_ns, |thread| thread.parts.wall_ns);
    let doubt = if !seen.self_check.passed {
        Some(seen.self_check.detail.clone())
    } else {
        (seen.lost > 0).then(|| format!("{} events were lost", seen.lost))
    };
    Measured {
        wall_ps: wall_ns.saturating_mul(1_000),
        batch_ps: None,
        p99_ps: None,
        parts: Some(parts(&seen.parts, 1)),
        parameters: seen.parameters.clone(),
        doubt,
    }
}

/// User and kernel time of all processes that were waited for, nanoseconds.
fn children_cpu_ns() -> (u64, u64) {
    // SAFETY: the structure is plain numbers, which the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let nanoseconds = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_usec).unwrap_or(0) * 1_000
    };
    (nanoseconds(usage.ru_utime), nanoseconds(usage.ru_stime))
}
