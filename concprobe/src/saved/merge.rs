//! Several results of the same kind as one: histograms added, counts summed.

use std::collections::BTreeMap;

use anyhow::{Error, Result, anyhow, bail};
use hdrhistogram::Histogram;

use super::Saved;
use crate::{
    figures,
    harness::tally::empty_histogram,
    latencies,
    observation::{Call, CreationParts, Intervals, Latencies, Observation},
};

/// All of them together.
///
/// # Errors
/// When they are not results of the same workload, or a histogram is not what its count says.
pub fn merge(results: Vec<Saved>) -> Result<Saved> {
    let mut results = results.into_iter();
    let Some(first) = results.next() else { bail!("there is nothing to merge") };
    match first {
        Saved::Run(mut sum) => {
            let mut merged = 1;
            for result in results {
                let Saved::Run(run) = result else {
                    bail!("{} and {} cannot be merged", "the result of a run", result.kind());
                };
                add(&mut sum, *run)?;
                merged += 1;
            }
            sum.claim_holds = None;
            sum.verdict = vec![format!("{merged} results merged; their claims are judged in each of them.")];
            Ok(Saved::Run(sum))
        }
        Saved::Log(histograms) => {
            let mut sum: BTreeMap<String, Histogram<u64>> = histograms.into_iter().collect();
            for result in results {
                let Saved::Log(histograms) = result else {
                    bail!("an interval log and {} cannot be merged", result.kind());
                };
                for (name, histogram) in histograms {
                    match sum.get_mut(&name) {
                        Some(sum) => add_histogram(&name, sum, &histogram)?,
                        None => drop(sum.insert(name, histogram)),
                    }
                }
            }
            Ok(Saved::Log(sum.into_iter().collect()))
        }
        other => {
            bail!("only results of `concprobe run` and interval logs can be merged, not {}", other.kind())
        }
    }
}

/// No value of either is left out.
fn add_histogram(name: &str, sum: &mut Histogram<u64>, histogram: &Histogram<u64>) -> Result<()> {
    sum.auto(true);
    sum.add(histogram).map_err(|error| anyhow!("cannot add up the histograms of {name}: {error}"))
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
    let machines = [&sum.environment, &run.environment];
    let [kernel, other] = machines.map(|machine| &machine.kernel_release);
    if kernel != other {
        let name = |kernel: &Option<String>| kernel.clone().unwrap_or_else(|| "an unknown one".to_owned());
        sum.warnings.push(format!("merged though the kernel differs: {} and {}", name(kernel), name(other)));
    }
    let [cpu, other] = machines.map(|machine| &machine.cpu_model);
    if cpu != other {
        sum.warnings.push("merged though the CPU differs".to_owned());
    }
    sum.started_at = sum.started_at.min(run.started_at);
    sum.estimate |= run.estimate;
    sum.interrupted_by = sum.interrupted_by.or(run.interrupted_by);
    sum.ops = sum.ops.saturating_add(run.ops);
    sum.wall_ns = sum.wall_ns.saturating_add(run.wall_ns);
    sum.repetitions.extend(run.repetitions);
    let classes = [
        ("fast", &mut sum.classes.fast, &run.classes.fast),
        ("kernel", &mut sum.classes.kernel, &run.classes.kernel),
        ("preempted", &mut sum.classes.preempted, &run.classes.preempted),
        ("slept", &mut sum.classes.slept, &run.classes.slept),
        ("created", &mut sum.classes.created, &run.classes.created),
        ("not_switched", &mut sum.classes.not_switched, &run.classes.not_switched),
        ("all", &mut sum.latency, &run.latency),
    ];
    for (name, into, from) in classes {
        *into = both(name, into.as_ref(), from.as_ref())?;
    }
    let intervals = sum.intervals.take().zip(run.intervals);
    sum.intervals = intervals
        .map(|(one, other)| {
            Ok::<_, Error>(Intervals {
                blocked: add_latencies("blocked", &one.blocked, &other.blocked)?,
                run_queue: add_latencies("run_queue", &one.run_queue, &other.run_queue)?,
                creation: add_latencies("creation", &one.creation, &other.creation)?,
            })
        })
        .transpose()?;
    for (name, times) in run.extra_times {
        let times = match sum.extra_times.get(&name) {
            Some(known) => add_latencies(&name, known, &times)?,
            None => times,
        };
        sum.extra_times.insert(name, times);
    }
    sum.creation = sum.creation.zip(run.creation).map(|(one, other)| add_creation(&one, &other));
    sum.calls = sum.calls.take().zip(run.calls).map(|(one, other)| add_calls(one, other));
    sum.parts = figures::add_parts(&sum.parts, &run.parts);
    sum.counts = figures::add_counts(&sum.counts, &run.counts);
    sum.threads.extend(run.threads);
    sum.lost = sum.lost.zip(run.lost).map(|(left, right)| left.saturating_add(right));
    add_counts(&mut sum.losses, run.losses);
    add_counts(&mut sum.blurs, run.blurs);
    add_counts(&mut sum.extra_counts, run.extra_counts);
    sum.warnings.extend(run.warnings);
    sum.self_check.passed &= run.self_check.passed;
    sum.unavailable.extend(run.unavailable);
    // What belongs to one run alone is not kept.
    for key in ["batches", "probe", "depth_check"] {
        sum.unavailable.entry(key.to_owned()).or_insert_with(|| "several results are merged".to_owned());
    }
    (sum.batches, sum.probe, sum.depth_check) = (None, None, None);
    Ok(())
}

/// What one of the two does not know, both do not.
fn both(name: &str, left: Option<&Latencies>, right: Option<&Latencies>) -> Result<Option<Latencies>> {
    left.zip(right).map(|(left, right)| add_latencies(name, left, right)).transpose()
}

fn add_latencies(name: &str, left: &Latencies, right: &Latencies) -> Result<Latencies> {
    // The sum takes for granted what a file need not keep.
    for latencies in [left, right] {
        let histogram = super::histogram(name, latencies)?;
        let values = histogram.as_ref().map_or(0, Histogram::len);
        if values != latencies.count {
            bail!("the histogram of {name} has {values} values, and its count is {}", latencies.count);
        }
        if histogram.is_some_and(|histogram| empty_histogram().add(&histogram).is_err()) {
            bail!("the histogram of {name} has values beyond the range of this program's");
        }
        if latencies.count > 0 && latencies.min_ns.zip(latencies.max_ns).is_none_or(|(min, max)| min > max) {
            bail!("the extremes of {name} are not in order");
        }
    }
    let mut both = latencies::merged(left, right);
    let sum = |of: fn(&Latencies) -> Option<u64>| {
        of(left).zip(of(right)).map(|(left, right)| left.saturating_add(right))
    };
    both.blocked_ns = sum(|latencies| latencies.blocked_ns);
    both.run_queue_ns = sum(|latencies| latencies.run_queue_ns);
    Ok(both)
}

fn add_creation(one: &CreationParts, other: &CreationParts) -> CreationParts {
    CreationParts {
        ops: one.ops.saturating_add(other.ops),
        unordered: one.unordered.saturating_add(other.unordered),
        op_ns: one.op_ns.saturating_add(other.op_ns),
        setup_ns: one.setup_ns.saturating_add(other.setup_ns),
        clone_ns: one.clone_ns.saturating_add(other.clone_ns),
        first_run_wait_ns: one.first_run_wait_ns.saturating_add(other.first_run_wait_ns),
        exit_and_join_ns: one.exit_and_join_ns.saturating_add(other.exit_and_join_ns),
        exit_ns: one.exit_ns.zip(other.exit_ns).map(|(one, other)| one.saturating_add(other)),
    }
}

fn add_calls(mut sum: Vec<Call>, calls: Vec<Call>) -> Vec<Call> {
    for call in calls {
        match sum.iter_mut().find(|known| (known.number, known.compat) == (call.number, call.compat)) {
            Some(known) => {
                known.calls = known.calls.saturating_add(call.calls);
                known.errors = known.errors.saturating_add(call.errors);
                known.again = known.again.saturating_add(call.again);
            }
            None => sum.push(call),
        }
    }
    sum
}

fn add_counts(sums: &mut BTreeMap<String, u64>, counts: BTreeMap<String, u64>) {
    for (name, count) in counts {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::tally::{self, Tally};

    fn latencies_of(values: &[u64]) -> Latencies {
        let mut tally = Tally::default();
        values.iter().for_each(|value| tally.record(*value, 1, (1, 2)));
        latencies::of_tally(&tally).unwrap()
    }

    #[test]
    fn the_sum_has_every_value_and_the_extremes_of_its_parts() {
        let (left, right) = (latencies_of(&[10, 20]), latencies_of(&[5, 1_000_000_000_000_000]));
        let sum = add_latencies("fast", &left, &right).unwrap();
        assert_eq!((sum.count, sum.min_ns, sum.max_ns), (4, Some(5), Some(1_000_000_000_000_000)));
        assert_eq!((sum.sum_ns, sum.blocked_ns), (1_000_000_000_000_035, Some(4)));
        assert_eq!(tally::decode(&sum.histogram.unwrap()).unwrap().len(), 4, "none is lost beyond the range");
        assert_eq!(add_latencies("fast", &left, &latencies_of(&[])).unwrap().count, 2);
        let nothing = add_latencies("fast", &latencies_of(&[]), &latencies_of(&[])).unwrap();
        assert_eq!((nothing.count, nothing.p99_ns), (0, None));
    }

    #[test]
    fn a_histogram_that_is_not_what_its_count_says_is_not_added() {
        let left = latencies_of(&[10, 20]);
        let edited = Latencies { count: 3, ..latencies_of(&[1, 2]) };
        let error = add_latencies("fast", &left, &edited).unwrap_err().to_string();
        assert_eq!(error, "the histogram of fast has 2 values, and its count is 3");
        let mut wide = Histogram::<u64>::new(3).unwrap();
        wide.record(u64::MAX / 4).unwrap();
        let beyond = Latencies { count: 1, histogram: tally::encode(&wide).ok(), ..Latencies::default() };
        assert!(add_latencies("fast", &left, &beyond).unwrap_err().to_string().contains("beyond the range"));
    }

    #[test]
    fn merged_logs_have_the_values_of_both_also_beyond_the_range_of_the_first() {
        let (mut narrow, mut wide) =
            (Histogram::<u64>::new_with_max(1_000, 3).unwrap(), Histogram::<u64>::new(3).unwrap());
        narrow.record(7).unwrap();
        wide.record(1_000_000).unwrap();
        let log = |histogram: &Histogram<u64>| Saved::Log(vec![("a".to_owned(), histogram.clone())]);
        let Saved::Log(sum) = merge(vec![log(&narrow), log(&wide)]).unwrap() else { panic!("no log") };
        assert_eq!((sum.len(), sum[0].1.len(), sum[0].1.min()), (1, 2, 7));
    }
}
