//! Carries a plan out: probe → workload's process → phases → observation. Measures nothing itself and
//! prints nothing but progress.

mod conversation;
mod gather;
pub mod process;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use concprobe_common::block::Counter;

use crate::{
    clock,
    environment::{self, Environment, tracefs},
    harness::{
        SelfCheck,
        protocol::{Answer, MemberResult, Order, Phase},
    },
    observation::{Depth, Observation},
    plan::Plan,
    probe::{Cost, Options, Session, Set},
};
pub use conversation::peak_bytes;
use conversation::{Conversation, Trouble};

/// How long to wait for ended threads' last switch, which comes after their join.
const LAST_SWITCH_DEADLINE: Duration = Duration::from_millis(500);

/// What the phases yielded, before it is put together.
#[derive(Debug, Default)]
struct Harvest {
    /// Members of each measured repetition.
    repetitions: Vec<Vec<MemberResult>>,
    /// Members of the repetition at depth *switches*.
    depth_check: Option<Vec<MemberResult>>,
    /// Cost of the kernel programs while the kernel timed them.
    timed: Option<Cost>,
    self_check: Option<SelfCheck>,
    /// Why the run ended early.
    trouble: Option<Trouble>,
}

impl Harvest {
    fn ops(&self) -> u64 {
        self.repetitions.iter().flatten().map(|member| member.ops).sum()
    }
}

/// Carries the plan out. `started_ns` is when the program began (`CLOCK_MONOTONIC`).
///
/// # Errors
/// When nothing could be measured.
pub async fn run(plan: &Plan, started_ns: u64) -> Result<Observation> {
    let environment = Environment::read();
    check_threads(plan, &environment)?;
    let mut session = plan.depth.map(|_| load(plan)).transpose()?;
    if let (Some(session), Some(depth)) = (&mut session, plan.depth) {
        session.attach(Set::Switches)?;
        if depth == Depth::Calls {
            session.attach(Set::Calls)?;
        }
        session.attach(Set::Announce)?;
    }
    let mut conversation = Conversation::start(plan, session.as_ref())?;
    if plan.verbose >= 2
        && let Some(session) = &mut session
    {
        conversation.show_messages(session.debug_messages()?);
    }
    let mut harvest = Harvest::default();
    match phases(plan, session.as_mut(), &mut conversation, &mut harvest).await {
        Ok(()) => {}
        Err(trouble) if harvest.ops() == 0 => {
            conversation.end(false).await;
            bail!(trouble);
        }
        Err(trouble) => harvest.trouble = Some(trouble),
    }
    if let Some(session) = &session {
        await_last_switches(session, &harvest).await;
    }
    let ending = conversation.end(harvest.trouble.is_none()).await;
    gather::observation(plan, environment, session.as_ref(), harvest, &ending, started_ns)
}

fn load(plan: &Plan) -> Result<Session> {
    let threads = u32::try_from(plan.settings.threads).unwrap_or(u32::MAX);
    Session::load(&Options {
        way: plan.way,
        // Each member, one child of each, and children whose last switch is still to come.
        slots: threads.saturating_mul(8).clamp(256, 1 << 20),
        count_by_number: plan.count_by_number,
        debug_messages: plan.verbose >= 2,
        tracefs: tracefs::find(),
        tracing: None,
    })
}

fn check_threads(plan: &Plan, environment: &Environment) -> Result<()> {
    let threads = plan.settings.threads as u64;
    match environment::thread_limits(environment).first() {
        // Each member may have a child, and concprobe itself needs a few.
        Some(limit) if threads.saturating_mul(2).saturating_add(8) > limit.available => {
            bail!(
                "cannot run {threads} threads here: {} leaves room for {} more",
                limit.source,
                limit.available
            )
        }
        _ => Ok(()),
    }
}

async fn phases(
    plan: &Plan,
    mut session: Option<&mut Session>,
    conversation: &mut Conversation,
    harvest: &mut Harvest,
) -> Result<(), Trouble> {
    conversation.ready().await?;
    if let Some(session) = &mut session {
        session.detach(Set::Announce);
    }
    if let Some(warmup) = plan.warmup() {
        harvest.timed = warm_up(session.as_deref(), conversation, warmup).await?;
    }
    let repetitions = plan.repetitions();
    for (index, phase) in repetitions.iter().enumerate() {
        let label = format!("{} {}/{}", plan.entry.name, index + 1, repetitions.len());
        harvest.repetitions.push(perform(conversation, phase, &label).await?);
        if conversation.interrupted().is_some() {
            break;
        }
    }
    if conversation.interrupted().is_none()
        && let (Some(session), Some(Depth::Calls), Some(phase)) = (session, plan.depth, repetitions.first())
    {
        session.detach(Set::Calls);
        let phase = Phase { record: false, ..*phase };
        harvest.depth_check = Some(perform(conversation, &phase, "again at depth switches").await?);
    }
    if let Answer::Checked(check) = conversation.ask(&Order::Finish, None).await? {
        harvest.self_check = Some(check);
    }
    match conversation.interrupted() {
        Some(signal) => Err(Trouble::Interrupted(signal)),
        None => Ok(()),
    }
}

/// Warms up while the kernel times its programs, which it does not do for free.
async fn warm_up(
    session: Option<&Session>,
    conversation: &mut Conversation,
    phase: Phase,
) -> Result<Option<Cost>, Trouble> {
    let Some(session) = session else {
        perform(conversation, &phase, "warm-up").await?;
        return Ok(None);
    };
    let statistics = Session::time_programs().ok();
    let before = session.cost();
    perform(conversation, &phase, "warm-up").await?;
    let cost = session.cost().since(before);
    Ok(statistics.map(|_| cost))
}

async fn perform(
    conversation: &mut Conversation,
    phase: &Phase,
    label: &str,
) -> Result<Vec<MemberResult>, Trouble> {
    match conversation.ask(&Order::Phase(*phase), Some((phase, label))).await? {
        Answer::Phase(results) => Ok(results),
        other => Err(Trouble::Failed(format!("unexpected answer {other:?}"))),
    }
}

/// A joined thread is switched out for the last time after its join: wait until the kernel's sums have all.
async fn await_last_switches(session: &Session, harvest: &Harvest) {
    let created: u64 = harvest.repetitions.iter().flatten().map(created).sum();
    let deadline = clock::now_ns() + u64::try_from(LAST_SWITCH_DEADLINE.as_nanos()).unwrap_or(0);
    while session.records().ended().threads < created && clock::now_ns() < deadline {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn created(member: &MemberResult) -> u64 {
    let Some(counters) = &member.counters else { return 0 };
    counters[Counter::ThreadsCreated as usize] + counters[Counter::ProcessesCreated as usize]
}

/// The error with what doctor has to say of it: the missing privilege, or whatever else stops a load.
pub fn explain(error: anyhow::Error, arguments: &[String]) -> anyhow::Error {
    match crate::doctor::examine().obstacle(arguments) {
        Some(obstacle) => error.context(obstacle),
        None => error,
    }
}

/// A single-threaded runtime, as everything here waits.
///
/// # Errors
/// When the kernel refuses what tokio needs.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")
}
