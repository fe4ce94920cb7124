//! Tables for other programs: CSV and Markdown; and stacks for flame graphs.

use anyhow::{Context as _, Result};

use crate::{
    observation::trace::{Sleeps, Trace},
    saved::tables::Table,
};

/// As comma-separated values (RFC 4180), with a header.
///
/// # Errors
/// Never for tables of this program, whose rows are as long as the header.
pub fn csv(table: &Table) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&table.header)?;
    for row in &table.rows {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().context("cannot write a table")?;
    String::from_utf8(bytes).context("a table is text")
}

/// As a table of Markdown.
pub fn markdown(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .map(|cell| cell.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " "))
            .collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", "---|".repeat(table.header.len()));
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    line(&table.header) + &rule + &rows
}

/// A line for each stack of a look: its frames, the outermost first, and the blocked microseconds that it
/// stands for, as the tools that draw flame graphs read it.
pub fn folded(trace: &Trace) -> String {
    let mut text = String::new();
    let mut add = |place: &str, sleeps: &Sleeps| {
        for waiter in &sleeps.waiters {
            let microseconds = (waiter.share * sleeps.blocked_ns() as f64 / 1e3).round();
            let frames = waiter.frames.iter().rev().map(|frame| plain(frame)).collect::<Vec<_>>().join(";");
            text.push_str(&format!("{frames};[{}] {microseconds:.0}\n", plain(place)));
        }
    };
    for lock in &trace.locks {
        add(&lock.name, &lock.sleeps);
    }
    for sleep in &trace.sleeps {
        add(&sleep.call, &sleep.sleeps);
    }
    text
}

/// Without what separates frames and lines, and without where it is in the source.
fn plain(frame: &str) -> String {
    let frame = frame.split(" at ").next().unwrap_or(frame);
    frame.chars().map(|letter| if letter == ';' || letter.is_control() { '_' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_what_separates_them() {
        let table = Table {
            header: vec!["name".to_owned(), "calls".to_owned()],
            rows: vec![vec!["a,\"b\"|\n".to_owned(), "1".to_owned()]],
        };
        assert_eq!(csv(&table).unwrap(), "name,calls\n\"a,\"\"b\"\"|\n\",1\n");
        assert_eq!(markdown(&table), "| name | calls |\n|---|---|\n| a,\"b\"\\|  | 1 |\n");
    }
}
