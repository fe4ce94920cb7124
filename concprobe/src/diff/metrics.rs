//! The figures of a result that can be compared, by name.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use hdrhistogram::Histogram;

use super::Unit;
use crate::{
    latencies,
    observation::{
        Batches, Counts, Latencies, Observation, Parts,
        trace::{Sleeps, Trace},
    },
    saved::{self, Saved},
    statistics,
};

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Metric {
    pub unit: Unit,
    pub value: f64,
    /// The same figure of each repetition, where there is one.
    pub samples: Vec<f64>,
    /// Standard error of the logarithm of a percentile, if ops were independent of each other.
    pub rank_error: Option<f64>,
    /// Standard error of the logarithm, from how repetitions differ.
    pub repetition_error: Option<f64>,
    /// It is an exact count.
    pub counted: bool,
}

impl Metric {
    pub(super) fn new(unit: Unit, value: f64) -> Self {
        Self { unit, value, samples: Vec::new(), rank_error: None, repetition_error: None, counted: false }
    }

    fn count(unit: Unit, value: f64) -> Self {
        Self { counted: true, ..Self::new(unit, value) }
    }
}

type Metrics = Vec<(String, Metric)>;

/// The figures of a result, in the order in which they are shown.
pub(super) fn of(result: &Saved) -> Result<Metrics> {
    let mut metrics = Vec::new();
    match result {
        Saved::Run(run) => of_run("", run, &mut metrics)?,
        Saved::Sweep(runs) => {
            let parameter = saved::swept_parameter(runs);
            for run in runs {
                let value = run.parameters.get(&parameter).map_or("", String::as_str);
                of_run(&format!("{parameter}={value}: "), run, &mut metrics)?;
            }
        }
        Saved::Reproduction(reproduction) => {
            for set in &reproduction.sets {
                for (label, run) in &set.observations {
                    of_run(&format!("{:?} {label}: ", set.name), run, &mut metrics)?;
                }
            }
        }
        Saved::Trace(trace) => of_trace(trace, &mut metrics)?,
        Saved::Comparison(_) => bail!("a comparison holds two sides already: show it"),
        Saved::Log(histograms) => {
            for (tag, histogram) in histograms {
                metrics.push((format!("{tag}.count"), Metric::count(Unit::Count, histogram.len() as f64)));
                for (name, quantile) in QUANTILES {
                    let value = histogram.value_at_quantile(quantile) as f64;
                    let rank_error = rank_error(histogram, quantile);
                    let metric = Metric { rank_error, ..Metric::new(Unit::Ns, value) };
                    metrics.push((format!("{tag}.{name}"), metric));
                }
            }
        }
    }
    Ok(metrics)
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

fn of_run(prefix: &str, run: &Observation, metrics: &mut Metrics) -> Result<()> {
    let mut add = |name: &str, metric: Metric| metrics.push((format!("{prefix}{name}"), metric));
    let samples: Vec<f64> =
        run.repetitions.iter().filter(|one| one.ops > 0).map(|one| one.per_op_ps as f64 / 1e3).collect();
    let repetition_error = repetition_error(&samples);
    if let Some(median) = statistics::median(&samples) {
        add("time", Metric { samples, ..Metric::new(Unit::Ns, median) });
    }
    match (&run.batches, &run.latency) {
        (Some(batches), _) => of_batches(batches, repetition_error, &mut add)?,
        (None, Some(all)) => percentiles("", all, repetition_error, &mut add)?,
        (None, None) => {}
    }
    let ops = run.ops.max(1) as f64;
    for (class, latencies) in run.classes.measured() {
        add(&format!("{class}.share"), Metric::count(Unit::Share, latencies.count as f64 / ops));
        percentiles(&format!("{class}."), latencies, repetition_error, &mut add)?;
    }
    for (part, value) in parts(&run.parts) {
        let metric =
            value.map(|value| Metric { repetition_error, ..Metric::new(Unit::Ns, value as f64 / ops) });
        metric.into_iter().for_each(|metric| add(&format!("{part}/op"), metric));
    }
    for (name, value) in counts(&run.counts) {
        let metric = value.map(|value| Metric::count(Unit::PerOp, value as f64 / ops));
        metric.into_iter().for_each(|metric| add(&format!("{name}/op"), metric));
    }
    for (name, times) in &run.extra_times {
        percentiles(&format!("{name}."), times, repetition_error, &mut add)?;
    }
    run.lost.into_iter().for_each(|lost| add("lost", Metric::count(Unit::Count, lost as f64)));
    Ok(())
}

/// Standard error of the mean of the logarithms; of fewer than two values nothing is known.
fn repetition_error(samples: &[f64]) -> Option<f64> {
    let logarithms: Vec<f64> = samples.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    let count = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
    (logarithms.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt())
}

/// Ops that are cheaper than the clock, in picoseconds.
fn of_batches(
    batches: &Batches,
    repetition_error: Option<f64>,
    add: &mut impl FnMut(&str, Metric),
) -> Result<()> {
    let histogram = batches.histogram.as_ref();
    let histogram = histogram.map(|text| saved::decoded("the batches", text)).transpose()?;
    for (name, quantile, ps) in [("p50", 0.5, batches.p50_ps), ("p99", 0.99, batches.p99_ps)] {
        let Some(ps) = ps else { continue };
        let value = ps as f64 / 1e3;
        let rank_error = histogram.as_ref().and_then(|histogram| rank_error(histogram, quantile));
        add(name, Metric { rank_error, repetition_error, ..Metric::new(Unit::Ns, value) });
    }
    Ok(())
}

fn percentiles(
    prefix: &str,
    latencies: &Latencies,
    repetition_error: Option<f64>,
    add: &mut impl FnMut(&str, Metric),
) -> Result<()> {
    let histogram = saved::histogram(prefix.trim_end_matches('.'), latencies)?;
    let values = [latencies.p50_ns, latencies.p90_ns, latencies.p99_ns, latencies.p999_ns];
    for ((name, quantile), value) in QUANTILES.into_iter().zip(values) {
        let Some(value) = value.map(|value| value as f64) else { continue };
        let rank_error = histogram.as_ref().and_then(|histogram| rank_error(histogram, quantile));
        add(
            &format!("{prefix}{name}"),
            Metric { rank_error, repetition_error, ..Metric::new(Unit::Ns, value) },
        );
    }
    Ok(())
}

/// From the ranks between which a binomial distribution lets a percentile lie in 95 % of all cases (Conover,
/// Practical Nonparametric Statistics, 3.2): the longer side of that interval, as a standard error.
fn rank_error(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    let count = histogram.len() as f64;
    let reach = super::Z * (count * quantile * (1.0 - quantile)).sqrt();
    let at = |rank: f64| histogram.value_at_quantile((rank / count).clamp(0.0, 1.0)).max(1) as f64;
    let low = at((count * quantile - reach).floor());
    let high = at((count * quantile + reach).ceil() + 1.0);
    let middle = at(count * quantile);
    (count > 0.0).then(|| (middle / low).max(high / middle).ln() / super::Z)
}

fn parts(parts: &Parts) -> [(&'static str, Option<u64>); 5] {
    [
        ("on_cpu", parts.on_cpu_ns),
        ("kernel", parts.kernel_ns),
        ("blocked", parts.blocked_ns),
        ("run_queue", parts.run_queue_ns),
        ("creation", parts.creation_ns),
    ]
}

fn counts(counts: &Counts) -> [(&'static str, Option<u64>); 10] {
    [
        ("syscalls", counts.syscalls),
        ("futex_waits", counts.futex_waits),
        ("futex_wait_slept", counts.futex_wait_slept),
        ("futex_wait_again", counts.futex_wait_again),
        ("futex_wakes", counts.futex_wakes),
        ("voluntary_switches", counts.voluntary_switches),
        ("involuntary_switches", counts.involuntary_switches),
        ("migrations", counts.migrations),
        ("threads_created", counts.threads_created),
        ("processes_created", counts.processes_created),
    ]
}

fn of_trace(trace: &Trace, metrics: &mut Metrics) -> Result<()> {
    let mut add = |name: &str, metric: Metric| metrics.push((name.to_owned(), metric));
    add("wall", Metric::new(Unit::Ns, trace.wall_ns as f64));
    for (part, value) in parts(&trace.parts) {
        value.into_iter().for_each(|value| add(part, Metric::new(Unit::Ns, value as f64)));
    }
    for (name, value) in counts(&trace.counts) {
        value.into_iter().for_each(|value| add(name, Metric::count(Unit::Count, value as f64)));
    }
    percentiles("creation.", &trace.creation.latency, None, &mut add)?;
    let locks = trace.locks.iter().map(|lock| (lock.name.as_str(), &lock.sleeps));
    let others = trace.sleeps.iter().map(|sleep| (sleep.call.as_str(), &sleep.sleeps));
    let mut order: Vec<&str> = Vec::new();
    let mut places: BTreeMap<&str, Vec<&Sleeps>> = BTreeMap::new();
    for (name, sleeps) in locks.chain(others) {
        let place = places.entry(name).or_default();
        if place.is_empty() {
            order.push(name);
        }
        place.push(sleeps);
    }
    for name in order {
        // The same name in several processes is one place.
        let place = &places[name];
        let slept = place.iter().map(|sleeps| sleeps.slept as f64).sum();
        let blocked_ns =
            place.iter().map(|sleeps| sleeps.blocked.sum_ns as f64 + sleeps.open_ns as f64).sum();
        add(&format!("{name}.slept"), Metric::count(Unit::Count, slept));
        add(&format!("{name}.blocked"), Metric::new(Unit::Ns, blocked_ns));
        let nothing = Latencies::default();
        let blocked = place.iter().fold(nothing, |sum, sleeps| latencies::merged(&sum, &sleeps.blocked));
        percentiles(&format!("{name}.blocked."), &blocked, None, &mut add)?;
    }
    for call in trace.calls.iter().flatten() {
        let table = if call.compat { "compat." } else { "" };
        add(&format!("calls.{table}{}", call.name), Metric::count(Unit::Count, call.calls as f64));
    }
    add("lost", Metric::count(Unit::Count, trace.lost as f64));
    Ok(())
}

/// What a result is of.
pub(super) fn title(result: &Saved) -> String {
    match result {
        Saved::Run(run) => format!("{}, {} repetitions", run.workload, run.repetitions.len()),
        Saved::Sweep(runs) => {
            let workload = runs.first().map_or("", |run| run.workload.as_str());
            format!("{workload}, a sweep over --{}", saved::swept_parameter(runs))
        }
        Saved::Reproduction(reproduction) => format!("reproduction of {} sets", reproduction.sets.len()),
        Saved::Trace(trace) => match &trace.command {
            Some(command) => command.join(" "),
            None => format!("process {}", trace.pid),
        },
        Saved::Comparison(_) => "a comparison".to_owned(),
        Saved::Log(histograms) => format!("interval log with {} tags", histograms.len()),
    }
}

/// Differences that make a comparison doubtful.
pub(super) fn differences(old: &Saved, new: &Saved) -> Vec<String> {
    let (Some(old), Some(new)) = (Setting::of(old), Setting::of(new)) else { return Vec::new() };
    let mut found = Vec::new();
    let mut compare = |what: &str, old: Option<&str>, new: Option<&str>| {
        if old != new {
            found.push(format!("{what} differs: {} and {}", old.unwrap_or("none"), new.unwrap_or("none")));
        }
    };
    compare("what was measured", Some(&old.of), Some(&new.of));
    if !old.parameters.contains_key("depth") {
        compare("depth", old.depth, new.depth);
    }
    for name in
        old.parameters.keys().chain(new.parameters.keys().filter(|name| !old.parameters.contains_key(*name)))
    {
        let value = |parameters: &'_ BTreeMap<String, String>| parameters.get(name).cloned();
        compare(name, value(old.parameters).as_deref(), value(new.parameters).as_deref());
    }
    let environments = [old.environment, new.environment];
    let [kernel, other] = environments.map(|environment| environment.kernel_release.as_deref());
    compare("the kernel", kernel, other);
    let [cpu, other] = environments.map(|environment| environment.cpu_model.as_deref());
    compare("the CPU", cpu, other);
    let [cpus, other] = environments.map(|environment| environment.cpus_usable.len().to_string());
    compare("the number of CPUs", Some(&cpus), Some(&other));
    found
}

/// Under what a result was measured.
struct Setting<'a> {
    of: String,
    depth: Option<&'static str>,
    parameters: &'a BTreeMap<String, String>,
    environment: &'a crate::environment::Environment,
}

impl<'a> Setting<'a> {
    fn of(result: &'a Saved) -> Option<Self> {
        match result {
            Saved::Run(run) => Some(Self::of_run(run)),
            Saved::Sweep(runs) => runs.first().map(Self::of_run),
            Saved::Trace(trace) => Some(Self {
                of: title(result),
                depth: Some(trace.depth.name()),
                parameters: &trace.parameters,
                environment: &trace.environment,
            }),
            Saved::Reproduction(_) | Saved::Comparison(_) | Saved::Log(_) => None,
        }
    }

    fn of_run(run: &'a Observation) -> Self {
        Self {
            of: run.workload.clone(),
            depth: run.depth.map(crate::observation::Depth::name),
            parameters: &run.parameters,
            environment: &run.environment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_percentile_is_that_of_its_ranks() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        (1..=1000).for_each(|value| histogram.record(value).unwrap());
        // 500 ± 1.96 · √250 = 469 and 531, and one more rank above: 500 / 469 is the longer side.
        let error = rank_error(&histogram, 0.5).unwrap();
        assert!((error - (500_f64 / 469.0).ln() / 1.96).abs() < 1e-9, "{error}");
        assert_eq!(rank_error(&Histogram::new(3).unwrap(), 0.5), None);
    }

    #[test]
    fn the_error_of_repetitions_is_that_of_their_mean() {
        // Logarithms 0 and 2: a deviation of √2, and √2 / √2 = 1 of the mean.
        assert!((repetition_error(&[1.0, 2_f64.exp()]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(repetition_error(&[5.0]), None);
        assert_eq!(repetition_error(&[]), None);
    }
}
