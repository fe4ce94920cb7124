//! `bench depths`: what each depth of looking adds to an op of concprobe's own workloads.

use anyhow::Result;

use super::concprobe::{Concprobe, figure};
use super::statistics::summarise;

/// Prints, per workload and depth, the ratio to a run without kernel programs.
pub(super) fn depths(concprobe: &Concprobe, pairs: usize) -> Result<()> {
    let looks = ["--depth switches", "--depth calls"];
    for workload in ["sem-pingpong --pin 0 --ops 100000", "thread-create --ops 4000 --pin 0", "sem-fast"] {
        let mut ratios = looks.map(|_| Vec::new());
        for _ in 0..pairs {
            let per_op = |look: &str| -> Result<f64> {
                let result = concprobe.result(&format!("{workload} {look} --repeat 1"))?;
                figure(&result, "/repetitions/0/per_op_ps")
            };
            let bare = per_op("--no-bpf")?;
            for (look, ratios) in looks.iter().zip(&mut ratios) {
                ratios.push(per_op(look)? / bare);
            }
        }
        for (look, ratios) in looks.iter().zip(&ratios) {
            summarise(&format!("{workload} {look} / --no-bpf"), ratios)?;
        }
    }
    Ok(())
}
