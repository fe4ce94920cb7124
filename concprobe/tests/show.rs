//! Saved results: shown again as they were printed, turned into what other tools read, merged, and refused when
//! they are none.

mod support;

use std::{
    fs,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
};

use concprobe::{
    diff, report,
    saved::{self, Saved, tables},
};
use serde_json::Value;
use support::{Folder, concprobe, output, program, stderr};

/// What concprobe printed, after it ended well.
fn printed(command: &mut Command) -> String {
    let output = output(command);
    assert_eq!(output.status.code(), Some(0), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Arguments with the option to save to that file, before a command if there is one.
fn saving(arguments: &str, file: &str) -> String {
    match arguments.find(" -- ").or_else(|| arguments.strip_suffix(" --").map(str::len)) {
        Some(at) => format!("{} -o {file}{}", &arguments[..at], &arguments[at..]),
        None => format!("{arguments} -o {file}"),
    }
}

fn show(arguments: &str) -> String {
    printed(&mut concprobe(&format!("show {arguments}")))
}

#[test]
fn what_was_saved_is_shown_as_it_was_printed() {
    let _alone = support::alone();
    let folder = Folder::new("show-again");
    let result = folder.file("result.json");
    for arguments in [
        "run sem-pingpong --ops 2000",
        "run pool --workers 1,2 --ops 500",
        "run sem-fast --no-bpf --ops 100000",
        "compare --runs 3 -- true true",
    ] {
        let screen = printed(&mut concprobe(&saving(arguments, &result)));
        assert_eq!(show(&result), screen, "{arguments}");
    }
    let screen = printed(concprobe(&format!("trace -o {result} --")).arg(program("libcwaits")));
    assert_eq!(show(&result), screen);
    let saved: Value = serde_json::from_str(&fs::read_to_string(&result).unwrap()).unwrap();
    let shown: Value = serde_json::from_str(&show(&format!("{result} --format json"))).unwrap();
    assert_eq!(saved, shown);
}

#[test]
fn tables_have_a_row_for_each_thread_whatever_its_name() {
    let _alone = support::alone();
    let folder = Folder::new("show-tables");
    let result = folder.file("result.json");
    printed(concprobe(&format!("trace -o {result} --")).arg(program("names")));
    let csv = show(&format!("{result} --format csv --table threads"));
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let columns = reader.headers().unwrap().len();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert!(rows.len() >= 8 && rows.iter().all(|row| row.len() == columns), "{csv}");
    assert!(!csv.contains('\x1b'), "nothing that a terminal obeys: {csv}");
    let markdown = show(&format!("{result} --format markdown --table threads"));
    assert_eq!(markdown.lines().count(), rows.len() + 2, "{markdown}");
    let refused = output(&mut concprobe(&format!("show {result} --format csv --table classes")));
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("has no table"), "{}", stderr(&refused));
}

#[test]
fn stacks_are_folded_with_the_time_that_they_stand_for() {
    let _alone = support::alone();
    let folder = Folder::new("show-folded");
    let result = folder.file("result.json");
    printed(concprobe(&format!("trace -o {result} --")).arg(program("libcwaits")));
    let folded = show(&format!("{result} --format folded"));
    let line = folded.lines().find(|line| line.contains("[m (libcwaits")).unwrap();
    let (stack, microseconds) = line.rsplit_once(' ').unwrap();
    assert!(stack.contains(";tm (libcwaits);pthread_mutex_lock (libc.so.6)"), "{line}");
    assert!((45_000..100_000).contains(&microseconds.parse::<u64>().unwrap()), "{line}");
}

#[test]
fn merged_results_are_the_sum_of_their_parts() {
    let _alone = support::alone();
    let folder = Folder::new("show-merge");
    let (first, second) = (folder.file("a.json"), folder.file("b.json"));
    printed(&mut concprobe(&format!("run sem-pingpong --ops 2000 -o {first}")));
    printed(&mut concprobe(&format!("run sem-pingpong --ops 3000 --repeat 2 -o {second}")));
    let merged: Value =
        serde_json::from_str(&show(&format!("{first} {second} --merge --format json"))).unwrap();
    assert_eq!(merged["ops"], 5_000);
    assert_eq!(support::classed(&merged), 5_000);
    assert_eq!(merged["repetitions"].as_array().unwrap().len(), 7);
    assert!(
        merged["warnings"].to_string().contains("merged though repeat differs: 5 and 2"),
        "{}",
        merged["warnings"]
    );
    let log = show(&format!("{first} {second} --merge --format hlog"));
    assert_eq!(log.lines().filter(|line| line.starts_with("Tag=all,")).count(), 1);
    let other = folder.file("c.json");
    printed(&mut concprobe(&format!("run sem-fast --ops 100000 -o {other}")));
    let refused = output(&mut concprobe(&format!("show {first} {other} --merge")));
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("are different workloads"), "{}", stderr(&refused));
}

#[test]
fn an_interval_log_is_read_back_with_equal_figures() {
    let folder = Folder::new("show-log");
    let (result, log) = (folder.file("result.json"), folder.file("out.hlog"));
    printed(&mut concprobe(&format!("run syscall-null --no-bpf --ops 10000 --warmup 1ms -o {result}")));
    show(&format!("{result} --format hlog -o {log}"));
    let run: Value = serde_json::from_str(&fs::read_to_string(&result).unwrap()).unwrap();
    let started = run["started_at"].as_u64().unwrap();
    assert!(fs::read_to_string(&log).unwrap().contains(&format!("#[StartTime: {started}")));
    assert_eq!(show(&format!("{log} --format hgrm")), show(&format!("{result} --format hgrm")));
    let csv = show(&format!("{log} --format csv"));
    assert!(csv.lines().nth(1).unwrap().starts_with("all,10000,"), "{csv}");
}

/// Needs the network once, for the package; so only with `CONCPROBE_OTHER_IMPLEMENTATIONS=1`.
#[test]
fn another_implementation_reads_the_same_percentiles() {
    if std::env::var_os("CONCPROBE_OTHER_IMPLEMENTATIONS").is_none() {
        // Past the capture, so that it is seen.
        let _ = writeln!(std::io::stderr(), "not run: CONCPROBE_OTHER_IMPLEMENTATIONS is not set");
        return;
    }
    let folder = Folder::new("show-other");
    let (result, log, environment) =
        (folder.file("result.json"), folder.file("out.hlog"), folder.file("python"));
    // 10,000 values, so that no definition of a percentile has to round its rank.
    printed(&mut concprobe(&format!("run syscall-null --no-bpf --ops 10000 --warmup 1ms -o {result}")));
    show(&format!("{result} --format hlog -o {log}"));
    printed(Command::new("python3").args(["-m", "venv", &environment]));
    printed(Command::new(format!("{environment}/bin/pip")).args(["install", "--quiet", "hdrhistogram"]));
    let script = "import sys\nfrom hdrh.log import HistogramLogReader\nfrom hdrh.histogram import HdrHistogram\n\
                  reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3600000000000, 3))\n\
                  h = reader.get_next_interval_histogram()\n\
                  print(','.join(str(v) for v in [h.get_total_count()] + [h.get_value_at_percentile(p) for p in (50, 90, 99, 99.9)] + [h.get_max_value()]))";
    let theirs = printed(Command::new(format!("{environment}/bin/python")).args(["-c", script, &log]));
    let csv = show(&format!("{log} --format csv"));
    let ours: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    let ours = [ours[1], ours[3], ours[4], ours[5], ours[6], ours[7]].join(",");
    assert_eq!(theirs.trim(), ours);
}

#[test]
fn a_file_that_is_no_result_is_refused_with_its_place_and_without_panic() {
    let _alone = support::alone();
    let folder = Folder::new("show-hostile");
    let (result, bad) = (folder.file("result.json"), folder.file("bad.json"));
    printed(concprobe(&format!("trace -o {result} --")).arg(program("libcwaits")));
    let good = fs::read(&result).unwrap();
    let mut changed: Vec<Vec<u8>> = vec![Vec::new(), good[..good.len() / 2].to_vec(), b"\0\xff".to_vec()];
    // Each fortieth part of the file gets a byte that does not belong there.
    for part in 0..40 {
        let mut bytes = good.clone();
        let at = part * good.len() / 40;
        bytes[at] = if bytes[at].is_ascii_digit() { b'x' } else { b'9' };
        changed.push(bytes);
    }
    for bytes in changed {
        fs::write(&bad, &bytes).unwrap();
        for format in ["text", "csv", "hlog", "folded"] {
            let output = output(&mut concprobe(&format!("show {bad} --format {format}")));
            let said = stderr(&output);
            assert!(!said.contains("panicked"), "{said}");
            match output.status.code() {
                Some(0) => {}
                Some(2) => assert!(said.contains(&bad) || said.contains("histogram"), "{said}"),
                other => panic!("status {other:?}: {said}"),
            }
        }
    }
    fs::write(&bad, "{\"schema\": \"concprobe/7\"}").unwrap();
    let refused = output(&mut concprobe(&format!("show {bad}")));
    assert!(stderr(&refused).contains("its schema is \"concprobe/7\""), "{}", stderr(&refused));
    let missing = output(&mut concprobe("show /nonexistent.json"));
    assert!(stderr(&missing).contains("cannot read /nonexistent.json: No such file"), "{}", stderr(&missing));
}

/// Pointers to every value that is neither an object nor a list, and to every list.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                leaves(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            found.push(at.to_owned());
            for (index, value) in list.iter().enumerate() {
                leaves(value, &format!("{at}/{index}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

/// Shows a result in every way there is, whatever becomes of it.
fn show_every_way(bytes: &[u8], good: &[u8]) {
    let Ok(result) = saved::parse(bytes) else { return };
    for verbose in [false, true] {
        let style = report::Style { colour: false, verbose };
        match &result {
            Saved::Run(run) => drop(report::text(run, style)),
            Saved::Sweep(runs) => drop(report::sweep(runs, &saved::swept_parameter(runs), style)),
            Saved::Reproduction(reproduction) => drop(report::reproduction(reproduction, style)),
            Saved::Trace(trace) => drop((report::trace(trace, style), report::folded(trace))),
            Saved::Comparison(comparison) => drop(report::compare(comparison, style)),
            Saved::Log(_) => {}
        }
    }
    let names = [
        tables::Name::Classes,
        tables::Name::Locks,
        tables::Name::Sleeps,
        tables::Name::Threads,
        tables::Name::Processes,
        tables::Name::Calls,
    ];
    for name in names {
        drop(tables::table(&result, Some(name)).map(|table| (report::csv(&table), report::markdown(&table))));
    }
    drop(result.each_histogram(&mut |_, histogram| {
        drop(saved::log::percentiles(&histogram));
        Ok(())
    }));
    let good = || saved::parse(good).unwrap();
    for (old, new) in [(&good(), &result), (&result, &good())] {
        if let Ok(found) = diff::diff(old, new) {
            let condition: diff::Condition = "time > +10%".parse().unwrap();
            let judgements: Vec<_> = condition.judge(&found).into_iter().collect();
            let style = report::Style::default();
            drop((report::diff(&found, &judgements, style), report::diff_markdown(&found, &judgements)));
        }
    }
    drop(saved::log::write(std::slice::from_ref(&result)));
    drop(saved::merge(vec![result, good()]));
}

#[test]
fn an_edited_result_of_any_kind_never_panics() {
    let _alone = support::alone();
    let folder = Folder::new("show-edited");
    let file = folder.file("result.json");
    let mut panicked = Vec::new();
    for arguments in [
        "run thread-create --ops 100 --syscalls",
        "run sem-fast --ops 100000",
        "run pool --workers 1,2 --ops 200 --no-bpf",
        "compare --runs 3 -- true true",
        "trace --stacks --syscalls --",
    ] {
        let mut command = concprobe(&saving(arguments, &file));
        if arguments.ends_with("--") {
            command.arg(program("libcwaits"));
        }
        printed(&mut command);
        let good = fs::read(&file).unwrap();
        let result: Value = serde_json::from_slice(&good).unwrap();
        let mut places = Vec::new();
        leaves(&result, "", &mut places);
        // Each value becomes what it should not be, one kind of wrong after the other in turn; a prime step
        // visits places of every kind.
        let wrong = [
            Value::from(u64::MAX),
            Value::from(0),
            Value::from(i64::MIN),
            Value::from(1e308),
            Value::Null,
            Value::from("\u{1b}[2J,;\n\"\u{0}"),
            Value::Array(Vec::new()),
            Value::from(9_007_199_254_740_993_u64),
        ];
        let step = (places.len() / 40).max(1) | 1;
        for (round, place) in places.iter().step_by(step).enumerate() {
            let kinds = if step == 1 { 0..wrong.len() } else { round % 2 * 4..round % 2 * 4 + 4 };
            for wrong in &wrong[kinds] {
                let mut edited = result.clone();
                *edited.pointer_mut(place).unwrap() = wrong.clone();
                let bytes = serde_json::to_vec(&edited).unwrap();
                if catch_unwind(AssertUnwindSafe(|| show_every_way(&bytes, &good))).is_err() {
                    panicked.push(format!("{arguments}: {place} = {wrong}"));
                }
            }
        }
        // And all numbers at once.
        for number in [u64::MAX, u64::MAX / 2, 0] {
            let mut edited = result.clone();
            for place in &places {
                let value = edited.pointer_mut(place).unwrap();
                if value.as_u64().is_some_and(|value| value > u64::from(u8::MAX)) {
                    *value = Value::from(number);
                }
            }
            let bytes = serde_json::to_vec(&edited).unwrap();
            if catch_unwind(AssertUnwindSafe(|| show_every_way(&bytes, &good))).is_err() {
                panicked.push(format!("{arguments}: all = {number}"));
            }
        }
    }
    assert!(panicked.is_empty(), "{panicked:#?}");
}

#[test]
fn several_results_are_one_table_or_one_log_but_not_one_json() {
    let folder = Folder::new("show-several");
    let (first, second) = (folder.file("a.json"), folder.file("b.json"));
    for (file, ops) in [(&first, 1_000), (&second, 2_000)] {
        printed(&mut concprobe(&format!("run syscall-null --no-bpf --ops {ops} --warmup 1ms -o {file}")));
    }
    let csv = show(&format!("{first} {second} --format csv"));
    assert!(csv.starts_with("file,workload,"), "{csv}");
    assert!(csv.lines().any(|line| line.starts_with(&format!("{second},syscall-null,"))), "{csv}");
    let log = folder.file("both.hlog");
    show(&format!("{first} {second} --format hlog -o {log}"));
    let csv = show(&format!("{log} --format csv"));
    assert!(csv.lines().any(|line| line.starts_with("all,3000,")), "{csv}");
    let refused = output(&mut concprobe(&format!("show {first} {second} --format json")));
    assert!(stderr(&refused).contains("add --merge"), "{}", stderr(&refused));
}

#[test]
fn hostile_names_come_out_of_csv_as_they_are_in_the_result() {
    let _alone = support::alone();
    let folder = Folder::new("show-names");
    let (result, csv) = (folder.file("result.json"), folder.file("threads.csv"));
    printed(concprobe(&format!("trace -o {result} --")).arg(program("names")));
    show(&format!("{result} --format csv --table threads -o {csv}"));
    let script = "import csv, json, sys\n\
                  rows = list(csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8')))\n\
                  names = [t['name'] for t in json.load(open(sys.argv[2], encoding='utf-8'))['threads']]\n\
                  assert [r['name'] for r in rows] == names, (rows, names)\n\
                  assert all(None not in r and None not in r.values() for r in rows)\n\
                  print(len(rows))";
    let rows = printed(Command::new("python3").args(["-c", script, &csv, &result]));
    assert!(rows.trim().parse::<usize>().unwrap() >= 8, "{rows}");
}

#[test]
fn memory_stays_small_whatever_a_file_claims() {
    let folder = Folder::new("show-memory");
    let file = folder.file("huge.json");
    let values = format!("{{\"schema\":\"concprobe/1\",\"verdict\":[{}\"\"]}}", "\"\",".repeat(20_000_000));
    let nested = format!("{{\"schema\":\"concprobe/1\",\"ops\":{}", "[".repeat(100_000_000));
    for (text, why) in
        [(values, "more than 16000000 values"), (nested, "line 1 column"), (" ".repeat(257 << 20), "256 MiB")]
    {
        fs::write(&file, text).unwrap();
        // A gigabyte of address space is all it gets.
        let shown = output(Command::new("sh").args([
            "-c",
            "ulimit -v 1048576; exec \"$0\" show \"$1\"",
            env!("CARGO_BIN_EXE_concprobe"),
            &file,
        ]));
        assert_eq!(shown.status.code(), Some(2), "{why}: {}", stderr(&shown));
        assert!(stderr(&shown).contains(why), "{why}: {}", stderr(&shown));
    }
}

/// Runs `diff`, with its exit status and what it printed.
fn diff_of(arguments: &[&str]) -> (Option<i32>, String) {
    let output = output(concprobe("diff").args(arguments));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output))
}

/// The same result with every figure of time and every percentile of the ops twice as long.
fn slower(result: &Value) -> Value {
    let mut slower = result.clone();
    for repetition in slower["repetitions"].as_array_mut().unwrap() {
        repetition["per_op_ps"] = Value::from(repetition["per_op_ps"].as_u64().unwrap() * 20);
    }
    for key in ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"] {
        let value = &mut slower["latency"][key];
        *value = Value::from(value.as_u64().unwrap() * 20);
    }
    slower
}

#[test]
fn a_diff_tells_a_change_from_noise_and_fails_on_conditions_that_hold() {
    let _alone = support::alone();
    let folder = Folder::new("show-diff");
    let (old, new) = (folder.file("old.json"), folder.file("new.json"));
    printed(&mut concprobe(&format!("run sem-pingpong --ops 2000 -o {old}")));
    let result: Value = serde_json::from_str(&fs::read_to_string(&old).unwrap()).unwrap();
    fs::write(&new, serde_json::to_string(&slower(&result)).unwrap()).unwrap();

    let (status, text) = diff_of(&[&old, &old, "--fail-if", "p99 > +10%", "--fail-if", "lost > 0"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("passed p99 > +10%") && text.contains("equal"), "{text}");

    let (status, text) = diff_of(&[&old, &new, "--fail-if", "p99 > +10%", "--fail-if", "time > 1h"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("write METRIC"), "{text}");
    let (status, text) = diff_of(&[&old, &new, "--fail-if", "p99 > +10%"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("FAILED p99 > +10%") && text.contains("p=0.008 n=5+5"), "{text}");
    let (status, text) = diff_of(&[&new, &old, "--fail-if", "p99 > +10%", "--format", "markdown"]);
    assert_eq!(status, Some(0), "faster is no failure: {text}");
    assert!(text.contains("| time | "), "{text}");
    let (status, text) = diff_of(&[&old, &new, "--fail-if", "p98 > +10%"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("there is no metric \"p98\" in both results: there are time, p50"), "{text}");
    let (_, json) = diff_of(&[&old, &new, "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "concprobe-diff/1");
}

#[test]
fn looks_differ_by_their_locks() {
    let _alone = support::alone();
    let folder = Folder::new("show-looks");
    let (old, new, run) = (folder.file("old.json"), folder.file("new.json"), folder.file("run.json"));
    for file in [&old, &new] {
        printed(concprobe(&format!("trace -o {file} --")).arg(program("libcwaits")));
    }
    let result: Value = serde_json::from_str(&fs::read_to_string(&old).unwrap()).unwrap();
    let condition = |lock: &Value| format!("{}.slept > +10", lock["name"].as_str().unwrap());
    // Names of what has no symbol may differ.
    let named = result["locks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|lock| lock["name"].as_str().unwrap().starts_with("m ("));
    let (status, text) = diff_of(&[&old, &new, "--fail-if", &condition(named.unwrap())]);
    assert_eq!(status, Some(0), "{text}");
    printed(&mut concprobe(&format!("run syscall-null --no-bpf --ops 1000 --warmup 1ms -o {run}")));
    let (status, text) = diff_of(&[&old, &run]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("a look at a program and the result of a run cannot be compared"), "{text}");
}
