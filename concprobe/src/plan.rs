//! What was typed, resolved: every value checked and filled in, before anything is loaded or started.

use std::{path::PathBuf, time::Duration};

use crate::{
    harness::{Entry, Settings, protocol::Phase},
    observation::Depth,
    probe::Way,
};

/// A run, ready to be carried out.
#[derive(Debug)]
pub struct Plan {
    /// The workload.
    pub entry: &'static Entry,
    /// What it is built from.
    pub settings: Settings,
    /// How long it runs.
    pub length: Length,
    /// Into how many repetitions that is split.
    pub repeat: u64,
    /// How long it runs before anything counts.
    pub warmup: Duration,
    /// CPUs to pin the members to, in turn.
    pub pin: Option<Vec<usize>>,
    /// How deep to look; `None` for no kernel programs.
    pub depth: Option<Depth>,
    /// The way to attach, when forced.
    pub way: Option<Way>,
    /// Count calls by number.
    pub count_by_number: bool,
    /// How long the workload may do no op before it counts as hanging.
    pub patience: Duration,
    /// Where the whole result goes.
    pub output: Option<PathBuf>,
    /// The result as JSON on stdout, in place of the screen for people.
    pub json: bool,
    /// 1: more about concprobe itself; 2: the kernel programs' messages.
    pub verbose: u8,
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Ops in all.
    Ops(u64),
    /// Time in all.
    Time(Duration),
}

impl Plan {
    /// The measured repetitions. Their ops add up to what was asked for; none is empty.
    pub fn repetitions(&self) -> Vec<Phase> {
        match self.length {
            Length::Ops(ops) => (0..self.repeat)
                .map(|index| ops / self.repeat + u64::from(index < ops % self.repeat))
                .filter(|ops| *ops > 0)
                .map(|ops| Phase { ops: Some(ops), duration_ns: None, record: true })
                .collect(),
            Length::Time(time) => {
                let part = nanoseconds(time) / self.repeat.max(1);
                (0..self.repeat)
                    .map(|_| Phase { ops: None, duration_ns: Some(part.max(1)), record: true })
                    .collect()
            }
        }
    }

    /// The warm-up, if there is one.
    pub fn warmup(&self) -> Option<Phase> {
        let duration_ns = nanoseconds(self.warmup);
        (duration_ns > 0).then_some(Phase { ops: None, duration_ns: Some(duration_ns), record: false })
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn plan(length: Length, repeat: u64) -> Plan {
        Plan {
            entry: crate::workload::TABLE[0],
            settings: Settings { threads: 1, parameters: BTreeMap::new() },
            length,
            repeat,
            warmup: Duration::ZERO,
            pin: None,
            depth: None,
            way: None,
            count_by_number: false,
            patience: Duration::from_secs(20),
            output: None,
            json: false,
            verbose: 0,
        }
    }

    #[test]
    fn the_repetitions_share_the_ops_and_none_is_empty() {
        for (ops, repeat, count) in [(1_000, 5, 5), (3, 5, 3), (7, 3, 3), (1, 1, 1)] {
            let phases = plan(Length::Ops(ops), repeat).repetitions();
            assert_eq!(phases.len(), count);
            assert_eq!(phases.iter().filter_map(|phase| phase.ops).sum::<u64>(), ops);
        }
    }

    #[test]
    fn no_warm_up_is_no_phase() {
        assert_eq!(plan(Length::Ops(1), 1).warmup(), None);
    }
}
