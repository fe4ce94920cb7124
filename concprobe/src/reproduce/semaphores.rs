//! M1: a semaphore's one call has two prices.

use anyhow::Result;

use super::{Bench, Claim, Name, Row, Set, Trial, per_op_ps, times};
use crate::{
    observation::Observation,
    units::{count, per_op_ps as text, share},
};

pub(super) async fn measure(bench: &mut Bench) -> Result<Set> {
    let fast = bench.run(&Trial::new("sem-fast", 2_000_000)).await?;
    let named = bench.run(&Trial::new("sem-named", 2_000_000)).await?;
    let call = bench.run(&Trial::new("syscall-null", 200_000)).await?;
    let pingpong = bench.run(&Trial::new("sem-pingpong", 40_000).spread()).await?;
    let ring = bench.run(&Trial::new("sem-ring", 400_000)).await?;
    let mutex = bench.run(&Trial::new("mutex-fast", 2_000_000)).await?;
    let contended = bench.run(&Trial::new("mutex-contended", 200_000)).await?;

    let (fast_ps, sleep_ps) = (per_op_ps(&fast), per_op_ps(&pingpong));
    let ratio = times(sleep_ps, fast_ps);
    let rows = vec![
        Row::time("uncontended post and wait", "about 1.8 ns", 1_800, fast_ps),
        Row::time("ping-pong, one wake-up", "about 8,695 ns", 8_695_000, sleep_ps),
        Row::text("ratio", "about 4,800 times", format!("{ratio:.0} times")),
        Row::text("empty system call", "hundreds of ns", text(per_op_ps(&call))),
        Row::text("named semaphore", "the same as unnamed", text(per_op_ps(&named))),
        Row::text("ring of several slots, an item", "the fast path again", text(per_op_ps(&ring))),
        Row::text("uncontended mutex", "the same structure", text(per_op_ps(&mutex))),
    ];
    let claims = vec![
        Claim::of("the fast path never enters the kernel", &fast),
        sleeping_hand_offs(&pingpong),
        Claim::new(
            "the cost is the sleep, not the call",
            ratio >= 100.0,
            format!("asleep it costs {ratio:.0} times as much"),
        ),
        Claim::new(
            "an empty system call is dearer than an uncontended semaphore",
            per_op_ps(&call) > fast_ps,
            format!("{} against {}", text(per_op_ps(&call)), text(fast_ps)),
        ),
        Claim::new(
            "a named semaphore costs the same",
            (0.67..1.5).contains(&times(per_op_ps(&named), fast_ps)),
            format!("{} against {}", text(per_op_ps(&named)), text(fast_ps)),
        ),
        ring_is_fast(&ring, sleep_ps),
        two_prices(&mutex, &contended),
    ];
    Ok(std::mem::take(bench).into_set(Name::M1, rows, claims))
}

fn sleeping_hand_offs(pingpong: &Observation) -> Claim {
    let claim = "a sleeping hand-off is one futex wait, one futex wake and one voluntary switch";
    let slept = pingpong.classes.slept.as_ref().map_or(0, |class| class.count);
    let counts = &pingpong.counts;
    let (Some(waits), Some(waits_slept), Some(wakes), Some(switches)) =
        (counts.futex_waits, counts.futex_wait_slept, counts.futex_wakes, counts.voluntary_switches)
    else {
        return Claim::cannot_tell(claim, "system calls were not looked at");
    };
    let near = |value: u64| (0.95..1.05).contains(&times(value, slept));
    // Who came too late to sleep made the same calls and was not switched out.
    let one_each = |calls: u64| calls * 100 >= slept * 95 && calls * 100 <= pingpong.ops * 105;
    Claim::new(
        claim,
        near(waits_slept) && near(switches) && one_each(waits) && one_each(wakes),
        format!(
            "{} waits, {} of which slept, {} wakes and {} voluntary switches for {} ops, {} of which slept ({})",
            count(waits),
            count(waits_slept),
            count(wakes),
            count(switches),
            count(pingpong.ops),
            count(slept),
            share(slept as f64 / pingpong.ops.max(1) as f64)
        ),
    )
}

fn ring_is_fast(ring: &Observation, sleep_ps: u64) -> Claim {
    let slept = ring.classes.slept.as_ref().map_or(0, |class| class.count) as f64 / ring.ops.max(1) as f64;
    Claim::new(
        "a design that need not sleep brings the same semaphore back to the fast path",
        slept < 0.1 && per_op_ps(ring) * 5 < sleep_ps,
        format!("{} of the items slept; an item costs {}", share(slept), text(per_op_ps(ring))),
    )
}

fn two_prices(fast: &Observation, contended: &Observation) -> Claim {
    let calls = fast.counts.syscalls.unwrap_or(u64::MAX);
    let slept = contended.classes.slept.as_ref().map_or(0, |class| class.count);
    let asleep = contended.classes.slept.as_ref().and_then(|class| class.p50_ns).unwrap_or(0);
    Claim::new(
        "an uncontended mutex has the same two prices",
        calls == 0 && slept > 0,
        format!(
            "{} uncontended with {} system calls; under contention {} ops slept, {} in the median",
            text(per_op_ps(fast)),
            count(calls),
            count(slept),
            text(asleep * 1_000)
        ),
    )
}
