//! Saved results: shown again as they were printed, turned into what other tools read, merged, and refused when
//! they are none.

mod support;

use std::{fs, io::Write as _, process::Command};

use support::{Folder, concprobe, output, program, stderr};

/// What concprobe printed, after it ended well.
fn printed(command: &mut Command) -> String {
    let output = output(command);
    assert_eq!(output.status.code(), Some(0), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
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
    ] {
        let screen = printed(&mut concprobe(&format!("{arguments} -o {result}")));
        assert_eq!(show(&result), screen, "{arguments}");
    }
    let screen = printed(concprobe(&format!("trace -o {result} --")).arg(program("libcwaits")));
    assert_eq!(show(&result), screen);
    let saved: serde_json::Value = serde_json::from_str(&fs::read_to_string(&result).unwrap()).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&show(&format!("{result} --format json"))).unwrap();
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
    let merged: serde_json::Value =
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
    let run: serde_json::Value = serde_json::from_str(&fs::read_to_string(&result).unwrap()).unwrap();
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
