//! Two results of the same kind, figure by figure, in the style of benchstat: old, new, change, and whether
//! the change is more than noise. A pure function of the results.

mod condition;
mod metrics;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::{
    saved::Saved,
    statistics,
    units::{self, share},
};

pub use condition::{Condition, Judgement, percentage};
use metrics::Metric;

/// Version of the format.
pub const SCHEMA: &str = "concprobe-diff/1";

/// A change is told from noise at this level.
const LEVEL: f64 = 0.05;
/// The quantile of the normal distribution that belongs to it.
const Z: f64 = 1.96;

/// What differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What the older result is of.
    pub old: String,
    /// What the newer result is of.
    pub new: String,
    /// Differences that make a comparison doubtful.
    pub warnings: Vec<String>,
    /// The figures that both have.
    pub rows: Vec<Row>,
    /// Names of figures that only the older one has.
    pub only_old: Vec<String>,
    /// Names of figures that only the newer one has.
    pub only_new: Vec<String>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Things.
    Count,
    /// Things by op.
    PerOp,
    /// A part of one.
    Share,
}

impl Unit {
    /// A value as people read it.
    pub fn show(self, value: f64) -> String {
        #[expect(clippy::cast_sign_loss, reason = "figures are not negative, and a conversion saturates")]
        match self {
            Self::Ns => units::per_op_ps((value * 1e3).round() as u64),
            Self::Count => units::count(value as u64),
            Self::PerOp => format!("{value:.3}"),
            Self::Share => share(value),
        }
    }
}

/// One figure of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// In the older result.
    pub old: f64,
    /// In the newer result.
    pub new: f64,
    /// New by old, less one; `None` where the old one is nothing and the new one is not.
    pub change: Option<f64>,
    /// Whether the change is more than noise; `None` where the results cannot tell.
    pub significant: Option<bool>,
    /// Why.
    pub because: String,
}

/// Compares the figures of two results.
///
/// # Errors
/// When they are of different kinds, or a histogram cannot be decoded.
pub fn diff(old: &Saved, new: &Saved) -> Result<Diff> {
    if std::mem::discriminant(old) != std::mem::discriminant(new) {
        bail!("{} and {} cannot be compared", old.kind(), new.kind());
    }
    let (mut rows, mut only_old) = (Vec::new(), Vec::new());
    let mut newer = metrics::of(new)?;
    for (name, before) in metrics::of(old)? {
        match newer.iter().position(|(other, _)| *other == name) {
            Some(at) => rows.push(row(name, &before, &newer.remove(at).1)),
            None => only_old.push(name),
        }
    }
    Ok(Diff {
        schema: SCHEMA,
        old: metrics::title(old),
        new: metrics::title(new),
        warnings: metrics::differences(old, new),
        rows,
        only_old,
        only_new: newer.into_iter().map(|(name, _)| name).collect(),
    })
}

fn row(metric: String, old: &Metric, new: &Metric) -> Row {
    let change = match (old.value, new.value) {
        (old, new) if old == new => Some(0.0),
        (0.0, _) => None,
        (old, new) => Some((new - old) / old),
    };
    let (significant, because) = judge(old, new, change);
    Row { metric, unit: old.unit, old: old.value, new: new.value, change, significant, because }
}

/// Whether a change is more than noise, and why.
fn judge(old: &Metric, new: &Metric, change: Option<f64>) -> (Option<bool>, String) {
    if change == Some(0.0) {
        return (Some(false), "equal".to_owned());
    }
    if !old.samples.is_empty() && !new.samples.is_empty() {
        return by_rank(&old.samples, &new.samples);
    }
    if old.counted {
        return (None, "counted".to_owned());
    }
    let both = |of: fn(&Metric) -> Option<f64>| of(old).zip(of(new)).map(|(old, new)| old.hypot(new));
    let (repetitions, ranks) = (both(|metric| metric.repetition_error), both(|metric| metric.rank_error));
    if repetitions.is_none() && ranks.is_none() {
        return (None, "one run each".to_owned());
    }
    // Logarithms, as times vary by factors.
    let half_width = Z * repetitions.unwrap_or(0.0).hypot(ranks.unwrap_or(0.0));
    let within = change.is_some_and(|change| (1.0 + change).ln().abs() <= half_width);
    let width = format!("±{:.0} %", half_width.exp_m1() * 100.0);
    match (within, repetitions) {
        (true, _) => (Some(false), width),
        (false, Some(_)) => (Some(true), width),
        (false, None) => (None, format!("{width}, one run each")),
    }
}

fn by_rank(old: &[f64], new: &[f64]) -> (Option<bool>, String) {
    let p = statistics::rank_sum(old, new);
    let text = format!("p={p:.3} n={}+{}", old.len(), new.len());
    // Values that are as far apart as can be: with few of them, even that proves nothing.
    let apart = |values: usize, from: f64| (0..values).map(move |index| from + index as f64).collect();
    let (low, high): (Vec<f64>, Vec<f64>) = (apart(old.len(), 0.0), apart(new.len(), old.len() as f64));
    if statistics::rank_sum(&low, &high) >= LEVEL {
        return (None, format!("{text}, too few repetitions"));
    }
    (Some(p < LEVEL), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Metric {
        Metric { samples: values.to_vec(), ..Metric::new(Unit::Ns, statistics::median(values).unwrap()) }
    }

    #[test]
    fn a_change_needs_repetitions_to_be_told_from_noise() {
        let (old, new) = (samples(&[1.0, 2.0, 3.0, 4.0, 5.0]), samples(&[6.0, 7.0, 8.0, 9.0, 10.0]));
        let told = row("time".to_owned(), &old, &new);
        assert_eq!((told.significant, told.because.as_str()), (Some(true), "p=0.008 n=5+5"));
        assert!((told.change.unwrap() - 5.0 / 3.0).abs() < 1e-9);
        let noise = row("time".to_owned(), &samples(&[1.0, 3.0, 5.0, 7.0]), &samples(&[2.0, 4.0, 6.0, 8.0]));
        assert_eq!(noise.significant, Some(false));
        let few = row("time".to_owned(), &samples(&[1.0, 2.0, 3.0]), &samples(&[6.0, 7.0, 8.0]));
        assert_eq!(few.significant, None, "{}", few.because);
    }

    #[test]
    fn a_percentile_changes_beyond_what_its_rank_and_the_repetitions_leave_open() {
        let judged = |new: f64, rank_error, repetition_error| {
            let metric = |value| Metric { rank_error, repetition_error, ..Metric::new(Unit::Ns, value) };
            let told = row("p99".to_owned(), &metric(100.0), &metric(new));
            (told.significant, told.because)
        };
        // 1.96 · √2 · 0.01 = 2.8 %, and with as much again 4.0 %.
        assert_eq!(judged(102.0, Some(0.01), Some(0.0)), (Some(false), "±3 %".to_owned()));
        assert_eq!(judged(103.5, Some(0.01), Some(0.0)).0, Some(true));
        assert_eq!(judged(103.5, Some(0.01), Some(0.01)), (Some(false), "±4 %".to_owned()));
        assert_eq!(judged(20.0, None, Some(0.3)).0, Some(true), "a fifth is as far as five times");
        assert_eq!(judged(103.5, Some(0.01), None), (None, "±3 %, one run each".to_owned()));
        assert_eq!(judged(103.5, None, None).0, None);
        assert_eq!(judged(0.0, Some(0.01), Some(0.1)).0, Some(true));
    }

    #[test]
    fn nothing_that_becomes_something_has_no_percentage() {
        let metric = |value| Metric { counted: true, ..Metric::new(Unit::Count, value) };
        assert_eq!(row("lost".to_owned(), &metric(0.0), &metric(3.0)).change, None);
        assert_eq!(row("lost".to_owned(), &metric(0.0), &metric(0.0)).change, Some(0.0));
        assert_eq!(row("lost".to_owned(), &metric(3.0), &metric(0.0)).change, Some(-1.0));
    }
}
