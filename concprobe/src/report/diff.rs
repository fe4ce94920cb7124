//! A diff, for people and for a CI job's page.

use super::{
    tables::markdown,
    text::{Page, Style, wrapped},
};
use crate::{
    diff::{Diff, Judgement, Row, percentage},
    saved::tables::Table,
};

/// Names that are listed of figures that one side has not.
const NAMES: usize = 12;

const HEADER: [&str; 5] = ["metric", "old", "new", "change", "confidence"];

/// The screen.
pub fn diff(diff: &Diff, judgements: &[Judgement], style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    page.line(&format!("old: {}", diff.old));
    page.line(&format!("new: {}", diff.new));
    for warning in &diff.warnings {
        for (index, line) in wrapped(warning, 100).into_iter().enumerate() {
            page.line(&format!("  {} {line}", if index == 0 { "!" } else { " " }));
        }
    }
    page.line("");
    page.table(&HEADER, shown(diff));
    page.line("  ~: not told from noise");
    for (side, names) in [("old", &diff.only_old), ("new", &diff.only_new)] {
        if !names.is_empty() {
            page.line(&format!("  only in {side}: {}", few(names)));
        }
    }
    if !judgements.is_empty() {
        page.heading("Conditions");
        for judgement in judgements {
            page.line(&format!("  {} {}: {}", word(judgement), judgement.condition, judgement.found));
        }
    }
    page.text
}

/// The same as Markdown.
pub fn diff_markdown(diff: &Diff, judgements: &[Judgement]) -> String {
    let header = HEADER.map(str::to_owned).to_vec();
    let mut text = format!("old: {}; new: {}\n\n", one_line(&diff.old), one_line(&diff.new));
    for warning in &diff.warnings {
        text.push_str(&format!("- ⚠ {}\n", one_line(warning)));
    }
    if !diff.warnings.is_empty() {
        text.push('\n');
    }
    text.push_str(&markdown(&Table { header, rows: shown(diff) }));
    if !judgements.is_empty() {
        text.push('\n');
    }
    for judgement in judgements {
        let sentence = format!("`{}`: {}", judgement.condition, judgement.found);
        text.push_str(&format!("- **{}** {}\n", word(judgement), one_line(&sentence)));
    }
    text
}

fn word(judgement: &Judgement) -> &'static str {
    if judgement.failed { "FAILED" } else { "passed" }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn few(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.iter().take(NAMES).map(String::as_str).collect::<Vec<_>>().join(", ") + &more
}

/// The rows but those of nothing in both, as long as that is no good news.
fn shown(diff: &Diff) -> Vec<Vec<String>> {
    let says_something = |row: &&Row| row.old != 0.0 || row.new != 0.0 || row.metric == "lost";
    diff.rows.iter().filter(says_something).map(cells).collect()
}

fn cells(row: &Row) -> Vec<String> {
    let change = match (row.significant, row.change) {
        (Some(false), _) => "~".to_owned(),
        (_, Some(change)) => percentage(change),
        (_, None) => "from nothing".to_owned(),
    };
    vec![row.metric.clone(), row.unit.show(row.old), row.unit.show(row.new), change, row.because.clone()]
}
