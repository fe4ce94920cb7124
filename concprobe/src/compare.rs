//! Compares two sides: rounds of trials in a fresh process each, interleaved, until the answer is clear or a
//! limit is reached. Prints nothing but progress.

mod analysis;
mod order;
mod saved;
mod signals;
mod trial;
mod variables;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Result, ensure};
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    clock, diagnose,
    environment::Environment,
    observation::compare::{Arm, By, Comparison, Kind, Look, Method, Order, SCHEMA, Side, Trial},
    plan, statistics,
};
use analysis::Samples;
pub use saved::{read, saved};
use signals::Signals;
pub use trial::Commands;
use trial::{Ended, Measured};

/// A comparison, ready to be carried out.
#[derive(Debug)]
pub struct Plan {
    /// What is compared.
    pub subject: Subject,
    /// As it was typed.
    pub labels: [String; 2],
    /// How it is measured.
    pub settings: Settings,
}

impl Plan {
    /// Whether its trials cannot do without the kernel programs.
    pub fn needs_kernel_programs(&self) -> bool {
        match &self.subject {
            Subject::Workloads(plans) => plans.iter().any(|plan| plan.depth.is_some()),
            Subject::Commands(commands) => commands.traced,
        }
    }
}

/// What is compared.
#[derive(Debug)]
pub enum Subject {
    /// Workloads, or one with two settings.
    Workloads(Box<[plan::Plan; 2]>),
    /// Commands.
    Commands(Commands),
}

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pairs at most.
    pub runs: u32,
    /// Time at most.
    pub max_time: Duration,
    /// Where the random order starts.
    pub seed: u64,
    /// Order within a round.
    pub order: Order,
    /// Measure the first side against itself, too.
    pub same_arm: bool,
    /// A difference below this part is not called one.
    pub smallest: f64,
    /// Uncounted runs of each command before the first round.
    pub warmup_runs: u32,
    /// Which figure is compared; by itself, batches of crews of one, else wall time.
    pub by: Option<By>,
}

impl Settings {
    fn method(&self, by: By) -> Method {
        let runs = self.runs as usize;
        Method {
            by,
            order: self.order,
            seed: self.seed,
            runs: runs as u64,
            max_time_ns: u64::try_from(self.max_time.as_nanos()).unwrap_or(u64::MAX),
            same_arm: self.same_arm,
            smallest: self.smallest,
            level: statistics::LEVEL,
            looks: statistics::looks(runs).into_iter().map(|pairs| pairs as u64).collect(),
            warmup_runs: u64::from(self.warmup_runs),
        }
    }
}

/// What the rounds yielded.
#[derive(Debug, Default)]
struct Harvest {
    trials: Vec<Trial>,
    looks: Vec<Look>,
    parameters: [BTreeMap<String, String>; 2],
    lost: u64,
    warnings: BTreeSet<String>,
    interrupted_by: Option<i32>,
}

/// Carries the plan out.
///
/// # Errors
/// When not one pair could be measured.
pub async fn compare(plan: &Plan) -> Result<Comparison> {
    let environment = Environment::read();
    let started_at = clock::wall_s(clock::now_ns());
    let mut method = plan.settings.method(plan.settings.by.unwrap_or_default());
    let mut harvest = Harvest::default();
    if let Err(error) = rounds(plan, &mut method, &mut harvest).await {
        if harvest.samples(method.by).a.is_empty() {
            return Err(error);
        }
        harvest.lost += 1;
        harvest.warnings.insert(format!("ended early, as a trial failed: {error:#}"));
    }
    if let Some(signal) = harvest.interrupted_by
        && harvest.samples(method.by).a.is_empty()
    {
        anyhow::bail!("interrupted by signal {signal} before one pair was measured");
    }
    let kind = match &plan.subject {
        Subject::Workloads(_) => Kind::Workloads,
        Subject::Commands(Commands { traced: false, .. }) => Kind::Commands,
        Subject::Commands(_) => Kind::TracedCommands,
    };
    Ok(put_together(plan, kind, environment, started_at, method, harvest))
}

async fn rounds(plan: &Plan, method: &mut Method, harvest: &mut Harvest) -> Result<()> {
    let mut signals = Signals::listen()?;
    let mut random = Rng::with_seed(method.seed);
    let progress = Progress::new(&plan.subject, method.runs);
    let started_ns = clock::now_ns();
    for _ in 0..if matches!(plan.subject, Subject::Commands(_)) { method.warmup_runs } else { 0 } {
        for arm in [Arm::A, Arm::B] {
            if let Ended::Interrupted(signal) = perform(plan, arm, &mut signals).await? {
                harvest.interrupted_by = Some(signal);
                return Ok(());
            }
        }
    }
    for round in 0..method.runs {
        progress.show(round);
        for arm in order::arms(method.order, round, method.same_arm, &mut random) {
            let began_ns = clock::elapsed_ns(started_ns);
            let ended = perform(plan, arm, &mut signals).await?;
            let signal = match ended {
                Ended::Done(measured) => {
                    harvest.keep(*measured, round, arm, began_ns);
                    signals.pending().await
                }
                Ended::Interrupted(signal) => Some(signal),
            };
            if signal.is_some() {
                harvest.interrupted_by = signal;
                harvest.look(method);
                return Ok(());
            }
        }
        if round == 0 {
            // Only now is it known which figures there are.
            method.by = plan.settings.by.unwrap_or_else(|| harvest.finest(&plan.subject));
            ensure!(
                harvest.trials.iter().all(|trial| trial.figure(method.by).is_some()),
                "there is no figure for --by {} here: batches are for workloads with cheap ops, CPU time needs \
                 the kernel programs",
                method.by.name()
            );
        }
        let pairs = round + 1;
        let elapsed_ns = clock::elapsed_ns(started_ns);
        // Not begun what would end too late.
        let out_of_time = elapsed_ns + elapsed_ns / pairs > method.max_time_ns;
        if method.looks.contains(&pairs) || out_of_time {
            let look = harvest.look(method);
            Progress::tell(&look);
            if look.decided || out_of_time {
                break;
            }
        }
    }
    Ok(())
}

async fn perform(plan: &Plan, arm: Arm, signals: &mut Signals) -> Result<Ended> {
    match &plan.subject {
        Subject::Workloads(plans) => trial::workload(&plans[usize::from(arm == Arm::B)]).await,
        Subject::Commands(commands) => commands.run(arm == Arm::B, signals).await,
    }
}

impl Harvest {
    /// Batches where every trial has them and nobody else takes part: what the members of a crew do to each
    /// other shows in the time of all, and in a batch of one of them only while the others run as well.
    fn finest(&self, subject: &Subject) -> By {
        let alone = match subject {
            Subject::Workloads(plans) => plans.iter().all(|plan| plan.settings.threads == 1),
            Subject::Commands(_) => false,
        };
        if alone && self.trials.iter().all(|trial| trial.batch_ps.is_some()) { By::Batch } else { By::Wall }
    }

    fn samples(&self, by: By) -> Samples {
        Samples::pairs(&self.trials, |trial| trial.figure(by))
    }

    fn keep(&mut self, measured: Measured, round: u64, arm: Arm, began_ns: u64) {
        let Measured { wall_ps, batch_ps, p99_ps, parts, parameters, doubt } = measured;
        self.parameters[usize::from(arm == Arm::B)] = parameters;
        if let Some(doubt) = doubt {
            self.lost += 1;
            self.warnings.insert(format!("a trial is doubtful: {doubt}"));
        }
        self.trials.push(Trial { round, arm, began_ns, wall_ps, batch_ps, p99_ps, parts });
    }

    fn look(&mut self, method: &Method) -> Look {
        let samples = self.samples(method.by);
        let level = level(method);
        let look = Look {
            pairs: samples.a.len() as u64,
            p_value: analysis::p_value(&samples),
            level,
            decided: analysis::outcome(&samples, level, method).is_ok(),
        };
        self.looks.push(look);
        look
    }
}

/// The level of one look.
fn level(method: &Method) -> f64 {
    method.level / method.looks.len().max(1) as f64
}

fn put_together(
    plan: &Plan,
    kind: Kind,
    environment: Environment,
    started_at: u64,
    method: Method,
    harvest: Harvest,
) -> Comparison {
    let Harvest { trials, looks, parameters, lost, warnings, interrupted_by } = harvest;
    let differ = match &plan.subject {
        Subject::Workloads(plans) => {
            let mut differ = variables::of_parameters(&parameters[0], &parameters[1]);
            if plans[0].entry.name != plans[1].entry.name {
                differ.insert(0, format!("workload ({} / {})", plans[0].entry.name, plans[1].entry.name));
            }
            differ
        }
        Subject::Commands(Commands { commands: [first, second], .. }) => {
            variables::of_commands(first, second)
        }
    };
    let [first, second] = parameters;
    let side =
        |label: &String, parameters| Side { label: label.clone(), parameters, summary: None, tail: None };
    let mut comparison = Comparison {
        schema: SCHEMA.to_owned(),
        concprobe: env!("CARGO_PKG_VERSION").to_owned(),
        started_at,
        warnings: environment.warnings(),
        environment,
        kind,
        figure: figure(kind, method.by).to_owned(),
        sides: [side(&plan.labels[0], first), side(&plan.labels[1], second)],
        differ,
        answer: analysis::answer(&Samples::default(), level(&method), &method),
        method,
        trials,
        looks,
        tail: None,
        order_effect: None,
        drift: None,
        parts: None,
        interrupted_by,
        lost,
        verdict: Vec::new(),
        unavailable: BTreeMap::new(),
    };
    comparison.warnings.extend(warnings);
    analyse(&mut comparison);
    comparison
}

fn figure(kind: Kind, by: By) -> &'static str {
    match (by, kind) {
        (By::Batch, _) => "time of an op, in the middle undisturbed batch of a trial",
        (By::Cpu, Kind::Workloads | Kind::SavedRepetitions) => "CPU time of an op, all threads together",
        (By::Cpu, _) => "CPU time of a run, all threads together",
        (By::Wall, Kind::Workloads | Kind::SavedRepetitions) => "wall time of the crew for one op",
        (By::Wall, Kind::SavedRuns) => "wall time of the crew for one op, or of the command",
        (By::Wall, Kind::Commands) => "wall time of the command, with the start of its shell",
        (By::Wall, Kind::TracedCommands) => "wall time of the command's first thread",
    }
}

/// Fills in everything that follows from the trials.
fn analyse(comparison: &mut Comparison) {
    let paired = comparison.kind.is_paired();
    let level = if paired { level(&comparison.method) } else { comparison.method.level };
    let trials = &comparison.trials;
    let by = comparison.method.by;
    let of = |figure: &dyn Fn(&Trial) -> Option<u64>| {
        if paired { Samples::pairs(trials, figure) } else { Samples::apart(trials, figure) }
    };
    let samples = of(&|trial| trial.figure(by));
    let tails = of(&|trial| trial.p99_ps);
    comparison.answer = analysis::answer(&samples, level, &comparison.method);
    if !tails.a.is_empty() && !tails.b.is_empty() {
        comparison.tail = Some(analysis::question(&tails, level, &comparison.method));
    }
    for (side, (figures, tails)) in
        comparison.sides.iter_mut().zip([(&samples.a, &tails.a), (&samples.b, &tails.b)])
    {
        side.summary = analysis::summary(figures);
        side.tail = analysis::summary(tails);
    }
    if paired {
        comparison.order_effect = analysis::order_effect(trials, by);
        comparison.drift = analysis::drift(trials, by);
    }
    comparison.parts = analysis::parts(trials);
    if comparison.kind == Kind::SavedRepetitions {
        saved::doubt(comparison);
    }
    comparison.unavailable = diagnose::compare::unavailable(comparison);
    comparison.warnings.extend(diagnose::compare::warnings(comparison));
    comparison.verdict = diagnose::compare::verdict(comparison);
}

/// A line on stderr, where that is a terminal; nothing otherwise.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new(subject: &Subject, runs: u64) -> Self {
        let target = match subject {
            // A run of a workload has a bar of its own, in the same place.
            Subject::Workloads(_) => ProgressDrawTarget::hidden(),
            Subject::Commands(_) => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(Some(runs), target);
        if let Ok(style) = ProgressStyle::with_template("pair {pos} of {len} at most {wide_bar} {elapsed}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    fn show(&self, round: u64) {
        self.bar.set_position(round + 1);
        self.bar.tick();
    }

    fn tell(look: &Look) {
        let answer = if look.decided { "clear" } else { "not clear yet" };
        let line = format!("after {} pairs: {answer} (p = {:.4})", look.pairs, look.p_value);
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.println(line);
        bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
