//! `bench`: measurements of concprobe itself. Everything that is compared alternates within one run, and
//! comes out as a ratio with its spread, since machines are noisy.

mod accuracy;
mod c_program;
mod concprobe;
mod depths;
mod footprint;
mod overhead;
mod same;
mod statistics;

use anyhow::Result;

use concprobe::Concprobe;

/// What to measure.
#[derive(clap::Subcommand)]
pub(crate) enum Subject {
    /// ns per op of sem-fast against a plain C loop of the same calls: within 10 %
    Accuracy,
    /// What each depth of looking costs, against a run without kernel programs
    Depths,
    /// Time from start to first op, and peak memory: under 150 ms and 32 MiB
    Footprint,
    /// What `concprobe trace` costs a program, beside other tracers, and whether the gates hold
    Overhead(overhead::Options),
    /// How often `concprobe compare` calls equals different: at most 5 % (takes no --pairs)
    Same(same::Options),
}

/// Measures `subject` in `pairs` alternating runs.
pub(crate) fn bench(subject: &Subject, pairs: usize) -> Result<()> {
    match subject {
        Subject::Accuracy => accuracy::accuracy(&Concprobe::build()?, pairs),
        Subject::Depths => depths::depths(&Concprobe::build()?, pairs),
        Subject::Footprint => footprint::footprint(&Concprobe::build()?, pairs),
        Subject::Same(options) => same::same(&Concprobe::build()?, *options),
        Subject::Overhead(options) => overhead::overhead(options, pairs),
    }
}
