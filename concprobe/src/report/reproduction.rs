//! The published tables beside those of this machine, and what holds.

use comfy_table::{Table, presets};

use super::text::{Page, Style, wrapped};
use crate::reproduce::{Claim, Reproduction, Set};

/// The whole screen: the judgement in one line, then a table and the claims of each set.
pub fn reproduction(reproduction: &Reproduction, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    let count = |holds: Option<bool>| reproduction.claims().filter(|claim| claim.holds == holds).count();
    let mut summary = format!(
        "{} claims hold, {} are refuted, {} cannot be told here",
        count(Some(true)),
        count(Some(false)),
        count(None)
    );
    if let Some(signal) = reproduction.interrupted_by {
        summary.push_str(&format!(" — PARTIAL, interrupted by signal {signal}"));
    }
    page.line(&summary);
    for set in &reproduction.sets {
        one_set(&mut page, set);
    }
    page.text
}

fn one_set(page: &mut Page, set: &Set) {
    page.heading(set.name.title());
    if set.rows.is_empty() {
        let done = set.observations.len();
        page.line(&format!("  ended early, after {done} of its runs; they are in the JSON"));
        return;
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["measurement", "published", "here", "here/published"]);
    for row in &set.rows {
        let ratio = row.published_ps.zip(row.here_ps).map_or_else(String::new, |(published, here)| {
            format!("{:.2}", here as f64 / published.max(1) as f64)
        });
        table.add_row([&row.measurement, &row.published, &row.here, &ratio]);
    }
    if let Some(first) = table.column_mut(0) {
        first.set_padding((2, 1));
    }
    for line in table.lines() {
        page.line(line.trim_end());
    }
    page.line("");
    for claim in &set.claims {
        one_claim(page, claim);
    }
}

fn one_claim(page: &mut Page, claim: &Claim) {
    let mark = match claim.holds {
        Some(true) => "holds",
        Some(false) => "REFUTED",
        None => "cannot tell",
    };
    let text = format!("{}: {}", claim.claim, claim.evidence);
    for (index, line) in wrapped(&text, 96).into_iter().enumerate() {
        page.line(&format!("  {:>11}  {line}", if index == 0 { mark } else { "" }));
    }
}
