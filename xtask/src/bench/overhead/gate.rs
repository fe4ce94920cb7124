//! What each depth of `concprobe trace` may cost, and whether it holds here.
//!
//! A ratio depends on what a bare op costs on the machine: where system calls and switches are cheap, the same added
//! nanoseconds are a greater part. So a gate also holds if the added time is what the ratio allowed on the machine
//! where the gates were measured.

use serde::Serialize;

use super::program::{PROGRAMS, Program};
use super::summary::Summary;

/// The limits of one depth, as ratios, in the order of [`PROGRAMS`].
struct Limits {
    tool: &'static str,
    ratios: [f64; PROGRAMS.len()],
    /// Whether nothing may be lost; a stack that could not be copied is told, and breaks no sum.
    lossless: bool,
}

static LIMITS: [Limits; 3] = [
    Limits { tool: "switches", ratios: [1.12, 1.15, 1.03, 1.03, 1.10], lossless: true },
    Limits { tool: "calls", ratios: [1.30, 1.30, 1.40, 1.25, 1.15], lossless: true },
    Limits { tool: "stacks", ratios: [1.25, 1.35, 1.03, 1.03, 1.15], lossless: false },
];

/// One gate with what was measured.
#[derive(Debug, Serialize)]
pub(super) struct Gate {
    pub(super) tool: &'static str,
    pub(super) program: &'static str,
    pub(super) ratio_limit: f64,
    pub(super) ratio: Option<f64>,
    pub(super) added_ns_limit: f64,
    pub(super) added_ns: Option<f64>,
    pub(super) verdict: Verdict,
    /// Why the answer itself does not pass, whatever it cost.
    pub(super) objection: Option<String>,
}

/// How a gate's cost is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    HeldAsRatio,
    HeldInNanoseconds,
    NotHeld,
    NotMeasured,
}

impl Gate {
    /// The gate of this tool and program; `None` if there is none.
    pub(super) fn judge(program: &Program, summary: &Summary) -> Option<Self> {
        let limits = LIMITS.iter().find(|limits| limits.tool == summary.tool)?;
        let ratio_limit = limits.ratios[PROGRAMS.iter().position(|other| other.name == program.name)?];
        let added_ns_limit = (ratio_limit - 1.0) * program.reference_ns;
        let ratio = summary.ratio.map(|ratio| ratio.median);
        let added_ns = summary.added_ns.map(|added| added.median);
        Some(Self {
            tool: limits.tool,
            program: program.name,
            ratio_limit,
            ratio,
            added_ns_limit,
            added_ns,
            verdict: verdict(ratio.zip(added_ns), ratio_limit, added_ns_limit),
            objection: objection(summary, limits.lossless),
        })
    }

    pub(super) fn passes(&self) -> bool {
        let held = matches!(self.verdict, Verdict::HeldAsRatio | Verdict::HeldInNanoseconds);
        held && self.objection.is_none()
    }
}

fn verdict(measured: Option<(f64, f64)>, ratio_limit: f64, added_ns_limit: f64) -> Verdict {
    match measured {
        None => Verdict::NotMeasured,
        Some((ratio, _)) if ratio <= ratio_limit => Verdict::HeldAsRatio,
        Some((_, added_ns)) if added_ns <= added_ns_limit => Verdict::HeldInNanoseconds,
        Some(_) => Verdict::NotHeld,
    }
}

fn objection(summary: &Summary, lossless: bool) -> Option<String> {
    match summary.lost {
        Some(lost) if lossless && lost > 0 => Some(format!("{lost} events lost")),
        _ if !summary.is_right() => Some("the answer is wrong".to_owned()),
        _ if summary.failed > 0 => Some(format!("{} runs failed", summary.failed)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::{self, Count};
    use super::*;
    use crate::bench::statistics::Spread;

    fn summary(tool: &'static str, ratio: f64, added_ns: f64) -> Summary {
        let spread = |value| Spread::of(&[value]);
        Summary {
            tool,
            ns_per_op: spread(1_000.0),
            ratio: spread(ratio),
            added_ns: spread(added_ns),
            lost: Some(0),
            worst: vec![(Count::Sleeps, 0.0)],
            note: None,
            failed: 0,
            first_failure: None,
        }
    }

    fn judge(program: &str, summary: &Summary) -> Gate {
        Gate::judge(program::find(program).unwrap(), summary).unwrap()
    }

    #[test]
    fn the_limits_are_those_of_the_gates_in_both_units() {
        let gate = judge("pp_one", &summary("switches", 1.12, 600.0));
        assert!((gate.added_ns_limit - 504.0).abs() < 1e-6);
        assert_eq!((gate.verdict, gate.passes()), (Verdict::HeldAsRatio, true));
        let gate = judge("nosleep", &summary("calls", 2.0, 285.0));
        assert!((gate.added_ns_limit - 0.4 * 1e3 / 1.4).abs() < 1e-6);
        assert_eq!((gate.verdict, gate.passes()), (Verdict::HeldInNanoseconds, true));
    }

    #[test]
    fn a_gate_that_holds_neither_way_does_not_pass() {
        let gate = judge("spawn", &summary("stacks", 1.16, 7_351.0));
        assert_eq!((gate.verdict, gate.passes()), (Verdict::NotHeld, false));
        let missing = Summary { ratio: None, added_ns: None, ..summary("stacks", 1.0, 0.0) };
        assert_eq!(judge("spawn", &missing).verdict, Verdict::NotMeasured);
        assert!(!judge("spawn", &missing).passes());
    }

    #[test]
    fn a_loss_or_a_wrong_answer_does_not_pass_at_any_price() {
        let lossy = |tool| Summary { lost: Some(3), ..summary(tool, 1.0, 0.0) };
        assert_eq!(judge("storm", &lossy("calls")).objection.as_deref(), Some("3 events lost"));
        assert!(judge("storm", &lossy("stacks")).passes());
        let wrong = Summary { worst: vec![(Count::Sleeps, -0.5)], ..summary("switches", 1.0, 0.0) };
        assert!(!judge("storm", &wrong).passes());
    }

    #[test]
    fn peers_have_no_gates() {
        assert!(Gate::judge(&PROGRAMS[0], &summary("strace", 6.0, 9e3)).is_none());
    }
}
