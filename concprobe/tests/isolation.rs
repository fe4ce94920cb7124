//! What goes on beside a run does not show in it, and nothing of a run is left behind.

mod support;

use std::{
    fs,
    process::{Command, Stdio},
    thread,
};

use serde_json::Value;
use support::{
    assert_conservation, class, classed, concprobe, number, output, parse, result, stderr, wait_until,
};

#[test]
fn under_load_the_time_goes_to_the_run_queue_and_still_adds_up() {
    let _alone = support::alone();
    let _load = support::Load::start(4);
    for run in ["run sem-fast --ops 10000000", "run sem-pingpong --ops 5000", "run thread-create --ops 500"] {
        let run = result(run);
        assert_conservation(&run);
        assert_eq!(classed(&run), number(&run, "/ops"));
    }
    let run = result("run sem-fast --duration 2s --threads 2");
    let part = |name: &str| number(&run, &format!("/parts/{name}"));
    // Six spinners on two CPUs: a fair scheduler gives the two members a third of their wall time.
    assert!(part("run_queue_ns") * 3 > part("wall_ns"), "{run}");
    assert_eq!(number(&run, "/counts/voluntary_switches"), 0);
}

#[test]
fn two_runs_at_once_do_not_see_each_other() {
    let _alone = support::alone();
    let other = thread::spawn(|| result("run thread-create --ops 3000"));
    let pingpong = result("run sem-pingpong --ops 20000");
    let create = other.join().unwrap();
    assert_eq!(number(&create, "/counts/threads_created"), 3_000);
    assert_eq!(number(&create, "/counts/futex_wakes"), 0, "the other run's wakes");
    assert_eq!(number(&pingpong, "/counts/threads_created"), 0, "the other run's threads");
    assert_eq!(classed(&pingpong), 20_000);
    let names: Vec<_> =
        pingpong["threads"].as_array().unwrap().iter().map(|thread| thread["name"].clone()).collect();
    assert_eq!(names, ["ping", "pong"], "threads of others");
}

#[test]
fn a_pid_namespace_changes_nothing() {
    let _alone = support::alone();
    let run = |arguments: &str| -> Value {
        let output = output(
            Command::new("unshare")
                .args(["-pf", "--mount-proc", env!("CARGO_BIN_EXE_concprobe")])
                .args(arguments.split_whitespace())
                .arg("--json"),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        parse(&output)
    };
    for way in ["btf", "classic"] {
        let create = run(&format!("run thread-create --ops 1000 --attach {way}"));
        assert_eq!(number(&create, "/counts/threads_created"), 1_000);
        assert_eq!(class(&create, "created"), 1_000);
        assert_conservation(&create);
        assert_eq!(create["environment"]["pid_namespace"], true);
        let pingpong = run(&format!("run sem-pingpong --ops 20000 --pin 0 --attach {way}"));
        assert_eq!(class(&pingpong, "slept") + class(&pingpong, "preempted"), 20_000);
    }
}

/// Ids of the children of a process.
fn children(pid: u32) -> Vec<u32> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn loaded_programs() -> Vec<u32> {
    aya::programs::loaded_programs().filter_map(|program| Some(program.ok()?.id())).collect()
}

#[test]
fn a_killed_concprobe_leaves_no_program_and_no_process() {
    let _alone = support::alone();
    let before = loaded_programs();
    let mut driver = concprobe("run sem-pingpong --duration 60s --json")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let workload = || children(driver.id());
    wait_until("the workload's process and its two members", || {
        workload().first().is_some_and(|process| children(*process).len() == 2)
    });
    let process = workload()[0];
    let members = children(process);
    let programs: Vec<u32> =
        loaded_programs().into_iter().filter(|program| !before.contains(program)).collect();
    assert!(programs.len() >= 8, "{programs:?}");
    driver.kill().unwrap();
    driver.wait().unwrap();
    for pid in members.iter().chain([&process]) {
        // Whoever inherits an ended process may take its time to reap it.
        wait_until("the end of the workload", || {
            fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
        });
    }
    wait_until("the end of its programs", || {
        let now = loaded_programs();
        // Another test's run may be loading at this moment, but not under the same ids.
        programs.iter().all(|program| !now.contains(program))
    });
}
