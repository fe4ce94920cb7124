//! M3: what is dear is the thread behind the future, not the future.

use anyhow::Result;

use super::{Bench, Claim, Name, Row, Set, Trial, per_op_ps, times};
use crate::{
    observation::Observation,
    units::{count, duration_ns, per_op_ps as text, share},
    workload,
};

pub(super) async fn measure(bench: &mut Bench) -> Result<Set> {
    let handoff = bench.run(&Trial::new("future-handoff", 5_000)).await?;
    let flag = bench.run(&Trial::new("flag-busypoll", 1_000_000).spread()).await?;
    let condvar = bench.run(&Trial::new("condvar-wakeup", 40_000).spread()).await?;
    let asynchronous = bench.run(&Trial::new("async-tasks", 5_000)).await?;
    let sequential = bench.run(&Trial::new("task-sequential", 1_000_000).with("task-work", 10)).await?;
    let wait = bench.run(&Trial::new("future-wait", 20)).await?;
    let deferred = bench.run(&Trial::new("future-deferred", 1_000_000)).await?;
    let pool = bench.run(&Trial::new("future-pool", 20_000)).await?;
    let scheduler = bench.run(&Trial::new("tokio-tasks", 100_000)).await?;
    let timeout = bench.run(&Trial::new("future-wait-timeout", 10)).await?;

    let get_ns = wait.latency.as_ref().and_then(|latency| latency.p50_ns).unwrap_or(0);
    let rows = vec![
        Row::time("promise → future, a new thread each", "40.3 µs", 40_300_000, per_op_ps(&handoff)),
        Row::time("busy-polled atomic flag", "65 ns", 65_000, per_op_ps(&flag)),
        Row::time("condition-variable wake-up", "about 8.5 µs", 8_500_000, per_op_ps(&condvar)),
        Row::time("tiny task, a thread for each", "21 µs", 21_000_000, per_op_ps(&asynchronous)),
        Row::time("the same tasks, sequentially", "10 ns", 10_000, per_op_ps(&sequential)),
        Row::time("get() on a promise fulfilled after 50 ms", "57.0 ms", 57_000_000_000, get_ns * 1_000),
        Row::text("deferred future", "no thread", text(per_op_ps(&deferred))),
        Row::text("future on a pool", "no thread per task", text(per_op_ps(&pool))),
        Row::text("task on a user-space scheduler", "no thread per task", text(per_op_ps(&scheduler))),
    ];
    let mut claims = vec![
        Claim::of("an asynchronous call makes one thread each", &asynchronous),
        dear_is_the_thread(&handoff, &pool),
        Claim::new(
            "the same tasks are faster sequentially by 100 times or more",
            times(per_op_ps(&asynchronous), per_op_ps(&sequential)) >= 100.0,
            format!("{:.0} times", times(per_op_ps(&asynchronous), per_op_ps(&sequential))),
        ),
        Claim::new(
            "busy-polling is faster than a thread by 100 times or more, and burns a core",
            times(per_op_ps(&handoff), per_op_ps(&flag)) >= 100.0,
            format!(
                "{:.0} times, with {:.2} cores burnt by its two sides",
                times(per_op_ps(&handoff), per_op_ps(&flag)),
                super::cores(&flag)
            ),
        ),
        get_sleeps(&wait),
        Claim::of("a deferred future runs on the caller and creates no thread", &deferred),
        Claim::of("a future on a shared pool creates no thread", &pool),
        Claim::of("a task on a user-space scheduler creates no thread", &scheduler),
        Claim::of("waiting with a timeout polls without burning CPU time", &timeout),
    ];
    claims.extend(real_cpp(bench).await?);
    claims.push(Claim::cannot_tell(
        "Java, Go and JavaScript show the same",
        "other languages' runtimes are not part of concprobe; trace such a program itself",
    ));
    Ok(std::mem::take(bench).into_set(Name::M3, rows, claims))
}

fn dear_is_the_thread(handoff: &Observation, pool: &Observation) -> Claim {
    let created = handoff.counts.threads_created.unwrap_or(0);
    Claim::new(
        "what is dear is the thread behind the future, not the future",
        created == handoff.ops && per_op_ps(handoff) > per_op_ps(pool),
        format!(
            "{} with a new thread each ({} threads for {} futures), {} on threads that are there",
            text(per_op_ps(handoff)),
            count(created),
            count(handoff.ops),
            text(per_op_ps(pool))
        ),
    )
}

fn get_sleeps(wait: &Observation) -> Claim {
    let on_cpu = wait.parts.on_cpu_ns.unwrap_or(u64::MAX);
    let part = times(on_cpu, wait.parts.wall_ns);
    let slept = wait.classes.slept.as_ref().map_or(0, |class| class.count);
    Claim::new(
        "get() is a blocking point that sleeps: no CPU is used",
        part < 0.01 && slept == wait.ops,
        format!(
            "{} of {} waits slept; {} of {} on the CPU",
            count(slept),
            count(wait.ops),
            share(part),
            duration_ns(wait.parts.wall_ns)
        ),
    )
}

/// The C++ originals, where this build has them.
async fn real_cpp(bench: &mut Bench) -> Result<Vec<Claim>> {
    let mut claims = Vec::new();
    for (name, ops, claim) in [
        ("cpp-async", 2_000, "std::async makes one thread each"),
        ("cpp-future-handoff", 2_000, "std::promise with a std::thread makes one thread each"),
        ("cpp-deferred", 100_000, "launch::deferred creates no thread"),
    ] {
        claims.push(match workload::find(name).map(|entry| entry.unavailable) {
            Some(None) => Claim::of(claim, &bench.run(&Trial::new(name, ops)).await?),
            Some(Some(reason)) => Claim::cannot_tell(claim, reason),
            None => Claim::cannot_tell(claim, "there is no such workload"),
        });
    }
    Ok(claims)
}
