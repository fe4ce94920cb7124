//! `bench accuracy`: is an op of sem-fast as long as the same calls in a plain loop?

use std::process::Command;

use anyhow::{Result, bail};

use super::c_program;
use super::concprobe::{Concprobe, figure};
use super::statistics::summarise;
use crate::command::capture;

/// Fails if the figures differ by more than 10 %.
pub(super) fn accuracy(concprobe: &Concprobe, pairs: usize) -> Result<()> {
    let plain = c_program::compile("sem_fast")?;
    let mut ratios = Vec::new();
    println!("{:>14} {:>14} {:>7}", "concprobe ns", "plain C ns", "ratio");
    for _ in 0..pairs {
        let result = concprobe.result("sem-fast")?;
        let ours = figure(&result, "/batches/min_ps")?;
        let (batch, batches) = (figure(&result, "/batches/ops")?, figure(&result, "/batches/undisturbed")?);
        let arguments = [batch.to_string(), batches.to_string()];
        let theirs: f64 = capture(Command::new(&plain).args(arguments))?.trim().parse()?;
        println!("{:14.2} {:14.2} {:7.3}", ours / 1e3, theirs / 1e3, ours / theirs);
        ratios.push(ours / theirs);
    }
    let median = summarise("concprobe / plain C", &ratios)?;
    if (median - 1.0).abs() > 0.1 {
        bail!("the figures differ by more than 10 %");
    }
    Ok(())
}
