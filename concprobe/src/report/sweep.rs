//! A sweep: the same workload with several values of one parameter, a row for each.

use std::collections::BTreeSet;

use super::text::{Page, Style};
use crate::{
    observation::Observation,
    units::{count, duration_ns, per_op_ps},
};

/// The table of a sweep over `parameter`.
pub fn sweep(observations: &[Observation], parameter: &str, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    let Some(first) = observations.first() else { return page.text };
    page.line(&format!("{}: a sweep over --{parameter}", first.workload));
    page.line(&format!("  an op: {}", first.op));
    page.heading("By value");
    let rows = observations.iter().map(|observation| row(observation, parameter)).collect();
    page.table(
        &[parameter, "ops", "best an op", "ops/s", "switches/op", "futex sleeps/op", "cores", "crew made in"],
        rows,
    );
    let best = observations.iter().filter(|one| best_ps(one).is_some()).min_by_key(|one| best_ps(one));
    if let Some(best) = best {
        let value = best.parameters.get(parameter).map_or("", String::as_str);
        page.line(&format!(
            "  best at --{parameter} {value}, on {} usable CPUs",
            first.environment.cpus_usable.len()
        ));
    }
    let warnings: BTreeSet<&String> =
        observations.iter().flat_map(|observation| &observation.warnings).collect();
    for warning in warnings {
        page.line(&format!("  ! {warning}"));
    }
    page.text
}

fn best_ps(observation: &Observation) -> Option<u64> {
    observation.repetitions.iter().filter(|one| one.ops > 0).map(|one| one.per_op_ps).min()
}

fn row(observation: &Observation, parameter: &str) -> Vec<String> {
    let counts = &observation.counts;
    let per_op = |value: Option<u64>| {
        let of_ops = |value: u64| format!("{:.3}", value as f64 / observation.ops.max(1) as f64);
        value.map_or_else(|| "n/a".to_owned(), of_ops)
    };
    let switches = counts
        .voluntary_switches
        .zip(counts.involuntary_switches)
        .map(|(voluntary, other)| voluntary.saturating_add(other));
    let best = best_ps(observation);
    let cores = observation.parts.on_cpu_ns.map(|on_cpu| on_cpu as f64 / observation.wall_ns.max(1) as f64);
    vec![
        observation.parameters.get(parameter).cloned().unwrap_or_default(),
        count(observation.ops),
        best.map_or_else(|| "-".to_owned(), per_op_ps),
        best.map_or_else(|| "-".to_owned(), |ps| count(1_000_000_000_000 / ps.max(1))),
        per_op(switches),
        per_op(counts.futex_wait_slept),
        cores.map_or_else(|| "n/a".to_owned(), |cores| format!("{cores:.2}")),
        observation.footprint.crew_setup_ns.map_or_else(|| "n/a".to_owned(), duration_ns),
    ]
}
