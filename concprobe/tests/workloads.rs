//! Every registered workload against the real kernel: short, with its self-check and its claim; and once
//! more beside two CPUs' worth of other load, where only what does not depend on the scheduler must hold.

mod support;

use concprobe::{
    harness::{Claim, Entry},
    workload::TABLE,
};
use serde_json::Value;
use support::{classed, concprobe, number, output, parse, stderr};

/// Enough ops for the claim, few enough for a test.
fn arguments(entry: &Entry) -> String {
    let ops = match entry.name {
        "pool-io" => 64,
        "future-wait" | "future-wait-timeout" | "read-blocking" | "read-busypoll" | "epoll" => 5,
        "sleep-uninterruptible" => 5,
        "fork" | "posix-spawn" => 100,
        // Threads get into each other's way only where one is switched out inside its section.
        _ if entry.claim == Claim::SometimesSleeps => entry.default_ops,
        _ => entry.default_ops.min(4_000),
    };
    format!("run {} --ops {ops} --repeat 2 --warmup 20ms", entry.name)
}

fn run(entry: &Entry) -> Value {
    let arguments = arguments(entry);
    let output = output(concprobe(&arguments).arg("--json"));
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", stderr(&output));
    let run = parse(&output);
    assert_eq!(run["self_check"]["passed"], true, "{arguments}: {}", run["self_check"]);
    assert_eq!(classed(&run), number(&run, "/ops"), "{arguments}");
    assert_eq!(number(&run, "/lost"), 0, "{arguments}");
    run
}

fn available() -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().copied().filter(|entry| entry.unavailable.is_none())
}

/// Claims that the number of events decides, whatever the scheduler does.
fn is_determined(claim: Claim) -> bool {
    matches!(
        claim,
        Claim::OneThreadPerOp | Claim::OneProcessPerOp | Claim::CreatesNoThread | Claim::WaitsUninterruptibly
    )
}

#[test]
fn every_workload_does_what_it_claims() {
    let _alone = support::alone();
    for entry in available() {
        let run = run(entry);
        assert_eq!(run["claim_holds"], true, "{}: {}", entry.name, run["verdict"]);
    }
}

#[test]
fn the_kernel_s_counts_are_exact_where_the_workload_determines_them() {
    let _alone = support::alone();
    for entry in available() {
        let run = run(entry);
        let ops = number(&run, "/ops");
        match entry.claim {
            Claim::OneThreadPerOp => {
                assert_eq!(number(&run, "/counts/threads_created"), ops, "{}", entry.name);
            }
            Claim::OneProcessPerOp => {
                assert_eq!(number(&run, "/counts/processes_created"), ops, "{}", entry.name);
            }
            Claim::CreatesNoThread => {
                assert_eq!(number(&run, "/counts/threads_created"), 0, "{}", entry.name);
            }
            Claim::NeverEntersKernel => assert_eq!(number(&run, "/counts/syscalls"), 0, "{}", entry.name),
            _ => {}
        }
    }
}

#[test]
fn beside_other_load_every_workload_ends_and_passes_its_check() {
    let _alone = support::alone();
    let _load = support::Load::start(2);
    for entry in available() {
        let run = run(entry);
        if is_determined(entry.claim) {
            assert_eq!(run["claim_holds"], true, "{}: {}", entry.name, run["verdict"]);
        }
    }
}

#[test]
fn the_documentation_lists_the_workloads_as_they_are() {
    let listed = output(&mut concprobe("list --markdown")).stdout;
    let documented = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/workloads.md");
    assert_eq!(
        String::from_utf8(listed).unwrap(),
        std::fs::read_to_string(documented).unwrap(),
        "write it anew: concprobe list --markdown > docs/workloads.md"
    );
}
