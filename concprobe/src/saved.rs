//! Results read back from files: which kind each is by its schema, and refused with the place when it is none.
//! Files are the user's and may be cut off, edited or hostile.

pub mod log;
mod merge;
pub mod tables;

use std::{fs::File, io::Read as _, path::Path};

use anyhow::{Context as _, Result, bail};
use hdrhistogram::Histogram;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    harness::tally,
    observation::{self, Latencies, Observation, compare::Comparison, trace::Trace},
    reproduce::{self, Reproduction},
};

pub use merge::merge;

/// No result is greater, bytes.
const LARGEST: u64 = 256 << 20;
/// No result has more values.
const MOST_VALUES: usize = 16_000_000;
/// No histogram's text is longer: one of this program's is 3 KiB as a rule, 150 KiB at most.
const LONGEST_HISTOGRAM: usize = 1 << 20;

/// Version of the format of a saved sweep.
pub const SWEEP_SCHEMA: &str = "concprobe-sweep/1";

/// A result of any kind.
#[derive(Debug)]
pub enum Saved {
    /// Of `run`.
    Run(Box<Observation>),
    /// Of `run` with a list of values.
    Sweep(Vec<Observation>),
    /// Of `reproduce`.
    Reproduction(Box<Reproduction>),
    /// Of `trace` or `attach`.
    Trace(Box<Trace>),
    /// Of `compare`.
    Comparison(Box<Comparison>),
    /// An interval log of HdrHistogram: names and histograms.
    Log(Vec<(String, Histogram<u64>)>),
}

#[derive(Deserialize)]
struct Head {
    schema: String,
    #[serde(default)]
    concprobe: Option<String>,
}

#[derive(Deserialize)]
struct Sweep {
    sweep: Vec<Observation>,
}

/// Reads a result.
///
/// # Errors
/// What is wrong with the file, and where.
pub fn read(path: &Path) -> Result<Saved> {
    let of_file = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(of_file)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).with_context(of_file)?;
    if bytes.len() as u64 > LARGEST {
        bail!("{} is greater than {} MiB, which no result is", path.display(), LARGEST >> 20);
    }
    parse(&bytes).with_context(|| format!("{} is no result of concprobe", path.display()))
}

/// Understands what a file holds.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse(bytes: &[u8]) -> Result<Saved> {
    if bytes.first().is_some_and(|byte| matches!(byte, b'#' | b'"' | b'T' | b'0'..=b'9')) {
        return log::read(bytes).map(Saved::Log);
    }
    // A comma stands between two values, and each takes more memory than in the file.
    if bytes.iter().filter(|byte| **byte == b',').count() > MOST_VALUES {
        bail!("it has more than {MOST_VALUES} values, which no result has");
    }
    let head: Head = json(bytes)?;
    match head.schema.as_str() {
        observation::SCHEMA => json(bytes).map(|run| Saved::Run(Box::new(run))),
        SWEEP_SCHEMA => json::<Sweep>(bytes).map(|sweep| Saved::Sweep(sweep.sweep)),
        reproduce::SCHEMA => json(bytes).map(|reproduction| Saved::Reproduction(Box::new(reproduction))),
        observation::trace::SCHEMA => json(bytes).map(|trace| Saved::Trace(Box::new(trace))),
        observation::compare::SCHEMA => json(bytes).map(|found| Saved::Comparison(Box::new(found))),
        other => bail!(
            "its schema is {other:?}{}; this program (concprobe {}) reads {:?}, {:?}, {:?}, {:?} and {:?}",
            head.concprobe.map_or_else(String::new, |version| format!(", written by concprobe {version}")),
            env!("CARGO_PKG_VERSION"),
            observation::SCHEMA,
            SWEEP_SCHEMA,
            reproduce::SCHEMA,
            observation::trace::SCHEMA,
            observation::compare::SCHEMA
        ),
    }
}

/// The message of the library names line and column.
fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).context("its JSON is not in order")
}

/// The histogram of some latencies, if there is one.
///
/// # Errors
/// When it cannot be decoded.
pub fn histogram(of: &str, latencies: &Latencies) -> Result<Option<Histogram<u64>>> {
    latencies.histogram.as_ref().map(|text| decoded(of, text)).transpose()
}

/// A histogram out of its text.
///
/// # Errors
/// When it cannot be decoded.
pub fn decoded(of: &str, text: &str) -> Result<Histogram<u64>> {
    let of = if of.is_empty() { "all ops" } else { of };
    if text.len() > LONGEST_HISTOGRAM {
        bail!("the histogram of {of} is longer than any");
    }
    tally::decode(text).with_context(|| format!("the histogram of {of} cannot be decoded"))
}

impl Saved {
    /// What it is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Run(_) => "the result of a run",
            Self::Sweep(_) => "a sweep",
            Self::Reproduction(_) => "a reproduction",
            Self::Trace(_) => "a look at a program",
            Self::Comparison(_) => "a comparison",
            Self::Log(_) => "an interval log",
        }
    }

    /// Shows every histogram of nanoseconds with its name, one after the other: together they may be large.
    ///
    /// # Errors
    /// When one cannot be decoded, or what `show` says.
    pub fn each_histogram(&self, show: &mut dyn FnMut(&str, Histogram<u64>) -> Result<()>) -> Result<()> {
        let mut add = |name: String, latencies: &Latencies| -> Result<()> {
            histogram(&name, latencies)?.map_or(Ok(()), |histogram| show(&name, histogram))
        };
        match self {
            Self::Run(run) => of_run("", run, &mut add),
            Self::Sweep(runs) => {
                let parameter = swept_parameter(runs);
                runs.iter().enumerate().try_for_each(|(index, run)| {
                    let value =
                        run.parameters.get(&parameter).map_or_else(|| index.to_string(), Clone::clone);
                    of_run(&format!("{parameter}={value}."), run, &mut add)
                })
            }
            Self::Reproduction(reproduction) => reproduction.sets.iter().try_for_each(|set| {
                let prefix = |name: &String| format!("{:?}.{name}.", set.name);
                set.observations.iter().try_for_each(|(name, run)| of_run(&prefix(name), run, &mut add))
            }),
            Self::Trace(trace) => {
                for lock in &trace.locks {
                    add(format!("{}.blocked", lock.name), &lock.sleeps.blocked)?;
                    add(format!("{}.run_queue", lock.name), &lock.sleeps.run_queue)?;
                }
                for sleep in &trace.sleeps {
                    let name = format!("{}.{}", sleep.call, sleep.host_pid);
                    add(format!("{name}.blocked"), &sleep.sleeps.blocked)?;
                    add(format!("{name}.run_queue"), &sleep.sleeps.run_queue)?;
                }
                add("creation".to_owned(), &trace.creation.latency)
            }
            Self::Comparison(_) => bail!("a comparison has no histograms"),
            Self::Log(histograms) => {
                histograms.iter().try_for_each(|(name, histogram)| show(name, histogram.clone()))
            }
        }
    }

    /// For how long was measured; 0 when not known.
    pub fn wall_ns(&self) -> u64 {
        let sum = |mut runs: &mut dyn Iterator<Item = &Observation>| {
            (&mut runs).fold(0_u64, |sum, run| sum.saturating_add(run.wall_ns))
        };
        match self {
            Self::Run(run) => run.wall_ns,
            Self::Sweep(runs) => sum(&mut runs.iter()),
            Self::Reproduction(reproduction) => {
                sum(&mut reproduction.sets.iter().flat_map(|set| set.observations.values()))
            }
            Self::Trace(trace) => trace.wall_ns,
            Self::Comparison(_) | Self::Log(_) => 0,
        }
    }

    /// Seconds since 1970 at the start of the measurement, 0 when not known.
    pub fn started_at(&self) -> u64 {
        match self {
            Self::Run(run) => run.started_at,
            Self::Sweep(runs) => runs.first().map_or(0, |run| run.started_at),
            Self::Reproduction(reproduction) => reproduction
                .sets
                .iter()
                .flat_map(|set| set.observations.values())
                .map(|run| run.started_at)
                .min()
                .unwrap_or(0),
            Self::Trace(trace) => trace.started_at,
            Self::Comparison(comparison) => comparison.started_at,
            Self::Log(_) => 0,
        }
    }
}

fn of_run(
    prefix: &str,
    run: &Observation,
    add: &mut impl FnMut(String, &Latencies) -> Result<()>,
) -> Result<()> {
    for (class, latencies) in run.classes.measured() {
        add(format!("{prefix}{class}"), latencies)?;
    }
    run.latency.iter().try_for_each(|latencies| add(format!("{prefix}all"), latencies))
}

/// The parameter in which the runs of a sweep differ: the size of the crew may only follow from it.
pub fn swept_parameter(runs: &[Observation]) -> String {
    let [first, second, ..] = runs else { return String::new() };
    let differs = |(name, value): &(&String, &String)| second.parameters.get(*name) != Some(*value);
    let names = first.parameters.iter().filter(differs).map(|(name, _)| name.clone());
    names.max_by_key(|name| name != "threads").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        format!("{:#}", parse(bytes).unwrap_err())
    }

    #[test]
    fn what_is_no_result_is_refused_with_the_place() {
        assert!(refused(b"").contains("EOF"), "{}", refused(b""));
        assert!(refused(b"{\"schema\":\"concprobe/1\",").contains("line 1 column 24"));
        assert!(refused(b"{\"schema\":\"concprobe/99\"}").contains("its schema is \"concprobe/99\""));
        assert!(refused(b"{\"schema\":\"concprobe/1\"}").contains("missing field"));
        assert!(refused(b"{}").contains("missing field `schema`"));
        let deep = [b"{\"schema\":\"concprobe/1\",\"x\":".as_slice(), &[b'['; 100_000]].concat();
        assert!(refused(&deep).contains("EOF while parsing a list at line 1"), "{}", refused(&deep));
        assert!(refused(b"\x7fELF").contains("line 1"));
    }

    #[test]
    fn a_hostile_histogram_is_an_error_and_takes_no_memory() {
        for text in ["!", "AAAA", "HISTFAAAACR4nJNpmSzMwMDAzAABMJqRgYHZzWDH", &"A".repeat(2 << 20)] {
            let latencies = Latencies { histogram: Some(text.to_owned()), ..Latencies::default() };
            assert!(histogram("fast", &latencies).is_err());
        }
        assert!(histogram("fast", &Latencies::default()).unwrap().is_none());
    }
}
