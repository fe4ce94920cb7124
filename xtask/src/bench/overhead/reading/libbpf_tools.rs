//! syscount, cpudist and offcputime of libbpf-tools. None tells whether it lost anything but stacks.

use anyhow::{Context as _, Result};

use super::{Answer, Count, Output, counted_by_call, summed};

/// `syscount -L`: calls of the whole system, by name.
#[expect(clippy::unnecessary_wraps, reason = "it has the type of the readers that can fail")]
pub(in super::super) fn syscount(output: &Output<'_>) -> Result<Answer> {
    let seen = output.printed.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((counted_by_call(words.next()?)?, words.next()?.parse().ok()?))
    });
    let counts = summed(&[Count::FutexCalls, Count::Getppid], seen);
    let note = Some("whole system".to_owned());
    Ok(Answer { counts, lost: None, note, everyone: true })
}

/// `cpudist -O -L`: a histogram of the times off the CPU for each thread.
pub(in super::super) fn cpudist(output: &Output<'_>) -> Result<Answer> {
    let switches = switches_of(&output.printed, output.program, output.pid)?;
    Ok(Answer { counts: vec![(Count::Switches, switches)], ..Answer::default() })
}

/// Sums the rows `from -> to : count |***|` below the headings `tid = N name` of this name, or of the first
/// thread, which goes by the name that it had before exec.
fn switches_of(printed: &str, program: &str, pid: Option<u32>) -> Result<u64> {
    let (mut its, mut sum) = (false, 0);
    for line in printed.lines().map(str::trim) {
        if let Some(heading) = line.strip_prefix("tid = ") {
            let (tid, name) = heading.split_once(' ').unwrap_or((heading, ""));
            its = name.trim() == program || (pid.is_some() && tid.parse().ok() == pid);
        } else if its && line.contains(" -> ") {
            let count = line.split(':').nth(1).and_then(|rest| rest.split_whitespace().next());
            sum += count.and_then(|count| count.parse::<u64>().ok()).context("a bucket without a count")?;
        }
    }
    Ok(sum)
}

/// `offcputime`: times by stack, no counts.
#[expect(clippy::unnecessary_wraps, reason = "it has the type of the readers that can fail")]
pub(in super::super) fn offcputime(output: &Output<'_>) -> Result<Answer> {
    let missed = |text: &str| text.lines().filter(|line| line.contains("[Missed ")).count();
    let missed = missed(&output.printed) + missed(&output.complaints);
    Ok(Answer { note: Some(format!("times only; {missed} stacks missed")), ..Answer::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output<'a>(printed: &str, complaints: &str) -> Output<'a> {
        let (printed, complaints) = (printed.to_owned(), complaints.to_owned());
        Output { program: "storm", pid: Some(19_400), printed, complaints, file: std::path::Path::new("") }
    }

    #[test]
    fn calls_are_read_by_name() {
        let printed = "Tracing syscalls, printing top 1000... Ctrl+C to quit.\n[04:15:14]\n\
                       SYSCALL                   COUNT        TIME (us)\nfutex  388753  59727972.517\n";
        let answer = syscount(&output(printed, "")).unwrap();
        assert_eq!(answer.counts, [(Count::FutexCalls, 388_753), (Count::Getppid, 0)]);
        assert!(answer.everyone);
    }

    #[test]
    fn histograms_of_the_programs_threads_are_summed() {
        let printed = "\
Tracing off-CPU time... Hit Ctrl-C to end.

tid = 19500 storm
     usecs               : count    distribution
         0 -> 1          : 79       |*                                       |
         2 -> 3          : 9        |                                        |

tid = 19238 lto cgu.2.rcgu.
     usecs               : count    distribution
         0 -> 1          : 5        |                                        |

tid = 19466 storm
     usecs               : count    distribution
         2 -> 3          : 2        |                                        |

tid = 19400 xtask
     usecs               : count    distribution
         2 -> 3          : 100      |                                        |
";
        assert_eq!(cpudist(&output(printed, "")).unwrap().counts, [(Count::Switches, 190)]);
    }

    #[test]
    fn missed_stacks_are_counted_wherever_they_are_told() {
        let answer =
            offcputime(&output("a\n    [Missed User Stack]\n", "    [Missed User Stack]\n")).unwrap();
        assert_eq!(answer.note.as_deref(), Some("times only; 2 stacks missed"));
        assert_eq!(answer.lost, None);
    }
}
