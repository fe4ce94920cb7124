//! Looks at any program: attach the kernel programs, start the command or take on a process that runs,
//! wait for its end, and put what was seen together. Prints nothing but progress.

mod asleep;
mod copies;
mod gather;
mod kind;
mod lock_calls;
mod merge;
mod numbering;
mod places;
mod rows;
mod subject;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anyhow::Result;

use crate::{
    environment::{Environment, tracefs},
    observation::{
        Depth,
        trace::{Exit, Trace},
    },
    probe::{Options, Session, Set, Tracing, Way},
    target::Identity,
};
use copies::Copies;
use lock_calls::Slice;
pub use subject::Interrupted;
use subject::{Subject, Turn};

/// How often what the kernel copied is fetched, and progress shown.
const TICK: Duration = Duration::from_millis(50);
/// How long to wait for ended threads' last switch, which comes after their process was waited for.
const LAST_SWITCH_DEADLINE: Duration = Duration::from_millis(500);
/// How long a program in the kernel that was at work when the look ended needs at most to end its work.
const LAST_PROGRAM: Duration = Duration::from_millis(1);
/// How long to wait for a command that was killed and does not end, since it sleeps uninterruptibly.
const KILLED_DEADLINE: Duration = Duration::from_secs(1);

/// A look at a program, ready to be carried out.
#[derive(Debug)]
pub struct Plan {
    /// What to look at.
    pub of: Of,
    /// How deep.
    pub depth: Depth,
    /// Copy stacks.
    pub stacks: bool,
    /// Count calls by number.
    pub count_by_number: bool,
    /// Look at processes that it creates, too.
    pub follow: bool,
    /// Count the calls of lock functions for so long.
    pub count_calls: Option<Duration>,
    /// How long at most.
    pub duration: Option<Duration>,
    /// How many threads can be tracked at the same time.
    pub max_threads: u32,
    /// How many locks and other places of sleep can be told apart.
    pub max_locks: u32,
    /// The way to attach, when forced.
    pub way: Option<Way>,
    /// Where the whole result goes.
    pub output: Option<PathBuf>,
    /// The result as JSON on stdout, in place of the screen for people.
    pub json: bool,
    /// All rows, and more about concprobe itself.
    pub verbose: u8,
}

/// What is looked at.
#[derive(Debug)]
pub enum Of {
    /// A command, from its first instruction.
    Command {
        /// Program and arguments.
        command: Vec<OsString>,
        /// Who it runs as.
        identity: Identity,
    },
    /// A process that runs.
    Process(i32),
}

/// Carries the plan out.
///
/// # Errors
/// When nothing could be seen: the kernel programs, the command, the process.
pub async fn trace(mut plan: Plan) -> Result<Trace> {
    let environment = Environment::read();
    // What is refused for its own sake is refused before anything is loaded.
    let mut subject = Subject::find(&plan.of)?;
    let mut session = load(&plan)?;
    let limits = fit(&mut plan, &session);
    let plan = &plan;
    session.attach(Set::Switches)?;
    session.attach(Set::Names)?;
    let mut copies = plan.stacks.then(|| Copies::watch(&mut session)).transpose()?;
    if plan.stacks {
        session.attach(Set::Stacks)?;
    }
    if plan.depth == Depth::Calls {
        session.attach(Set::Calls)?;
    }
    subject.begin(&mut session, copies.as_mut()).await?;
    let started_ns = subject.began_ns();
    let mut slice = plan.count_calls.map(Slice::new);
    let end = look(plan, &mut subject, &mut session, copies.as_mut(), slice.as_mut()).await?;
    if let Some(slice) = &mut slice {
        slice.end(&mut session);
    }
    await_last_switches(&session, &end, subject.host_pid()).await;
    let stopped_ns = session.stop()?;
    tokio::time::sleep(LAST_PROGRAM).await;
    if let Some(copies) = &mut copies {
        copies.fetch();
    }
    let mut harvest = gather::Harvest {
        plan,
        environment,
        session,
        copies,
        subject,
        end,
        started_ns,
        stopped_ns,
        slice,
        limits,
    };
    let mut seen = gather::observation(&mut harvest)?;
    // The look may be over before the command is, whose exit status is concprobe's.
    let patience = if harvest.end.killed { KILLED_DEADLINE } else { Duration::MAX };
    if seen.exit.is_none() && harvest.subject.is_command() {
        let ended = tokio::time::timeout(patience, exit_of(&mut harvest.subject)).await;
        seen.exit = ended.unwrap_or(Ok(None))?;
        if seen.exit.is_some() {
            seen.unavailable.remove("exit");
        }
    }
    Ok(seen)
}

/// What this kernel cannot is left out, or done in another way; the answer is what to say about it.
fn fit(plan: &mut Plan, session: &Session) -> Vec<String> {
    if session.config().has_task_pt_regs != 0 {
        return Vec::new();
    }
    let mut limits = Vec::new();
    if plan.depth == Depth::Switches {
        plan.depth = Depth::Calls;
        limits.push(
            "a sleeping thread's registers cannot be read here (that takes Linux 5.15 and the kernel's BTF), so the \
             hooks at system calls tell where it sleeps: --depth calls, which costs more"
                .to_owned(),
        );
    }
    if plan.stacks {
        plan.stacks = false;
        limits.push(
            "no stacks are copied, since registers cannot be read here (that takes Linux 5.15 and the kernel's BTF)"
                .to_owned(),
        );
    }
    limits
}

/// How the command ended, once it has.
async fn exit_of(subject: &mut Subject) -> Result<Option<Exit>> {
    loop {
        if let Turn::Ended(exit) = subject.turn().await? {
            return Ok(exit);
        }
    }
}

fn load(plan: &Plan) -> Result<Session> {
    Session::load(&Options {
        way: plan.way,
        slots: plan.max_threads,
        count_by_number: plan.count_by_number,
        debug_messages: false,
        tracefs: tracefs::find(),
        tracing: Some(Tracing { sites: plan.max_locks, stacks: plan.stacks, follow: plan.follow }),
    })
}

/// How a look ended.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// The first signal that asked to end it.
    signal: Option<i32>,
    /// How the command ended.
    exit: Option<Exit>,
    /// The process has ended.
    gone: bool,
    /// The command was killed, since it was asked for a second time.
    killed: bool,
}

/// Waits for the end, and fetches what the kernel copies meanwhile.
async fn look(
    plan: &Plan,
    subject: &mut Subject,
    session: &mut Session,
    mut copies: Option<&mut Copies>,
    mut slice: Option<&mut Slice>,
) -> Result<End> {
    let mut end = End::default();
    let deadline = plan.duration.map(|time| tokio::time::Instant::now() + time);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            turn = subject.turn() => match turn? {
                Turn::Ended(exit) => {
                    end.exit = exit;
                    end.gone = true;
                    break;
                }
                Turn::Asked(signal) if subject.is_command() => {
                    // The command has got it, and ends as it likes.
                    end.signal.get_or_insert(signal);
                }
                Turn::Asked(signal) => {
                    end.signal = Some(signal);
                    break;
                }
                Turn::AskedAgain(signal) => {
                    end.signal.get_or_insert(signal);
                    end.killed = true;
                    subject.kill_descendants(session);
                    break;
                }
            },
            () = at(deadline) => break,
            () = ready(copies.as_deref_mut()) => {}
            _ = ticks.tick() => {}
        }
        if let Some(copies) = copies.as_deref_mut() {
            copies.fetch();
        }
        if let Some(slice) = slice.as_deref_mut() {
            slice.go_on(session, subject.pid());
        }
    }
    Ok(end)
}

async fn at(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn ready(copies: Option<&mut Copies>) {
    match copies {
        Some(copies) => copies.ready().await,
        None => std::future::pending().await,
    }
}

/// A process that was waited for has threads whose last switch is still to come.
async fn await_last_switches(session: &Session, end: &End, pid: u32) {
    if !end.gone {
        return;
    }
    let deadline = tokio::time::Instant::now() + LAST_SWITCH_DEADLINE;
    while session.records().is_tracked_process(pid) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
