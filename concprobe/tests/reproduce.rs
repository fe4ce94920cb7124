//! The published measurements end to end. Claims that counts and states decide must hold; those that times
//! decide must be judged, whichever way, since a test asserts no time.

mod support;

use serde_json::Value;
use support::{concprobe, output, parse, stderr};

/// Claims that do not depend on how fast anything is.
const DETERMINED: &[&str] = &[
    "the fast path never enters the kernel",
    "a sleeping hand-off is one futex wait, one futex wake and one voluntary switch",
    "an asynchronous call makes one thread each",
    "get() is a blocking point that sleeps: no CPU is used",
    "a deferred future runs on the caller and creates no thread",
    "a future on a shared pool creates no thread",
    "a task on a user-space scheduler creates no thread",
    "a blocking read waits asleep",
    "busy-polling takes a whole core",
    "epoll keeps the sleep",
    "epoll serves thousands of descriptors from one thread",
    "there is a third state, D, which signals do not end",
    "the states are S, R and D",
];

fn reproduce(name: &str) -> Value {
    let output = output(&mut concprobe(&format!("reproduce {name} --json")));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {}", stderr(&output));
    let reproduction = parse(&output);
    let sets = reproduction["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 1, "{name}");
    assert_eq!(sets[0]["name"], name);
    let refuted = sets[0]["claims"].as_array().unwrap().iter().any(|claim| claim["holds"] == false);
    assert_eq!(output.status.code(), Some(i32::from(refuted)), "the status says whether a claim is refuted");
    sets[0].clone()
}

fn assert_shape(name: &str, rows: usize, determined: usize) -> Value {
    let set = reproduce(name);
    assert_eq!(set["rows"].as_array().unwrap().len(), rows, "{name}");
    let mut held = 0;
    for claim in set["claims"].as_array().unwrap() {
        let words = claim["claim"].as_str().unwrap();
        assert!(!claim["evidence"].as_str().unwrap().is_empty(), "{words}");
        if DETERMINED.contains(&words) {
            assert_eq!(claim["holds"], true, "{claim}");
            held += 1;
        }
    }
    assert_eq!(held, determined, "{name}: {}", set["claims"]);
    set
}

#[test]
fn m1_the_semaphore() {
    let _alone = support::alone();
    let set = assert_shape("M1", 7, 2);
    let row = &set["rows"][0];
    assert_eq!(row["published_ps"], 1_800, "a figure below the nanosecond is not rounded: {row}");
}

#[test]
fn m2_the_pool() {
    let _alone = support::alone();
    assert_shape("M2", 9, 0);
}

#[test]
fn m3_futures() {
    let _alone = support::alone();
    assert_shape("M3", 9, 5);
}

#[test]
fn m4_waiting() {
    let _alone = support::alone();
    assert_shape("M4", 5, 6);
}

#[test]
fn m5_false_sharing() {
    let _alone = support::alone();
    assert_shape("M5", 5, 0);
}

#[test]
fn a_set_that_does_not_exist_is_refused() {
    let output = output(&mut concprobe("reproduce M6"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("invalid value 'M6'"), "{}", stderr(&output));
}
