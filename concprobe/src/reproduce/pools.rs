//! M2: a thread for each task against a pool of threads.

use anyhow::Result;

use super::{Bench, Claim, Name, Row, Set, Trial, per_op_ps, switches_per_op, times};
use crate::{
    observation::Observation,
    units::{count, per_op_ps as text, share},
};

/// Worker counts of the sweep, with what was published for 20,000 tasks.
const WORKERS: [(u64, &str); 6] = [
    (1, "-"),
    (2, "1,131 k tasks/s"),
    (4, "-"),
    (8, "2,321 k tasks/s"),
    (16, "2,519 k tasks/s (best)"),
    (32, "1,358 k tasks/s"),
];
const TASKS: u64 = 20_000;
/// Steps of arithmetic in a task: about a microsecond.
const WORK: u64 = 500;

pub(super) async fn measure(bench: &mut Bench) -> Result<Set> {
    let create = bench.run(&Trial::new("thread-create", 5_000)).await?;
    let per_task = bench.run(&Trial::new("thread-per-task", 5_000).with("task-work", WORK)).await?;
    let sequential = bench.run(&Trial::new("task-sequential", TASKS).with("task-work", WORK)).await?;
    let mut sweep = Vec::new();
    for (workers, _) in WORKERS {
        let trial = Trial::new("pool", TASKS * 5).with("workers", workers).with("task-work", WORK).spread();
        sweep.push((workers, bench.run(&trial).await?));
    }
    let long = Trial::new("pool", 500).with("task-work", 1_000_000).with("workers", 2).spread();
    let long_pool = bench.run(&long).await?;
    let long_thread = bench.run(&Trial::new("thread-per-task", 500).with("task-work", 1_000_000)).await?;
    let cpus = per_task.environment.cpus_usable.len().max(1) as u64;
    let io_few = bench.run(&Trial::new("pool-io", 200).with("workers", cpus)).await?;
    let io_many = bench.run(&Trial::new("pool-io", 1_600).with("workers", cpus * 8)).await?;

    let thread_ps = per_op_ps(&per_task);
    let rate = |ps: u64| format!("{} tasks/s, {} a task", count(1_000_000_000_000 / ps.max(1)), text(ps));
    let mut rows = vec![
        Row::text("thread per task", "20 k tasks/s", rate(thread_ps)),
        Row::text("sequentially, no thread", "-", rate(per_op_ps(&sequential))),
    ];
    for ((workers, published), (_, pool)) in WORKERS.iter().zip(&sweep) {
        let switches = switches_per_op(pool);
        rows.push(Row::text(
            &format!("pool, {workers} workers"),
            published,
            format!("{}, {switches:.2} switches a task", rate(per_op_ps(pool))),
        ));
    }
    let best = sweep.iter().min_by_key(|(_, pool)| per_op_ps(pool));
    let Some((best_workers, best)) = best else {
        return Ok(std::mem::take(bench).into_set(Name::M2, rows, Vec::new()));
    };
    let create_ps = per_op_ps(&create);
    rows.push(Row::text(
        "making and joining a worker, once",
        "about 47 µs",
        format!("{}, so {} for {best_workers}", text(create_ps), text(create_ps * best_workers)),
    ));
    let claims = vec![
        creation_dominates(&per_task, per_op_ps(&sequential)),
        faster(thread_ps, *best_workers, per_op_ps(best)),
        best_near_cores(&sweep, cpus),
        oversubscribed(best, &sweep),
        single_task(create_ps, thread_ps),
        crossover_count(create_ps * best_workers, thread_ps, per_op_ps(best)),
        crossover_length(thread_ps, best, &long_thread, &long_pool),
        io_wants_more(&io_few, &io_many, cpus),
    ];
    Ok(std::mem::take(bench).into_set(Name::M2, rows, claims))
}

fn creation_dominates(per_task: &Observation, task_ps: u64) -> Claim {
    let claim = "creation dominates thread per task";
    let Some(creation) = per_task.creation.filter(|creation| creation.ops > 0) else {
        return Claim::cannot_tell(claim, "no creation was measured");
    };
    let op_ps = creation.op_ns * 1_000 / creation.ops;
    let part = 1.0 - times(task_ps, op_ps);
    let created = per_task.counts.threads_created.unwrap_or(0);
    Claim::new(
        claim,
        part > 0.5 && created == per_task.ops,
        format!(
            "{} of {} is creating, waiting for the first run, exit and join; {} threads for {} tasks",
            share(part),
            text(op_ps),
            count(created),
            count(per_task.ops)
        ),
    )
}

fn faster(thread_ps: u64, workers: u64, pool_ps: u64) -> Claim {
    let ratio = times(thread_ps, pool_ps);
    Claim::new(
        "a pool is faster by 20 times or more",
        ratio >= 20.0,
        format!(
            "{ratio:.0} times with {workers} workers: {} against {} a task",
            text(pool_ps),
            text(thread_ps)
        ),
    )
}

/// Near: no more than twice as many, or no more than a tenth slower than the best of all.
fn best_near_cores(sweep: &[(u64, Observation)], cpus: u64) -> Claim {
    let best_of = |most: u64| {
        sweep.iter().filter(|(workers, _)| *workers <= most).min_by_key(|(_, pool)| per_op_ps(pool))
    };
    let claim = "the best number of workers is near the number of cores";
    let (Some((near, near_pool)), Some((best, best_pool))) = (best_of(cpus * 2), best_of(u64::MAX)) else {
        return Claim::cannot_tell(claim, "no sweep");
    };
    let behind = times(per_op_ps(near_pool), per_op_ps(best_pool));
    Claim::new(
        claim,
        behind <= 1.1,
        format!(
            "best at {near} workers of up to {}, at {best} of all, {behind:.2} times apart; {cpus} CPUs",
            cpus * 2
        ),
    )
}

fn oversubscribed(best: &Observation, sweep: &[(u64, Observation)]) -> Claim {
    let claim = "past it throughput falls, and switches and sleeps per task rise";
    let Some((workers, most)) = sweep.last() else { return Claim::cannot_tell(claim, "no sweep") };
    let sleeps =
        |pool: &Observation| pool.counts.futex_wait_slept.unwrap_or(0) as f64 / pool.ops.max(1) as f64;
    let slower = times(per_op_ps(most), per_op_ps(best));
    Claim::new(
        claim,
        slower > 1.0 && switches_per_op(most) > switches_per_op(best),
        format!(
            "with {workers} workers a task takes {slower:.2} times as long; switches a task {:.3} → {:.3}, futex sleeps \
             a task {:.3} → {:.3}",
            switches_per_op(best),
            switches_per_op(most),
            sleeps(best),
            sleeps(most)
        ),
    )
}

fn single_task(create_ps: u64, thread_ps: u64) -> Claim {
    let ratio = times(create_ps, thread_ps);
    Claim::new(
        "with one single task the two ways cost the same",
        (0.33..3.0).contains(&ratio),
        format!(
            "either makes one thread: {} for a worker, {} for a thread with its task",
            text(create_ps),
            text(thread_ps)
        ),
    )
}

fn crossover_count(setup_ps: u64, thread_ps: u64, pool_ps: u64) -> Claim {
    let claim = "there is a number of tasks from which the pool wins";
    if thread_ps <= pool_ps {
        return Claim::new(claim, false, "a task costs no less in the pool".to_owned());
    }
    let tasks = setup_ps.div_ceil(thread_ps - pool_ps);
    Claim::new(claim, true, format!("from {} tasks on, building the pool included", count(tasks.max(1))))
}

fn crossover_length(
    thread_ps: u64,
    short: &Observation,
    long_thread: &Observation,
    long_pool: &Observation,
) -> Claim {
    let short_gain = times(thread_ps, per_op_ps(short));
    let long_gain = times(per_op_ps(long_thread), per_op_ps(long_pool));
    Claim::new(
        "the longer the task, the less the pool gains",
        long_gain < short_gain,
        format!(
            "{short_gain:.0} times for a task of {}, {long_gain:.1} times for one of {} (there what is left is \
             the second CPU)",
            text(per_op_ps(short)),
            text(per_op_ps(long_thread))
        ),
    )
}

fn io_wants_more(few: &Observation, many: &Observation, cpus: u64) -> Claim {
    let gain = times(per_op_ps(few), per_op_ps(many));
    Claim::new(
        "tasks that wait for I/O want more workers than cores",
        gain > 2.0,
        format!("{} workers do {gain:.1} times as many such tasks as {cpus}", cpus * 8),
    )
}
