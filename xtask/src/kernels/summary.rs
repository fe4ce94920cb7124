//! What the runs under the kernels came to, from the closing lines that the test harness prints.

use std::fmt::Write as _;
use std::time::Duration;

use super::series::Series;

/// Tests that ended one way or the other.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Tally {
    passed: u64,
    failed: u64,
}

/// One row of the summary.
pub(super) struct Outcome {
    pub(super) kernel: String,
    pub(super) required: bool,
    /// The tests, and whether the run as a whole ended well; `None` when there was no such kernel.
    pub(super) result: Option<(Tally, bool)>,
    pub(super) time: Duration,
}

impl Tally {
    /// Adds what a closing line like `test result: ok. 3 passed; 0 failed; …` says; others say nothing.
    pub(super) fn add(&mut self, line: &str) {
        // The kernel may have printed something of its own at the start of the line.
        let Some((_, counts)) = line.split_once("test result: ") else { return };
        self.passed += count_before(counts, " passed");
        self.failed += count_before(counts, " failed");
    }
}

/// The number that stands right before `word`.
fn count_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl Outcome {
    pub(super) fn unavailable(series: &Series<'_>) -> Self {
        let kernel = series.name.to_owned();
        Self { kernel, required: series.required, result: None, time: Duration::ZERO }
    }

    /// A run without a single test that passed counts as failed: it has shown nothing.
    pub(super) fn fails(&self) -> bool {
        match &self.result {
            Some((tally, ended_well)) => !ended_well || tally.failed > 0 || tally.passed == 0,
            None => self.required,
        }
    }
}

/// The summary, one line a kernel.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let mut table = format!("\n{:32} {:>7} {:>7} {:>8}\n", "kernel", "passed", "failed", "seconds");
    for outcome in outcomes {
        let row = match &outcome.result {
            None if outcome.required => format!("{:32} could not be had", outcome.kernel),
            None => format!("{:32} could not be had (best effort)", outcome.kernel),
            Some((tally, _)) => format!(
                "{:32} {:>7} {:>7} {:>8.1}{}",
                outcome.kernel,
                tally.passed,
                tally.failed,
                outcome.time.as_secs_f64(),
                if outcome.fails() { "  FAILED" } else { "" }
            ),
        };
        let _ = writeln!(table, "{row}");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(passed: u64, failed: u64, ended_well: bool) -> Outcome {
        let result = Some((Tally { passed, failed }, ended_well));
        Outcome { kernel: "6.1.0".into(), required: true, result, time: Duration::from_millis(12_340) }
    }

    #[test]
    fn closing_lines_add_up_and_others_do_not_count() {
        let mut tally = Tally::default();
        tally.add("test counts_are_exact ... ok");
        tally.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out");
        tally.add("[    3.1] noise test result: FAILED. 4 passed; 2 failed; 0 ignored");
        assert_eq!(tally, Tally { passed: 16, failed: 2 });
    }

    #[test]
    fn a_run_fails_on_a_failed_test_a_bad_end_or_no_test_at_all() {
        assert!(!outcome(3, 0, true).fails());
        assert!(outcome(3, 1, true).fails());
        assert!(outcome(3, 0, false).fails());
        assert!(outcome(0, 0, true).fails());
    }

    #[test]
    fn only_a_required_kernel_must_be_had() {
        let series = |required| Series { name: "5.10", required, suites: &[] };
        assert!(Outcome::unavailable(&series(true)).fails());
        assert!(!Outcome::unavailable(&series(false)).fails());
    }

    #[test]
    fn the_table_has_a_row_for_every_kernel() {
        let best_effort = Series { name: "5.10", required: false, suites: &[] };
        let table = table(&[outcome(3, 1, false), Outcome::unavailable(&best_effort)]);
        assert_eq!(
            table,
            "\nkernel                            passed  failed  seconds\n\
             6.1.0                                  3       1     12.3  FAILED\n\
             5.10                             could not be had (best effort)\n"
        );
    }
}
