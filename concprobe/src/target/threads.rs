//! The threads of a running process, of which some may come and go while they are counted.

use anyhow::{Context as _, Result};

use super::stat::Stat;

/// How often the list is read at most until it is the same twice in a row.
const READS: u32 = 100;

/// A thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub tid: i32,
    /// The name that it gave itself, at most 15 bytes.
    pub name: String,
    /// What it does, as in ps(1): `R` running or runnable, `S` sleeping, `D` uninterruptible, …
    pub state: char,
    /// Clock ticks (`sysconf(_SC_CLK_TCK)` a second) from the machine's start to its own.
    pub start_ticks: u64,
}

/// Read until two reads in a row found the same threads; where that does not happen, the newest.
pub(super) fn list(pid: i32) -> Result<Vec<Thread>> {
    let mut threads = read(pid)?;
    for _ in 0..READS {
        let again = read(pid)?;
        let same = identities(&threads).eq(identities(&again));
        threads = again;
        if same {
            break;
        }
    }
    Ok(threads)
}

fn identities(threads: &[Thread]) -> impl Iterator<Item = (i32, u64)> {
    threads.iter().map(|thread| (thread.tid, thread.start_ticks))
}

/// In ascending order of their ids; without those that have ended and only wait to be noticed.
fn read(pid: i32) -> Result<Vec<Thread>> {
    let folder = format!("/proc/{pid}/task");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
    let thread = |tid: i32| {
        // A thread may have ended since the folder was read.
        let stat = Stat::read(&format!("{pid}/task/{tid}")).ok().filter(|stat| !stat.has_ended())?;
        Some(Thread { tid, name: stat.name, state: stat.state, start_ticks: stat.start_ticks })
    };
    let mut threads: Vec<Thread> =
        entries.filter_map(|entry| thread(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect();
    threads.sort_unstable_by_key(|thread| thread.tid);
    Ok(threads)
}
