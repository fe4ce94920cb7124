//! The result for people: a table for each program, then the gates.

use super::gate::{Gate, Verdict};
use super::program::Prepared;
use super::summary::Summary;
use super::tool::{Tool, UNTRACED};

/// One program under all tools.
pub(super) fn print_program(prepared: &Prepared, summaries: &[Summary]) {
    let program = prepared.program;
    println!("\n{}: {}, {} ops a run", program.name, program.op, prepared.ops);
    if let Some(bare) =
        summaries.iter().find(|summary| summary.tool == UNTRACED).and_then(|one| one.ns_per_op)
    {
        println!("untraced: {:.0} ns/op ({:.0}–{:.0}, n = {})", bare.median, bare.least, bare.most, bare.n);
    }
    println!("{:18}{:>8}  {:15}{:>12}{:>11}  answer", "tool", "ratio", "min–max", "added ns/op", "lost");
    for summary in summaries.iter().filter(|summary| summary.tool != UNTRACED) {
        println!("{}", row(summary));
    }
}

fn row(summary: &Summary) -> String {
    let ratio = summary.ratio.map_or("n/a".to_owned(), |ratio| format!("{:.3}", ratio.median));
    let spread = summary.ratio.map_or(String::new(), |ratio| format!("{:.3}–{:.3}", ratio.least, ratio.most));
    let added = summary.added_ns.map_or("n/a".to_owned(), |added| format!("{:.0}", added.median));
    let lost = summary.lost.map_or("-".to_owned(), |lost| lost.to_string());
    format!("{:18}{ratio:>8}  {spread:15}{added:>12}{lost:>11}  {}", summary.tool, summary.answer())
}

/// Tools that would have been compared.
pub(super) fn print_missing(missing: &[(&Tool, String)]) {
    if !missing.is_empty() {
        println!();
    }
    for (tool, reason) in missing {
        println!("{:18}{reason}", tool.name);
    }
}

/// All gates, those that fail too.
pub(super) fn print_gates(gates: &[Gate]) {
    if gates.is_empty() {
        return;
    }
    println!("\ngates (held as a ratio, or in what the ratio allowed where an op costs what it did there)");
    println!(
        "{:10}{:10}{:>8}{:>9}{:>13}{:>13}  verdict",
        "depth", "program", "limit", "ratio", "limit ns/op", "added ns/op"
    );
    for gate in gates {
        println!("{}", gate_row(gate));
    }
}

fn gate_row(gate: &Gate) -> String {
    let number =
        |value: Option<f64>, digits| value.map_or("n/a".to_owned(), |value| format!("{value:.digits$}"));
    let verdict = match gate.verdict {
        Verdict::HeldAsRatio => "held",
        Verdict::HeldInNanoseconds => "held in ns, not as a ratio",
        Verdict::NotHeld => "NOT HELD",
        Verdict::NotMeasured => "NOT MEASURED",
    };
    let objection =
        gate.objection.as_ref().map_or(String::new(), |objection| format!("; NOT PASSED: {objection}"));
    format!(
        "{:10}{:10}{:>8.2}{:>9}{:>13.0}{:>13}  {verdict}{objection}",
        gate.tool,
        gate.program,
        gate.ratio_limit,
        number(gate.ratio, 3),
        gate.added_ns_limit,
        number(gate.added_ns, 0),
    )
}

#[cfg(test)]
mod tests {
    use super::super::program::Count;
    use super::*;
    use crate::bench::statistics::Spread;

    #[test]
    fn a_row_tells_cost_loss_and_quality() {
        let summary = Summary {
            tool: "perf-trace",
            ns_per_op: None,
            ratio: Spread::of(&[1.8, 1.84, 2.0]),
            added_ns: Spread::of(&[2_710.4]),
            lost: Some(79_003),
            worst: vec![(Count::FutexCalls, -0.81), (Count::Threads, 0.0)],
            note: None,
            failed: 0,
            first_failure: None,
        };
        let expected = "perf-trace           1.840  1.800–2.000            2710      79003  futex calls low by 81 %; right: threads";
        assert_eq!(row(&summary), expected);
    }

    #[test]
    fn what_was_not_measured_is_not_zero() {
        let gate = Gate {
            tool: "calls",
            program: "storm",
            ratio_limit: 1.3,
            ratio: None,
            added_ns_limit: 967.7,
            added_ns: None,
            verdict: Verdict::NotMeasured,
            objection: Some("11 runs failed".to_owned()),
        };
        let expected = "calls     storm         1.30      n/a          968          n/a  NOT MEASURED; NOT PASSED: 11 runs failed";
        assert_eq!(gate_row(&gate), expected);
    }
}
