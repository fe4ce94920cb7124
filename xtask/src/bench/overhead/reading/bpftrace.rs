//! bpftrace's maps, one JSON object a line. Its keys begin with the name of a process, so others are told apart.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use super::{Answer, Count, Output};

const MAPS: [(&str, Count); 3] =
    [("@futex_ns", Count::FutexCalls), ("@off_cpu_ns", Count::Sleeps), ("@forks", Count::Forks)];

/// Reads all maps that the scripts have.
pub(in super::super) fn answer(output: &Output<'_>) -> Result<Answer> {
    read(&output.printed, &output.complaints, output.program)
}

fn read(printed: &str, complaints: &str, program: &str) -> Result<Answer> {
    let mut answer = Answer { lost: Some(lost_in_words(complaints)), ..Answer::default() };
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let object: Value = serde_json::from_str(line).context("bpftrace printed no JSON")?;
        if object["type"] == "lost_events" {
            answer.lost = answer.lost.map(|lost| lost + object["data"]["events"].as_u64().unwrap_or(0));
        }
        for (name, count) in MAPS {
            if let Some(map) = object["data"].get(name) {
                answer.counts.push((count, map.as_object().map_or(0, |map| events_of(map, program))));
            }
        }
    }
    Ok(answer)
}

/// A map's keys are `comm` or `comm,tid`.
fn events_of(map: &Map<String, Value>, program: &str) -> u64 {
    let is_its = |key: &str| key.split(',').next() == Some(program);
    map.iter().filter(|(key, _)| is_its(key)).map(|(_, value)| events(value)).sum()
}

/// A value is a count, the object of `stats()`, or the buckets of `hist()`.
fn events(value: &Value) -> u64 {
    let buckets = value.as_array().into_iter().flatten().map(events);
    value.as_u64().or_else(|| value["count"].as_u64()).unwrap_or_else(|| buckets.sum())
}

/// `Lost 12 events`, on whatever line.
fn lost_in_words(complaints: &str) -> u64 {
    let numbers = complaints.lines().filter_map(|line| line.trim().strip_prefix("Lost ")?.split(' ').next());
    numbers.filter_map(|number| number.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_statistics_and_counts_are_summed_by_name() {
        let printed = r#"
{"type": "attached_probes", "data": {"probes": 4}}
{"type": "printf", "data": "attached\n"}

{"type": "hist", "data": {"@futex_ns": {"cat": [{"min": 2048, "max": 4095, "count": 1}], "storm": [{"min": 1, "max": 2, "count": 3}, {"min": 2, "max": 4, "count": 4}]}}}
{"type": "stats", "data": {"@off_cpu_ns": {"storm,7": {"count": 5, "average": 2, "total": 10}, "storm,8": {"count": 6, "average": 1, "total": 6}, "stormy,9": {"count": 9, "average": 1, "total": 9}}}}
{"type": "map", "data": {"@forks": {"sh,1": 41, "storm,7": 64}}}
{"type": "lost_events", "data": {"events": 12}}
"#;
        let answer = read(printed, "WARNING: x\nLost 3 events\n", "storm").unwrap();
        assert_eq!(answer.counts, [(Count::FutexCalls, 7), (Count::Sleeps, 11), (Count::Forks, 64)]);
        assert_eq!(answer.lost, Some(15));
    }
}
