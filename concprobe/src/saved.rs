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
    observation::{self, Latencies, Observation, trace::Trace},
    reproduce::{self, Reproduction},
};

pub use merge::merge;

/// No result is greater, bytes.
const LARGEST: u64 = 256 << 20;
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
    /// An interval log of HdrHistogram: names and histograms.
    Log(Vec<(String, Histogram<u64>)>),
}

#[derive(Deserialize)]
struct Head {
    schema: String,
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
    understand(&bytes).with_context(|| format!("{} is no result that can be shown", path.display()))
}

fn understand(bytes: &[u8]) -> Result<Saved> {
    if bytes.first().is_some_and(|byte| matches!(byte, b'#' | b'"' | b'T')) {
        return log::read(bytes).map(Saved::Log);
    }
    let head: Head = json(bytes)?;
    match head.schema.as_str() {
        observation::SCHEMA => json(bytes).map(|run| Saved::Run(Box::new(run))),
        SWEEP_SCHEMA => json::<Sweep>(bytes).map(|sweep| Saved::Sweep(sweep.sweep)),
        reproduce::SCHEMA => json(bytes).map(|reproduction| Saved::Reproduction(Box::new(reproduction))),
        observation::trace::SCHEMA => json(bytes).map(|trace| Saved::Trace(Box::new(trace))),
        other => bail!(
            "its schema is {other:?}; this program reads {:?}, {:?}, {:?} and {:?}",
            observation::SCHEMA,
            SWEEP_SCHEMA,
            reproduce::SCHEMA,
            observation::trace::SCHEMA
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
    let Some(text) = &latencies.histogram else { return Ok(None) };
    if text.len() > LONGEST_HISTOGRAM {
        bail!("the histogram of {of} is longer than any");
    }
    tally::decode(text).with_context(|| format!("the histogram of {of} cannot be decoded")).map(Some)
}

impl Saved {
    /// Every histogram of nanoseconds, by name.
    ///
    /// # Errors
    /// When one cannot be decoded.
    pub fn histograms(&self) -> Result<Vec<(String, Histogram<u64>)>> {
        let mut found = Vec::new();
        let mut add = |name: String, latencies: &Latencies| -> Result<()> {
            found.extend(histogram(&name, latencies)?.map(|histogram| (name, histogram)));
            Ok(())
        };
        match self {
            Self::Run(run) => of_run("", run, &mut add)?,
            Self::Sweep(runs) => {
                for (index, run) in runs.iter().enumerate() {
                    of_run(&format!("{}.", index + 1), run, &mut add)?;
                }
            }
            Self::Reproduction(reproduction) => {
                for set in &reproduction.sets {
                    for (name, run) in &set.observations {
                        of_run(&format!("{:?}.{name}.", set.name), run, &mut add)?;
                    }
                }
            }
            Self::Trace(trace) => {
                for lock in &trace.locks {
                    add(format!("{}.blocked", lock.name), &lock.sleeps.blocked)?;
                    add(format!("{}.run_queue", lock.name), &lock.sleeps.run_queue)?;
                }
                for sleep in &trace.sleeps {
                    add(format!("{}.{}.blocked", sleep.call, sleep.host_pid), &sleep.sleeps.blocked)?;
                }
            }
            Self::Log(histograms) => return Ok(histograms.clone()),
        }
        Ok(found)
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
        format!("{:#}", understand(bytes).unwrap_err())
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
