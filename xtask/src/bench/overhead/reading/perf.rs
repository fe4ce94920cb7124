//! perf: a summary of calls, totals, or a recording that is read by `perf script`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::{Answer, Count, Output, counted_by_call, file, summed};

/// `perf trace -s`: a table for each thread, and a line for each batch of lost events. Its `clone3` is no count of
/// threads: the call returns in the child too, and is counted there again.
pub(in super::super) fn trace(output: &Output<'_>) -> Result<Answer> {
    let text = file(output)? + &output.complaints;
    let all = [Count::FutexCalls, Count::Getppid];
    let lost = text.lines().filter_map(lost_while_tracing).sum();
    Ok(Answer { counts: summed(&all, text.lines().filter_map(row)), lost: Some(lost), ..Answer::default() })
}

/// A row is `syscall calls errors total min avg max stddev%`.
fn row(line: &str) -> Option<(Count, u64)> {
    let mut words = line.split_whitespace();
    Some((counted_by_call(words.next()?)?, words.next()?.parse().ok()?))
}

fn lost_while_tracing(line: &str) -> Option<u64> {
    line.trim().strip_prefix("LOST ")?.strip_suffix(" events!")?.parse().ok()
}

/// `perf stat -x,`: totals, counted in the kernel.
pub(in super::super) fn stat(output: &Output<'_>) -> Result<Answer> {
    let text = file(output)?;
    let counts = vec![
        (Count::Switches, total(&text, "sched:sched_switch")?),
        (Count::FutexCalls, total(&text, "syscalls:sys_enter_futex")?),
    ];
    Ok(Answer { counts, lost: Some(0), ..Answer::default() })
}

/// A line is `value,unit,event,…`.
fn total(text: &str, event: &str) -> Result<u64> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.get(2) == Some(&event)).with_context(|| format!("no {event}"))?;
    fields[0].parse().with_context(|| format!("{event}: {}", fields[0]))
}

/// `perf record` and `perf sched record`: every event, less those that were lost.
pub(in super::super) fn recorded(output: &Output<'_>) -> Result<Answer> {
    let mut command = Command::new("perf");
    command.args(["script", "-F", "comm,event", "--show-lost-events", "-i"]).arg(output.file);
    let mut script =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("cannot run `perf script`")?;
    let mut recording = Recording::default();
    for line in BufReader::new(script.stdout.take().context("no pipe")?).lines() {
        recording.add(&line.context("cannot read from `perf script`")?, output.program);
    }
    let status = script.wait()?;
    if !status.success() {
        bail!("`perf script` failed: {status}");
    }
    Ok(recording.answer())
}

/// What the lines of `perf script` add up to.
#[derive(Default)]
struct Recording {
    /// Of the program, by event.
    events: BTreeMap<String, u64>,
    /// Of whatever kind.
    lost: u64,
}

impl Recording {
    /// A line is `comm event:` or `comm PERF_RECORD_LOST lost N`; a name may hold spaces.
    fn add(&mut self, line: &str, program: &str) {
        if let Some((_, lost)) = line.split_once("PERF_RECORD_LOST lost ") {
            self.lost += lost.trim().parse().unwrap_or(0);
            return;
        }
        let Some((name, event)) = line.trim().rsplit_once(char::is_whitespace) else { return };
        if name.trim() == program {
            *self.events.entry(event.trim_end_matches(':').to_owned()).or_default() += 1;
        }
    }

    fn answer(&self) -> Answer {
        let seen = |event: &str| self.events.get(event).copied();
        // `perf sched` records no futex calls, and not every program makes some: then there is nothing to compare.
        let counts = [
            Some((Count::Switches, seen("sched:sched_switch").unwrap_or(0))),
            seen("syscalls:sys_enter_futex").map(|calls| (Count::FutexCalls, calls)),
            seen("sched:sched_process_fork").map(|forks| (Count::Forks, forks)),
        ];
        Answer { counts: counts.into_iter().flatten().collect(), lost: Some(self.lost), ..Answer::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_many_threads_are_summed() {
        let text = "\
LOST 79003 events!
 Summary of events:

 storm (17677), 1054 events, 0.2%

   syscall            calls  errors  total       min       avg       max       stddev
   --------------- --------  ------ -------- --------- --------- ---------     ------
   futex                108      2  5339.603     0.019    49.441  1657.642     42.56%
   futex                  7      0     0.603     0.019     0.441     1.642     42.56%
   clone3                64      0     4.937     0.065     0.077     0.169      3.19%
";
        let seen: Vec<_> = text.lines().filter_map(row).collect();
        assert_eq!(seen, [(Count::FutexCalls, 108), (Count::FutexCalls, 7), (Count::Threads, 64)]);
        assert_eq!(text.lines().filter_map(lost_while_tracing).sum::<u64>(), 79003);
    }

    #[test]
    fn totals_are_read_and_what_was_not_counted_is_an_error() {
        let text =
            "# started\n\n204690,,sched:sched_switch,542475874,100.00,,\n<not counted>,,x:y,0,100.00,,\n";
        assert_eq!(total(text, "sched:sched_switch").unwrap(), 204_690);
        assert!(total(text, "x:y").unwrap_err().to_string().contains("<not counted>"));
        assert!(total(text, "z").is_err());
    }

    #[test]
    fn only_the_programs_events_count_and_all_losses_do() {
        let mut recording = Recording::default();
        for line in [
            "           storm       sched:sched_switch: ",
            "           storm sched:sched_process_fork: ",
            " lto cgu.2.rcgu.       sched:sched_switch: ",
            "            perf PERF_RECORD_LOST lost 1298",
            "           storm PERF_RECORD_LOST lost 2",
            "",
        ] {
            recording.add(line, "storm");
        }
        let answer = recording.answer();
        assert_eq!(answer.counts, [(Count::Switches, 1), (Count::Forks, 1)]);
        assert_eq!(answer.lost, Some(1300));
    }
}
