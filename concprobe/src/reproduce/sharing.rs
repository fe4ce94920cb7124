//! M5: a change measured once and measured properly. The two sides alternate, the first of each pair
//! changing, each in a process of its own.

use anyhow::Result;

use super::{Bench, Claim, Name, Row, Set, Trial, times};
use crate::{
    observation::Depth,
    units::{per_op_ps as text, share},
};

/// Runs of each side, as published.
const RUNS: usize = 15;
const OPS: u64 = 4_000_000;

pub(super) async fn measure(bench: &mut Bench) -> Result<Set> {
    let (mut padded, mut shared) = (Vec::new(), Vec::new());
    let mut cpus = 1;
    for pair in 0..RUNS {
        let order = if pair % 2 == 0 { ["false-sharing", "padded"] } else { ["padded", "false-sharing"] };
        for name in order {
            let trial = Trial { depth: Depth::Switches, ..Trial::new(name, OPS).once().spread() };
            let observation = bench.run(&trial).await?;
            cpus = observation.environment.cpus_usable.len();
            // The wall time of the whole crew, as the articles took it.
            let wall_ps = observation.repetitions.first().map_or(0, |one| one.per_op_ps);
            if name == "padded" { padded.push(wall_ps) } else { shared.push(wall_ps) }
        }
    }
    let least = |runs: &[u64]| runs.iter().copied().min().unwrap_or(0);
    let most = |runs: &[u64]| runs.iter().copied().max().unwrap_or(0);
    let ratio = times(least(&shared), least(&padded));
    let spread = times(most(&padded), least(&padded));
    let reversed = reversal(&padded, &shared);
    let first = |runs: &[u64]| runs.first().copied().unwrap_or(0);
    let rows = vec![
        Row::text("padded, minimum of 15", "2.9 ms", format!("{} an increment", text(least(&padded)))),
        Row::text("on one line, minimum of 15", "12.8 ms", format!("{} an increment", text(least(&shared)))),
        Row::text("padding is faster by", "4.36 times", format!("{ratio:.2} times")),
        Row::text(
            "one run each, B first",
            "2.9 times slower (wrong)",
            format!("{:.2} times faster", times(first(&shared), first(&padded))),
        ),
        Row::text("spread of padded, max/min", "1.83", format!("{spread:.2}")),
    ];
    let claim = "padding is faster, repeated and by the minimum";
    let mut claims = vec![if cpus < 2 {
        Claim::cannot_tell(claim, "with one usable CPU no cache line moves between cores")
    } else {
        Claim::new(claim, ratio > 1.1, format!("{ratio:.2} times, over {RUNS} alternating runs of each"))
    }];
    claims.push(Claim::new(
        "a tool can say how often a single run would have turned the conclusion round",
        true,
        format!("{} of all pairs of one run each say the opposite", share(reversed)),
    ));
    Ok(std::mem::take(bench).into_set(Name::M5, rows, claims))
}

/// The part of all pairs of one run each in which the side that is faster by its minimum is not faster.
fn reversal(left: &[u64], right: &[u64]) -> f64 {
    let left_is_faster = left.iter().min() < right.iter().min();
    let pairs = left.len() * right.len();
    let reversed = left
        .iter()
        .flat_map(|left| right.iter().map(move |right| (left, right)))
        .filter(|(left, right)| if left_is_faster { left >= right } else { right >= left })
        .count();
    reversed as f64 / pairs.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::reversal;

    #[test]
    fn the_probability_of_a_reversal_counts_pairs() {
        assert!((reversal(&[1, 2], &[3, 4]) - 0.0).abs() < 1e-9);
        assert!((reversal(&[1, 5], &[3, 4]) - 0.5).abs() < 1e-9, "the 5 loses against both");
        assert!((reversal(&[3, 4], &[1, 5]) - 0.5).abs() < 1e-9, "the same seen from the other side");
        assert!((reversal(&[], &[]) - 0.0).abs() < 1e-9);
    }
}
