//! `strace -c`: a table of system calls, exact or nothing.

use anyhow::Result;

use super::{Answer, Count, Output, counted_by_call, file, summed};

const ALL: [Count; 4] = [Count::FutexCalls, Count::Getppid, Count::Threads, Count::Processes];

/// Reads the table.
pub(in super::super) fn answer(output: &Output<'_>) -> Result<Answer> {
    Ok(Answer { counts: counts(&file(output)?), lost: Some(0), ..Answer::default() })
}

/// Rows are `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn counts(table: &str) -> Vec<(Count, u64)> {
    let seen = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((counted_by_call(words.last()?)?, words.get(3)?.parse().ok()?))
    });
    summed(&ALL, seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_and_without_errors() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 99.42    2.946050         129     22676     11192 futex
  0.06    0.000980          15        64           clone3
  0.00    0.000004           2         2           getrusage
------ ----------- ----------- --------- --------- ----------------
100.00    2.963143         127     23165     11193 total
";
        let expected =
            [(Count::FutexCalls, 22676), (Count::Getppid, 0), (Count::Threads, 64), (Count::Processes, 0)];
        assert_eq!(counts(table), expected);
    }
}
