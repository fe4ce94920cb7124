//! concprobe's own result. What a depth cannot know is `null` there, and not judged.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Answer, Count, Output, file};

const COUNTS: [(Count, &str); 8] = [
    (Count::Sleeps, "/counts/voluntary_switches"),
    (Count::Preemptions, "/counts/involuntary_switches"),
    (Count::FutexSlept, "/counts/futex_wait_slept"),
    (Count::FutexWaits, "/counts/futex_waits"),
    (Count::FutexWakes, "/counts/futex_wakes"),
    (Count::FutexAgain, "/counts/futex_wait_again"),
    (Count::Threads, "/counts/threads_created"),
    (Count::Processes, "/counts/processes_created"),
];

/// Reads `-o FILE`.
pub(in super::super) fn answer(output: &Output<'_>) -> Result<Answer> {
    let result = serde_json::from_str(&file(output)?).context("concprobe wrote no JSON")?;
    read(&result, output.program)
}

fn read(result: &Value, program: &str) -> Result<Answer> {
    let number = |pointer| result.pointer(pointer).and_then(Value::as_u64);
    let mut counts: Vec<_> =
        COUNTS.iter().filter_map(|&(count, pointer)| Some((count, number(pointer)?))).collect();
    if program == "getppid" {
        // There the sum of all calls is as good as the count of one.
        counts.extend(number("/counts/syscalls").map(|calls| (Count::Getppid, calls)));
    }
    let lost = Some(number("/lost").context("the result has no /lost")?);
    let note = number("/stack_copies/taken").map(|taken| {
        let lost = number("/stack_copies/lost").map_or("?".to_owned(), |lost| lost.to_string());
        format!("{taken} stacks, {lost} lost")
    });
    Ok(Answer { counts, lost, note, everyone: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_depth_cannot_know_is_left_out() {
        let result = serde_json::json!({
            "counts": { "voluntary_switches": 9, "futex_waits": null, "threads_created": 0, "syscalls": 7 },
            "lost": 3, "stack_copies": { "taken": 262, "lost": 1 },
        });
        let answer = read(&result, "storm").unwrap();
        assert_eq!(answer.counts, [(Count::Sleeps, 9), (Count::Threads, 0)]);
        assert_eq!((answer.lost, answer.note.as_deref()), (Some(3), Some("262 stacks, 1 lost")));
        assert_eq!(read(&result, "getppid").unwrap().counts.last(), Some(&(Count::Getppid, 7)));
    }

    #[test]
    fn a_result_that_does_not_tell_its_losses_is_no_answer() {
        assert!(read(&serde_json::json!({ "counts": {} }), "storm").is_err());
    }
}
