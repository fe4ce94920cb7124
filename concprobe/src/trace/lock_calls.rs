//! Counts the calls of lock functions for a slice of the time: each call is trapped, which costs far more than
//! an uncontended lock, so it is done on request only, and what it cost is said.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use concprobe_common::{lock_calls::FUNCTIONS, site::FUTEX};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};

use crate::{
    observation::trace::LockCalls,
    probe::{Session, Set},
};

/// Calls of a function of our own that are trapped to find out what one costs, in each of a few rounds of
/// which the best counts.
const TRIALS: u32 = 500;
const ROUNDS: u32 = 5;

/// How far the slice is.
#[derive(Debug)]
enum Stage {
    /// The C library is not there yet.
    Waiting,
    Counting {
        until: Instant,
        since: Instant,
        slept_before: u64,
        calls_before: Vec<u64>,
        trap_ns: u64,
    },
    Done(LockCalls),
    Failed(String),
}

/// The slice.
#[derive(Debug)]
pub(super) struct Slice {
    length: Duration,
    stage: Stage,
}

impl Slice {
    /// A slice of that length, which begins as soon as the program has its C library.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, stage: Stage::Waiting }
    }

    /// Goes on; to be called from time to time.
    pub(super) fn go_on(&mut self, session: &mut Session, pid: i32) {
        match &self.stage {
            Stage::Waiting => {
                if let Some(library) = library(pid) {
                    self.stage = match begin(session, pid, &library, self.length) {
                        Ok(stage) => stage,
                        Err(error) => Stage::Failed(format!("{error:#}")),
                    };
                }
            }
            Stage::Counting { until, .. } if Instant::now() >= *until => self.end(session),
            _ => {}
        }
    }

    /// Ends the slice, if it was not over.
    pub(super) fn end(&mut self, session: &mut Session) {
        let Stage::Counting { since, slept_before, calls_before, trap_ns, .. } = &self.stage else { return };
        let slice_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let calls: BTreeMap<String, u64> = FUNCTIONS
            .iter()
            .zip(session.records().lock_calls().iter().zip(calls_before))
            .map(|(name, (calls, before))| ((*name).to_owned(), calls - before))
            .filter(|(_, calls)| *calls > 0)
            .collect();
        let all: u64 = calls.values().sum();
        let slept = slept(session) - slept_before;
        self.stage = Stage::Done(LockCalls { slice_ns, calls, slept, cost_ns: all * trap_ns });
        // It takes the kernel a while, in which calls are still trapped: what counts was read before.
        session.detach(Set::LockCalls);
    }

    /// What was counted, or why nothing was.
    pub(super) fn result(self) -> Result<LockCalls, String> {
        match self.stage {
            Stage::Done(calls) => Ok(calls),
            Stage::Failed(reason) => Err(reason),
            _ => Err("the program has no C library whose lock functions could be found".to_owned()),
        }
    }
}

fn begin(session: &mut Session, pid: i32, library: &Path, length: Duration) -> Result<Stage> {
    let places = places(library)?;
    let trap_ns = trap_ns(session)?;
    session.count_lock_calls(library, &places, pid.cast_unsigned())?;
    // One function after the other was trapped: the slice begins when all are.
    let calls_before = session.records().lock_calls();
    let slept_before = slept(session);
    let since = Instant::now();
    Ok(Stage::Counting { until: since + length, since, slept_before, calls_before, trap_ns })
}

/// Sleeps at futex words up to now.
fn slept(session: &Session) -> u64 {
    let at_words = session.records().sites().filter(|(_, site)| site.key.call == FUTEX);
    at_words.map(|(_, site)| site.blocked.count()).sum()
}

/// The file with the lock functions that a process has mapped, as this process can open it.
fn library(pid: i32) -> Option<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path = maps.lines().find_map(|line| {
        let path = line.get(line.find('/')?..)?;
        let name = path.rsplit('/').next()?;
        let found = name.starts_with("libc.so") || name.starts_with("libc-") || name.starts_with("ld-musl");
        (found && line.contains("r-xp")).then_some(path)
    })?;
    Some(PathBuf::from(format!("/proc/{pid}/root{path}")))
}

/// Numbers of the functions that the file exports, and where they begin in it.
fn places(library: &Path) -> Result<Vec<(usize, u64)>> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let file =
        object::File::parse(&*bytes).with_context(|| format!("cannot understand {}", library.display()))?;
    let mut places: Vec<(usize, u64)> = file
        .dynamic_symbols()
        .filter_map(|symbol| {
            let name = symbol.name().ok()?;
            let function = FUNCTIONS.iter().position(|function| *function == name)?;
            // An older version of a function may stand beside the one in use: both are trapped.
            let address = symbol.address();
            let segment = file
                .segments()
                .find(|segment| (segment.address()..segment.address() + segment.size()).contains(&address))?;
            (address != 0).then(|| (function, address - segment.address() + segment.file_range().0))
        })
        .collect();
    places.sort_unstable();
    places.dedup_by_key(|(_, offset)| *offset);
    if places.is_empty() {
        bail!("{} exports no lock functions", library.display());
    }
    Ok(places)
}

/// What one trap costs here, nanoseconds: calls of our own, with and without.
fn trap_ns(session: &mut Session) -> Result<u64> {
    let own = std::process::id();
    let library = library(own.cast_signed()).context("cannot find this program's own C library")?;
    let unlock = FUNCTIONS.iter().position(|function| *function == "pthread_mutex_unlock");
    let places: Vec<(usize, u64)> =
        places(&library)?.into_iter().filter(|(function, _)| Some(*function) == unlock).collect();
    let bare = time_unlocks();
    session.count_lock_calls(&library, &places, own)?;
    let trapped = time_unlocks();
    session.detach(Set::LockCalls);
    let ns = trapped.saturating_sub(bare).as_nanos() / u128::from(TRIALS);
    Ok(u64::try_from(ns).unwrap_or(u64::MAX))
}

fn time_unlocks() -> Duration {
    (0..ROUNDS).map(|_| time_round()).min().unwrap_or_default()
}

fn time_round() -> Duration {
    let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    let start = Instant::now();
    for _ in 0..TRIALS {
        // SAFETY: the mutex is initialised, and is this thread's alone.
        unsafe {
            libc::pthread_mutex_lock(&raw mut mutex);
            libc::pthread_mutex_unlock(&raw mut mutex);
        }
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_functions_of_this_program_s_own_c_library_are_found() {
        let library = library(std::process::id().cast_signed()).unwrap();
        let places = places(&library).unwrap();
        for function in ["pthread_mutex_lock", "sem_wait", "pthread_cond_wait"] {
            let number = FUNCTIONS.iter().position(|known| *known == function).unwrap();
            assert!(places.iter().any(|(found, _)| *found == number), "{function}");
        }
    }
}
