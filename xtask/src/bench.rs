//! `bench`: measurements of concprobe itself. Everything that is compared alternates within one run, and
//! comes out as a ratio with its spread, since machines are noisy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command::{capture, run};
use crate::workspace;

/// What to measure.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Subject {
    /// ns per op of sem-fast against a plain C loop of the same calls: within 10 %
    Accuracy,
    /// What each depth of looking costs, against a run without kernel programs
    Depths,
    /// Time from start to first op, and peak memory: under 150 ms and 32 MiB
    Footprint,
}

/// Measures `subject` in `pairs` alternating runs.
pub(crate) fn bench(subject: Subject, pairs: usize) -> Result<()> {
    run(workspace::cargo().args(["build", "--release", "--package", "concprobe"]))?;
    let concprobe = Concprobe(workspace::target_dir().join("release/concprobe"));
    match subject {
        Subject::Accuracy => accuracy(&concprobe, pairs),
        Subject::Depths => depths(&concprobe, pairs),
        Subject::Footprint => footprint(&concprobe, pairs),
    }
}

struct Concprobe(PathBuf);

impl Concprobe {
    /// The JSON result of `concprobe run` with these arguments.
    fn result(&self, arguments: &str) -> Result<Value> {
        let mut command = Command::new(&self.0);
        command.arg("run").args(arguments.split_whitespace()).arg("--json");
        let output = command.stderr(std::process::Stdio::null()).output().context("cannot run concprobe")?;
        if !output.status.success() {
            bail!("`concprobe run {arguments}` failed: {}; try it by hand", output.status);
        }
        serde_json::from_slice(&output.stdout).context("concprobe printed no JSON")
    }
}

fn figure(result: &Value, pointer: &str) -> Result<f64> {
    result.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("the result has no {pointer}"))
}

fn accuracy(concprobe: &Concprobe, pairs: usize) -> Result<()> {
    let plain = compile_plain_loop()?;
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
    let median = summarise("concprobe / plain C", &mut ratios);
    if (median - 1.0).abs() > 0.1 {
        bail!("the figures differ by more than 10 %");
    }
    Ok(())
}

fn compile_plain_loop() -> Result<PathBuf> {
    let source = workspace::root().join("xtask/bench/sem_fast.c");
    let folder = workspace::target_dir().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let program = folder.join("sem_fast");
    let arguments: [&Path; 4] = [Path::new("-O2"), Path::new("-o"), &program, &source];
    run(Command::new("cc").args(arguments).arg("-pthread"))?;
    Ok(program)
}

fn depths(concprobe: &Concprobe, pairs: usize) -> Result<()> {
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
        for (look, ratios) in looks.iter().zip(&mut ratios) {
            summarise(&format!("{workload} {look} / --no-bpf"), ratios);
        }
    }
    Ok(())
}

fn footprint(concprobe: &Concprobe, runs: usize) -> Result<()> {
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
    for ((name, _, _), values) in figures.iter().zip(&mut values) {
        summarise(name, values);
    }
    Ok(())
}

/// Prints minimum, median and maximum; returns the median.
fn summarise(name: &str, values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    let (least, most) =
        (values.first().copied().unwrap_or(f64::NAN), values.last().copied().unwrap_or(f64::NAN));
    println!("{name}: median {median:.3} (min {least:.3}, max {most:.3}, n = {})", values.len());
    median
}
