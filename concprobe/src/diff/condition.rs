//! Conditions on a diff: `p99 > +10%` (the change), `p99 > 5ms` (the newer figure), `lost > 0`.

use std::{fmt, str::FromStr};

use anyhow::{Context as _, Error, Result, anyhow, bail};
use serde::Serialize;

use super::{Diff, Row, Unit};

/// A condition under which a diff fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    metric: String,
    comparison: Comparison,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Greater,
    AtLeast,
    Less,
    AtMost,
}

impl Comparison {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// Of the change, a part of the older figure.
    Change(f64),
    /// Of the newer figure less the older one.
    Difference(Quantity),
    /// Of the newer figure.
    Newer(Quantity),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    Ns(f64),
    Number(f64),
}

/// What became of a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// As it was written.
    pub condition: String,
    /// It holds, and the change is not noise.
    pub failed: bool,
    /// The figures.
    pub found: String,
}

const FORM: &str = "write METRIC, one of > >= < <=, and +10%, -5%, 5ms or 1000";

impl FromStr for Condition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // The last one, as names of locks may have brackets.
        let at = text.rfind(['<', '>']).with_context(|| format!("{text:?} compares nothing: {FORM}"))?;
        let (metric, rest) = (text[..at].trim(), &text[at + 1..]);
        let (comparison, limit) = match (text.as_bytes()[at], rest.strip_prefix('=')) {
            (b'>', Some(limit)) => (Comparison::AtLeast, limit),
            (b'>', None) => (Comparison::Greater, rest),
            (_, Some(limit)) => (Comparison::AtMost, limit),
            (_, None) => (Comparison::Less, rest),
        };
        if metric.is_empty() {
            bail!("{text:?} names no metric: {FORM}");
        }
        let limit = limit.trim().parse().map_err(|error: Error| error.context(format!("in {text:?}")))?;
        Ok(Self { text: text.trim().to_owned(), metric: metric.to_owned(), comparison, limit })
    }
}

impl FromStr for Limit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || anyhow!("{text:?} is no limit: {FORM}");
        let split =
            text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let quantity = match unit {
            "%" => return Ok(Self::Change(number / 100.0)),
            "" => Quantity::Number(number),
            "ns" => Quantity::Ns(number),
            "us" | "µs" => Quantity::Ns(number * 1e3),
            "ms" => Quantity::Ns(number * 1e6),
            "s" => Quantity::Ns(number * 1e9),
            _ => return Err(wrong()),
        };
        let signed = text.starts_with(['+', '-']);
        Ok(if signed { Self::Difference(quantity) } else { Self::Newer(quantity) })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Condition {
    /// Judges the diff. A change that is noise fails nothing; one of which the results cannot tell whether it
    /// is noise goes by its figures.
    ///
    /// # Errors
    /// When the diff has no such metric, or one of another unit.
    pub fn judge(&self, diff: &Diff) -> Result<Judgement> {
        let row = diff.rows.iter().find(|row| row.metric == self.metric).with_context(|| {
            format!("there is no metric {:?} in both results: {}", self.metric, names(diff))
        })?;
        let holds = match self.limit {
            Limit::Change(limit) => {
                // From nothing to something is more than any percentage.
                self.comparison.holds(row.change.unwrap_or(f64::INFINITY), limit)
            }
            Limit::Difference(limit) => self.comparison.holds(row.new - row.old, self.quantity(limit, row)?),
            Limit::Newer(limit) => self.comparison.holds(row.new, self.quantity(limit, row)?),
        };
        let noise = !matches!(self.limit, Limit::Newer(_)) && row.significant == Some(false);
        let change = row.change.map_or_else(|| "from nothing".to_owned(), percentage);
        let word = if noise && row.change != Some(0.0) { ", within the noise" } else { "" };
        let found = format!(
            "{} → {}, {change}{word} ({})",
            row.unit.show(row.old),
            row.unit.show(row.new),
            row.because
        );
        // A limit that no change at all would break is meant as it is.
        let failed = holds && (!noise || row.change == Some(0.0));
        Ok(Judgement { condition: self.text.clone(), failed, found })
    }

    fn quantity(&self, quantity: Quantity, row: &Row) -> Result<f64> {
        match (quantity, row.unit) {
            (Quantity::Ns(ns), Unit::Ns) => Ok(ns),
            (Quantity::Number(number), Unit::Count | Unit::PerOp | Unit::Share) => Ok(number),
            (Quantity::Number(_), Unit::Ns) => {
                bail!("in {:?}: {} is a time; write 5ms or +10%", self.text, row.metric)
            }
            (Quantity::Ns(_), _) => {
                bail!("in {:?}: {} is no time; write 1000 or +10%", self.text, row.metric)
            }
        }
    }
}

/// A change as people read it: `+4.62 %`.
pub fn percentage(change: f64) -> String {
    format!("{:+.2} %", change * 100.0)
}

/// The first names, as there may be hundreds.
fn names(diff: &Diff) -> String {
    const FEW: usize = 30;
    let names: Vec<&str> = diff.rows.iter().take(FEW).map(|row| row.metric.as_str()).collect();
    let more = diff.rows.len().saturating_sub(FEW);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("there are {}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(unit: Unit, old: f64, new: f64, significant: Option<bool>) -> Diff {
        let change = if old == new { Some(0.0) } else { (old > 0.0).then(|| (new - old) / old) };
        let row =
            Row { metric: "p99".to_owned(), unit, old, new, change, significant, because: String::new() };
        Diff {
            schema: super::super::SCHEMA,
            old: String::new(),
            new: String::new(),
            warnings: Vec::new(),
            rows: vec![row],
            only_old: Vec::new(),
            only_new: Vec::new(),
        }
    }

    fn failed(condition: &str, diff: &Diff) -> bool {
        condition.parse::<Condition>().unwrap().judge(diff).unwrap().failed
    }

    #[test]
    fn a_condition_is_on_the_change_the_difference_or_the_newer_figure() {
        let slower = diff(Unit::Ns, 1_000.0, 1_200.0, Some(true));
        for (condition, expected) in [
            ("p99 > +10%", true),
            ("p99>10%", true),
            ("p99 > +20%", false),
            ("p99 >= +20 %", true),
            ("p99 < -10%", false),
            ("p99 <= +50%", true),
            ("p99 > 1.1us", true),
            ("p99 > 1200ns", false),
            ("p99 > 1ms", false),
            ("p99 > +100ns", true),
            ("p99 > +0.3µs", false),
            ("p99 < 2s", true),
        ] {
            assert_eq!(failed(condition, &slower), expected, "{condition}");
        }
    }

    #[test]
    fn noise_fails_nothing_and_what_cannot_be_told_goes_by_its_figures() {
        assert!(!failed("p99 > +10%", &diff(Unit::Ns, 1_000.0, 1_200.0, Some(false))));
        assert!(failed("p99 > +10%", &diff(Unit::Ns, 1_000.0, 1_200.0, None)));
        assert!(failed("p99 > 1us", &diff(Unit::Ns, 1_000.0, 1_200.0, Some(false))), "an absolute limit");
        assert!(!failed("p99 > +0%", &diff(Unit::Ns, 1_000.0, 1_000.0, Some(false))));
        assert!(failed("p99 > +10%", &diff(Unit::Count, 0.0, 1.0, None)), "from nothing");
        assert!(failed("p99 > 0", &diff(Unit::Count, 0.0, 1.0, None)));
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_to_write() {
        for text in
            ["", "p99", "> 5%", "p99 >", "p99 > x", "p99 > 5 bananas", "p99 > --5%", "p99 > 5%%", "p99 == 5"]
        {
            let error = format!("{:#}", text.parse::<Condition>().unwrap_err());
            assert!(error.contains("write METRIC"), "{text}: {error}");
        }
        let time = diff(Unit::Ns, 1.0, 2.0, None);
        let refused = |text: &str| text.parse::<Condition>().unwrap().judge(&time).unwrap_err().to_string();
        assert!(refused("p98 > 5%").contains("there are p99"), "{}", refused("p98 > 5%"));
        assert!(refused("p99 > 5").contains("p99 is a time"), "{}", refused("p99 > 5"));
    }

    #[test]
    fn a_name_may_have_brackets() {
        let condition: Condition = "Mutex<u8>::LOCK.blocked.p99 > +5%".parse().unwrap();
        assert_eq!(condition.metric, "Mutex<u8>::LOCK.blocked.p99");
    }
}
