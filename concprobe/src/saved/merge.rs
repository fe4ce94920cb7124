//! Several results of the same kind as one: histograms added, counts summed.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::Saved;
use crate::{
    figures, latencies,
    observation::{Latencies, Observation},
};

/// All of them together.
///
/// # Errors
/// When they are not results of the same workload.
pub fn merge(results: Vec<Saved>) -> Result<Saved> {
    let mut runs = Vec::new();
    for result in results {
        match result {
            Saved::Run(run) => runs.push(*run),
            _ => bail!("only results of `concprobe run` can be merged"),
        }
    }
    let mut runs = runs.into_iter();
    let Some(mut sum) = runs.next() else { bail!("there is nothing to merge") };
    for run in runs {
        add(&mut sum, run)?;
    }
    sum.claim_holds = None;
    sum.verdict =
        vec![format!("{} results merged; their claims are judged in each of them.", sum.repetitions.len())];
    Ok(Saved::Run(Box::new(sum)))
}

fn add(sum: &mut Observation, run: Observation) -> Result<()> {
    if sum.workload != run.workload {
        bail!("{} and {} are different workloads", sum.workload, run.workload);
    }
    if sum.depth != run.depth {
        bail!("the results were looked at at different depths");
    }
    for (name, value) in &run.parameters {
        match sum.parameters.get(name) {
            Some(known) if known == value => {}
            known => {
                let known = known.cloned().unwrap_or_default();
                sum.warnings.push(format!("merged though {name} differs: {known} and {value}"));
            }
        }
    }
    sum.ops += run.ops;
    sum.wall_ns += run.wall_ns;
    sum.repetitions.extend(run.repetitions);
    let classes = [
        (&mut sum.classes.fast, &run.classes.fast),
        (&mut sum.classes.kernel, &run.classes.kernel),
        (&mut sum.classes.preempted, &run.classes.preempted),
        (&mut sum.classes.slept, &run.classes.slept),
        (&mut sum.classes.created, &run.classes.created),
        (&mut sum.classes.not_switched, &run.classes.not_switched),
        (&mut sum.latency, &run.latency),
    ];
    for (into, from) in classes {
        *into = both(into.as_ref(), from.as_ref());
    }
    sum.parts = figures::add_parts(&sum.parts, &run.parts);
    sum.counts = figures::add_counts(&sum.counts, &run.counts);
    sum.threads.extend(run.threads);
    sum.lost = sum.lost.zip(run.lost).map(|(left, right)| left + right);
    add_counts(&mut sum.losses, run.losses);
    add_counts(&mut sum.blurs, run.blurs);
    add_counts(&mut sum.extra_counts, run.extra_counts);
    sum.warnings.extend(run.warnings);
    sum.self_check.passed &= run.self_check.passed;
    // What cannot be added is not kept.
    (sum.batches, sum.creation, sum.intervals, sum.calls, sum.probe, sum.depth_check) =
        (None, None, None, None, None, None);
    Ok(())
}

fn both(left: Option<&Latencies>, right: Option<&Latencies>) -> Option<Latencies> {
    let mut both = latencies::merged(left?, right?);
    let sum =
        |of: fn(&Latencies) -> Option<u64>| left.and_then(of).zip(right.and_then(of)).map(|(a, b)| a + b);
    both.blocked_ns = sum(|latencies| latencies.blocked_ns);
    both.run_queue_ns = sum(|latencies| latencies.run_queue_ns);
    Some(both)
}

fn add_counts(sums: &mut BTreeMap<String, u64>, counts: BTreeMap<String, u64>) {
    for (name, count) in counts {
        *sums.entry(name).or_default() += count;
    }
}
