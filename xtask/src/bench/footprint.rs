//! `bench footprint`: how long concprobe takes to start, and how much memory.

use anyhow::Result;

use super::concprobe::{Concprobe, figure};
use super::statistics::summarise;

/// Prints start-up time and peak memory over `runs` runs.
pub(super) fn footprint(concprobe: &Concprobe, runs: usize) -> Result<()> {
    let figures = [
        ("start to first op, ms", "/footprint/start_to_first_op_ns", 1e6),
        ("peak memory of the driver, MiB", "/footprint/driver_peak_bytes", 1_048_576.0),
        ("peak memory of the workload, MiB", "/footprint/workload_peak_bytes", 1_048_576.0),
    ];
    let mut values = figures.map(|_| Vec::new());
    for _ in 0..runs {
        let result = concprobe.result("sem-fast --ops 1000000")?;
        for ((_, pointer, unit), values) in figures.iter().zip(&mut values) {
            values.push(figure(&result, pointer)? / unit);
        }
    }
    for ((name, _, _), values) in figures.iter().zip(&values) {
        summarise(name, values)?;
    }
    Ok(())
}
