//! The table of workloads, for people and for the documentation.

use std::fmt::Write as _;

use crate::harness::{Entry, Kind, Parameter};

/// The table of workloads.
pub fn list(entries: &[&Entry]) -> String {
    let mut text = String::new();
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    for entry in entries {
        let _ = writeln!(text, "{:width$}  {}", entry.name, entry.summary);
        let _ = writeln!(text, "{:width$}  an op: {}", "", entry.op);
        let _ = writeln!(text, "{:width$}  claim: {}", "", entry.claim.sentence());
        if let Some(reason) = entry.unavailable {
            let _ = writeln!(text, "{:width$}  not available: {reason}", "");
        }
        for parameter in entry.parameters {
            let (typed, help) = (typed(parameter), parameter.help);
            let _ = writeln!(text, "{:width$}  {typed}: {help} (default {})", "", parameter.default);
        }
    }
    text
}

/// An option as one types it: `--slots N`.
fn typed(parameter: &Parameter) -> String {
    let value = match parameter.kind {
        Kind::Choice(words) => words.join("|"),
        Kind::Count(..) => "N".to_owned(),
        Kind::Duration => "T".to_owned(),
    };
    format!("--{} {value}", parameter.name)
}

/// The same as a table in Markdown, as it stands in `docs/workloads.md`.
pub fn list_markdown(entries: &[&Entry]) -> String {
    let mut text = String::from(
        "# Workloads\n\nWritten by `concprobe list --markdown`; a test compares.\n\n\
         | workload | shows | an op | claim | parameters |\n|---|---|---|---|---|\n",
    );
    for entry in entries {
        let parameters: Vec<String> = entry
            .parameters
            .iter()
            .map(|parameter| {
                let default = parameter.default;
                format!("`{}` ({default}): {}", typed(parameter).replace('|', "\\|"), parameter.help)
            })
            .collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            entry.name,
            entry.summary,
            entry.op,
            entry.claim.sentence(),
            parameters.join("; ")
        );
    }
    text
}
