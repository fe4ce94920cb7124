//! A whole result as JSON.

use anyhow::{Context as _, Result};

use serde::Serialize;

/// One JSON value and a line feed.
///
/// # Errors
/// When a figure cannot be written as JSON; that would be a defect.
pub fn json(observation: &impl Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(observation).context("cannot write the result as JSON")?;
    text.push('\n');
    Ok(text)
}
