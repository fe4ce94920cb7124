//! M4: waiting asleep, waiting awake, and what each costs.

use anyhow::Result;

use super::{Bench, Claim, Name, Row, Set, Trial, cores, times};
use crate::{
    observation::Observation,
    units::{count, duration_ns},
};

pub(super) async fn measure(bench: &mut Bench) -> Result<Set> {
    let delay = "60ms";
    let blocking = bench.run(&Trial::new("read-blocking", 20).with("delay", delay)).await?;
    let busy = bench.run(&Trial::new("read-busypoll", 20).with("delay", delay)).await?;
    let epoll = bench.run(&Trial::new("epoll", 20).with("delay", delay)).await?;
    let many = bench.run(&Trial::new("epoll", 40).with("fds", 2_000).with("delay", "10ms")).await?;
    let uninterruptible = bench.run(&Trial::new("sleep-uninterruptible", 10)).await?;

    let figures = |observation: &Observation| {
        format!(
            "state {}, {:.3} cores, noticed after {}",
            states(observation),
            cores(observation),
            notice_ns(observation).map_or_else(|| "n/a".to_owned(), duration_ns)
        )
    };
    let rows = vec![
        Row::text("blocking read", "state S, 0.000 cores, 97 µs", figures(&blocking)),
        Row::text("non-blocking, tight loop", "state R, 1.0 cores, 11 µs", figures(&busy)),
        Row::text("epoll", "state S, about 0 cores", figures(&epoll)),
        Row::text("epoll, 2,000 descriptors", "thousands from one thread", figures(&many)),
        Row::text("uninterruptible sleep", "state D", format!("state {}", states(&uninterruptible))),
    ];
    let claims = vec![
        Claim::of("a blocking read waits asleep", &blocking),
        Claim::of("busy-polling takes a whole core", &busy),
        earlier_notice(&blocking, &busy),
        Claim::of("epoll keeps the sleep", &epoll),
        Claim::of("epoll serves thousands of descriptors from one thread", &many),
        Claim::of("there is a third state, D, which signals do not end", &uninterruptible),
        states_seen(&blocking, &busy, &uninterruptible),
    ];
    Ok(std::mem::take(bench).into_set(Name::M4, rows, claims))
}

fn notice_ns(observation: &Observation) -> Option<u64> {
    observation.extra_times.get("notice delay").and_then(|times| times.p50_ns)
}

/// The states that were seen, the most frequent first: `S` or `R 98, S 2`.
fn states(observation: &Observation) -> String {
    let mut seen: Vec<(&str, u64)> = observation
        .extra_counts
        .iter()
        .filter_map(|(name, looks)| Some((name.strip_prefix("state ")?, *looks)))
        .collect();
    seen.sort_by_key(|(_, looks)| std::cmp::Reverse(*looks));
    match seen.as_slice() {
        [] => "not seen".to_owned(),
        [(state, _)] => (*state).to_owned(),
        several => {
            let each: Vec<String> = several.iter().map(|(state, looks)| format!("{state} {looks}")).collect();
            each.join(", ")
        }
    }
}

fn earlier_notice(blocking: &Observation, busy: &Observation) -> Claim {
    let claim = "the earlier notice is bought with a core";
    let (Some(asleep), Some(awake)) = (notice_ns(blocking), notice_ns(busy)) else {
        return Claim::cannot_tell(claim, "no notice delay was measured");
    };
    let again = busy.extra_counts.get("EAGAIN").copied().unwrap_or(0);
    Claim::new(
        claim,
        awake < asleep && cores(busy) > cores(blocking) * 10.0,
        format!(
            "{} against {} ({:.1} times earlier) for {:.2} against {:.3} cores and {} reads that returned EAGAIN",
            duration_ns(awake),
            duration_ns(asleep),
            times(asleep, awake),
            cores(busy),
            cores(blocking),
            count(again)
        ),
    )
}

fn states_seen(blocking: &Observation, busy: &Observation, uninterruptible: &Observation) -> Claim {
    let mostly = |observation: &Observation, state: &str| states(observation).starts_with(state);
    Claim::new(
        "the states are S, R and D",
        mostly(blocking, "S") && mostly(busy, "R") && mostly(uninterruptible, "D"),
        format!("{}; {}; {}", states(blocking), states(busy), states(uninterruptible)),
    )
}
