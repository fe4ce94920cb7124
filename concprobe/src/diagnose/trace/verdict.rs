//! The verdict: a few sentences with their figures, the greatest cost first. It must be right before it is
//! clever: what is no cost is called none.

use crate::{
    observation::{
        Depth,
        trace::{Kind, Lock, Sleep, Trace},
    },
    units::{count, duration_ns, share},
};

/// A cost below this part of the time of the threads that work is not worth a sentence.
const WORTH: f64 = 0.02;
/// Nor is one below this part of the time that the look took.
const NOTICEABLE: f64 = 0.02;
/// Sleeps that are neither cost nor idle waiting are told from this part of all threads' time on.
const WORTH_TELLING: f64 = 0.1;
/// Functions that are told of the way to such a sleep.
const STEPS: usize = 4;
/// A wait for this part of the look and longer is one that does not end.
const STUCK: f64 = 0.9;
/// So many hand-overs a second and more are a cost by themselves.
const HAND_OVERS: u64 = 10_000;
/// Threads of which half live shorter than this are made for one task each.
const SHORT_LIVED_NS: u64 = 10_000_000;
/// So many threads and more are worth a sentence.
const CREATIONS: u64 = 100;

/// A sentence, and the thread time that it is about.
struct Finding {
    cost_ns: u64,
    sentence: String,
}

/// The sentences.
pub(super) fn verdict(trace: &Trace) -> Vec<String> {
    let busy = busy_ns(trace);
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(trace.locks.iter().filter_map(|lock| contended(lock, busy)));
    findings.extend(trace.locks.iter().filter_map(|lock| stuck(trace, lock)));
    findings.extend(trace.locks.iter().filter_map(|lock| handed_over(trace, lock)));
    findings.extend(run_queue(trace, busy));
    findings.extend(creation(trace));
    findings.extend(polling(trace));
    findings.retain(|finding| part(finding.cost_ns, trace.wall_ns) >= NOTICEABLE);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.cost_ns));
    let mut sentences: Vec<String> = findings.into_iter().take(5).map(|finding| finding.sentence).collect();
    if sentences.is_empty() {
        sentences.push(nothing(trace));
    } else {
        sentences.push(where_time_went(trace));
    }
    sentences.extend(idle(trace));
    sentences.extend(elsewhere(trace));
    sentences
}

/// Time of the threads that work, or would if they could: on the CPU, waiting for one, or at a lock. What
/// costs are measured against.
fn busy_ns(trace: &Trace) -> u64 {
    let wanted = trace.locks.iter().filter(|lock| is_contended(lock));
    let at_locks: u64 = wanted.map(|lock| lock.sleeps.blocked_ns()).sum();
    let parts = &trace.parts;
    (parts.on_cpu_ns.unwrap_or(0) + parts.run_queue_ns.unwrap_or(0) + at_locks).max(1)
}

fn part(cost: u64, whole: u64) -> f64 {
    cost as f64 / whole.max(1) as f64
}

/// Several threads wait for what one has. A single one may wait for another's end by such a word.
fn is_contended(lock: &Lock) -> bool {
    lock.kind.excludes() && lock.sleeps.threads >= 2
}

/// A lock that several threads wanted at the same time.
fn contended(lock: &Lock, busy: u64) -> Option<Finding> {
    if !is_contended(lock) {
        return None;
    }
    let (blocked, run_queue) = (lock.sleeps.blocked_ns(), lock.sleeps.run_queue.sum_ns);
    let cost_ns = blocked + run_queue;
    if part(cost_ns, busy) < WORTH {
        return None;
    }
    let mut sentence = format!(
        "The {} {} costs {} of the time of the threads that work: {} sleeps of {} threads, {} blocked",
        lock.kind.name(),
        lock.name,
        share(part(cost_ns, busy)),
        count(lock.sleeps.slept + lock.sleeps.open),
        count(lock.sleeps.threads),
        duration_ns(blocked),
    );
    if let (Some(p50), Some(p99)) = (lock.sleeps.blocked.p50_ns, lock.sleeps.blocked.p99_ns) {
        sentence.push_str(&format!(" (median {}, p99 {})", duration_ns(p50), duration_ns(p99)));
    }
    sentence.push_str(&format!(" and {} then waiting for a CPU", duration_ns(run_queue)));
    if let Some(waiter) = lock.sleeps.waiters.first().and_then(|waiter| caller(&waiter.frames)) {
        sentence.push_str(&format!(", mostly in {waiter}"));
    }
    if let Some(waker) = lock.wakers.first() {
        let function = caller(&waker.frames).map_or_else(String::new, |caller| format!(" in {caller}"));
        sentence.push_str(&format!(
            "; {} of it was ended by thread {}{function}, which had held it",
            share(waker.share),
            waker.thread
        ));
    }
    sentence.push_str(if run_queue > blocked {
        ". More threads will not help: the waiters wait for a CPU longer than for the lock; use fewer."
    } else {
        ". Hold it shorter, split it (one for each part of the data), or hand over in batches."
    });
    Some(Finding { cost_ns, sentence })
}

/// A lock for which somebody waited all the time, and which nobody let go.
fn stuck(trace: &Trace, lock: &Lock) -> Option<Finding> {
    let sleeps = &lock.sleeps;
    let all_the_time = sleeps.open > 0 && part(sleeps.open_ns / sleeps.open, trace.wall_ns) >= STUCK;
    let waiter = sleeps.waiters.first().and_then(|waiter| caller(&waiter.frames));
    (lock.kind.excludes() && sleeps.slept == 0 && all_the_time).then(|| Finding {
        cost_ns: sleeps.open_ns,
        sentence: format!(
            "{} waited for the {} {} all the time{}, and nobody let it go: a deadlock, or whoever has it waits for \
             something else.",
            if sleeps.open == 1 { "A thread".to_owned() } else { format!("{} threads", count(sleeps.open)) },
            lock.kind.name(),
            lock.name,
            waiter.map_or_else(String::new, |function| format!(", in {function}")),
        ),
    })
}

/// Threads that hand over so often that sleeping and waking is the work.
fn handed_over(trace: &Trace, lock: &Lock) -> Option<Finding> {
    if lock.kind.excludes() || lock.idle || lock.kind == Kind::Join {
        return None;
    }
    let rate =
        u64::try_from(u128::from(lock.sleeps.slept) * 1_000_000_000 / u128::from(trace.wall_ns.max(1)))
            .unwrap_or(u64::MAX);
    if rate < HAND_OVERS {
        return None;
    }
    Some(Finding {
        cost_ns: lock.sleeps.blocked_ns() + lock.sleeps.run_queue.sum_ns,
        sentence: format!(
            "At the {} {} threads go to sleep {} times a second, for {} in the median: the hand-over itself is \
             the cost. Hand over in batches, or leave slots so that the producer need not wait.",
            lock.kind.name(),
            lock.name,
            count(rate),
            lock.sleeps.blocked.p50_ns.map_or_else(|| "?".to_owned(), duration_ns),
        ),
    })
}

/// Threads that could run and had no CPU.
fn run_queue(trace: &Trace, busy: u64) -> Option<Finding> {
    let cost_ns = trace.parts.run_queue_ns?;
    let cpus = trace.environment.usable_cpu_count();
    let on_cpu = trace.parts.on_cpu_ns?;
    if part(cost_ns, busy) < 0.1 || cost_ns < on_cpu / 4 {
        return None;
    }
    let waited = format!(
        "Threads that could run waited {} for a CPU, {} of the time of the threads that work, and ran {}",
        duration_ns(cost_ns),
        share(part(cost_ns, busy)),
        duration_ns(on_cpu),
    );
    let runnable = part(on_cpu + cost_ns, trace.wall_ns);
    let sentence = if runnable > cpus as f64 {
        format!(
            "{waited}: on average {runnable:.1} wanted the {cpus} CPUs at the same time; more threads will not \
             help, fewer will."
        )
    } else {
        format!(
            "{waited}, though on average only {runnable:.2} wanted the {cpus} CPUs at the same time: other \
             programs had them, or a quota or the threads' affinity left them out."
        )
    };
    Some(Finding { cost_ns, sentence })
}

/// Threads that are made, used once and thrown away.
fn creation(trace: &Trace) -> Option<Finding> {
    let creation = &trace.creation;
    let (latency, life) = (creation.latency.p50_ns?, creation.life.p50_ns?);
    if creation.threads < CREATIONS || life > SHORT_LIVED_NS {
        return None;
    }
    let cost_ns = creation.latency.sum_ns;
    let by = creation
        .creators
        .first()
        .and_then(|stack| caller(&stack.frames))
        .map_or_else(String::new, |caller| format!(", mostly in {caller}"));
    Some(Finding {
        cost_ns,
        sentence: format!(
            "A thread for each task: {} threads and {} processes were created{by}; half of them lived shorter \
             than {}, and half took longer than {} from their creation to their first run ({} in all). A pool \
             of threads pays that once.",
            count(creation.threads),
            count(creation.processes),
            duration_ns(life),
            duration_ns(latency),
            duration_ns(cost_ns),
        ),
    })
}

/// Threads that burn a CPU to ask whether there is something to do.
fn polling(trace: &Trace) -> Option<Finding> {
    let polling = trace.polling.as_ref()?;
    let first = polling.first()?;
    let cpus: f64 = polling.iter().map(|thread| thread.cpus).sum();
    let cost_ns = polling.iter().map(|thread| thread.on_cpu_ns).sum();
    (cpus >= 0.05).then(|| Finding {
        cost_ns,
        sentence: format!(
            "{} polls: {} of its {} calls yielded nothing, and it keeps {:.2} CPUs busy{}. Wait for readiness \
             instead (epoll_wait or poll with a time limit, or a blocking call).",
            first.thread,
            count(first.in_vain),
            count(first.calls),
            cpus,
            if polling.len() > 1 { format!(" with {} others", polling.len() - 1) } else { String::new() },
        ),
    })
}

/// The first function of the program itself: what is below it is the library that it calls.
fn caller(frames: &[String]) -> Option<&str> {
    own(frames).first().copied()
}

/// The functions of the program itself, the innermost first.
fn own(frames: &[String]) -> Vec<&str> {
    const LIBRARIES: &[&str] = &[
        "libc.so",
        "libpthread",
        "libstdc++",
        "std::",
        "core::",
        "alloc::",
        "parking_lot",
        "__libc",
        "syscall",
        "[vdso]",
        "ld-linux",
    ];
    let named = |frame: &&String| !frame.contains("+0x");
    frames
        .iter()
        .filter(named)
        .filter(|frame| !LIBRARIES.iter().any(|library| frame.contains(library)))
        .map(|frame| frame.split(" at ").next().unwrap_or(frame))
        .collect()
}

fn where_time_went(trace: &Trace) -> String {
    let parts = &trace.parts;
    let of_wall =
        |time: Option<u64>| time.map_or_else(|| "?".to_owned(), |time| share(part(time, parts.wall_ns)));
    format!(
        "Of {} of thread time, {} was on the CPU, {} blocked, {} waiting for a CPU.",
        duration_ns(parts.wall_ns),
        of_wall(parts.on_cpu_ns),
        of_wall(parts.blocked_ns),
        of_wall(parts.run_queue_ns)
    )
}

fn nothing(trace: &Trace) -> String {
    let mut sentence =
        format!("Nothing to fix here in locks, threads or waiting: {}", where_time_went(trace));
    let cpus = part(trace.parts.on_cpu_ns.unwrap_or(0), trace.wall_ns);
    if cpus >= 0.5 && trace.depth == Depth::Switches {
        sentence.push_str(&format!(
            " It kept {cpus:.2} CPUs busy; whether with work or with polling, --syscalls tells."
        ));
    }
    sentence
}

/// Those who waited for work: their time is no cost, but is not hidden.
fn idle(trace: &Trace) -> Option<String> {
    let idle: Vec<&Lock> = trace.locks.iter().filter(|lock| lock.idle).collect();
    let time: u64 = idle.iter().map(|lock| lock.sleeps.blocked_ns()).sum();
    (time > 0).then(|| {
        format!(
            "Idle waiters, which cost nothing: {} at {} places where threads wait for work or for each other.",
            duration_ns(time),
            count(idle.len() as u64)
        )
    })
}

/// The system call in which threads slept longest, and how they came there. Whether it was for want of work only the
/// reader can tell.
fn elsewhere(trace: &Trace) -> Option<String> {
    let sleep = trace.sleeps.iter().find(|sleep| sleep.call != Sleep::BEYOND)?;
    let time = sleep.sleeps.blocked_ns();
    let part = part(time, trace.parts.wall_ns);
    if part < WORTH_TELLING {
        return None;
    }
    let way = sleep.sleeps.waiters.first().map(|waiter| own(&waiter.frames)).unwrap_or_default();
    let way: Vec<&str> = way.into_iter().take(STEPS).collect();
    let mostly = if way.is_empty() {
        String::new()
    } else {
        format!(", mostly by way of {}", way.into_iter().rev().collect::<Vec<_>>().join(" → "))
    };
    Some(format!(
        "Outside of locks, threads slept longest in {}: {}, {} of their time{mostly}.",
        sleep.call,
        duration_ns(time),
        share(part),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A look of one second at a program whose threads did nothing, with what `change` makes of it.
    fn trace(change: impl FnOnce(&mut Value)) -> Trace {
        let mut trace = json!({
            "schema": "", "concprobe": "", "started_at": 0, "pid": 1, "parameters": {},
            "environment": crate::environment::Environment { cpus_usable: vec![0, 1], ..Default::default() },
            "depth": "switches", "stacks": true, "attached_by": "btf", "wall_ns": 1_000_000_000_u64,
            "parts": {
                "wall_ns": 4_000_000_000_u64, "on_cpu_ns": 100_000_000, "blocked_ns": 3_900_000_000_u64,
                "run_queue_ns": 0,
            },
            "counts": {}, "processes": [], "threads": [], "locks": [], "sleeps": [],
            "creation": {
                "threads": 0, "processes": 0, "latency": latencies(0, 0), "life": latencies(0, 0),
                "clone_ns": 0, "first_run_wait_ns": 0, "creators": [],
            },
            "not_visible": [], "lost": 0, "losses": {}, "blurs": {},
            "probe": { "timed_runs": 0, "timed_ns": 0 }, "memory": { "map_bytes": 0 },
            "self_check": { "passed": true, "detail": "" }, "verdict": [], "warnings": [], "unavailable": {},
        });
        change(&mut trace);
        serde_json::from_value(trace).unwrap()
    }

    fn latencies(count: u64, each_ns: u64) -> Value {
        let value = (count > 0).then_some(each_ns);
        json!({ "count": count, "sum_ns": count * each_ns, "p50_ns": value, "p99_ns": value })
    }

    fn lock(kind: &str, idle: bool, threads: u64, sleeps: u64, each_ns: u64) -> Value {
        json!({
            "name": "queue_lock", "kind": kind, "kind_because": "", "idle": idle, "address": "0x1",
            "host_pid": 1, "operation": "WAIT", "slept": sleeps, "threads": threads, "limited": 0,
            "blocked": latencies(sleeps, each_ns), "run_queue": latencies(sleeps, 1_000), "open": 0, "open_ns": 0,
            "waiters": [{
                "share": 1.0, "samples": 1, "threads": ["worker"],
                "frames": ["pthread_mutex_lock (libc.so.6)", "take_order (shop)", "main (shop)"],
            }],
            "wakers": [{
                "thread": "worker", "host_tid": 7, "share": 0.75, "samples": 3,
                "frames": ["futex_wake (libc.so.6)", "give_change (shop)"],
            }],
        })
    }

    #[test]
    fn a_contended_lock_is_named_with_who_waits_and_who_held_it() {
        let seen = trace(|trace| trace["locks"] = json!([lock("mutex", false, 3, 1_000, 2_000_000)]));
        let first = &verdict(&seen)[0];
        for part in [
            "The mutex queue_lock costs",
            "1,000 sleeps of 3 threads, 2.00 s blocked",
            "mostly in take_order (shop)",
            "75.0 % of it was ended by thread worker in give_change (shop)",
            "Hold it shorter",
        ] {
            assert!(first.contains(part), "{part}: {first}");
        }
    }

    #[test]
    fn idle_workers_and_a_lock_that_one_thread_waits_for_are_no_cost() {
        let seen = trace(|trace| {
            trace["locks"] =
                json!([lock("condition", true, 4, 10, 300_000_000), lock("mutex", false, 1, 10, 50_000_000)]);
        });
        let sentences = verdict(&seen);
        assert!(sentences[0].starts_with("Nothing to fix here"), "{sentences:?}");
        assert!(
            sentences[1].starts_with("Idle waiters, which cost nothing: 3.00 s at 1 places"),
            "{sentences:?}"
        );
    }

    #[test]
    fn a_lock_that_nobody_lets_go_is_told() {
        let seen = trace(|trace| {
            let mut held = lock("mutex", false, 1, 0, 0);
            (held["open"], held["open_ns"]) = (json!(1), json!(990_000_000));
            trace["locks"] = json!([held]);
        });
        let told = "A thread waited for the mutex queue_lock all the time, in take_order (shop), and nobody";
        assert!(verdict(&seen)[0].starts_with(told), "{:?}", verdict(&seen));
    }

    #[test]
    fn a_long_sleep_in_a_call_is_told_with_the_way_to_it_and_is_no_cost() {
        let seen = trace(|trace| {
            let mut sleep = lock("unknown", false, 3, 1_000, 2_000_000);
            sleep["call"] = json!("epoll_wait");
            sleep["waiters"][0]["frames"] =
                json!(["epoll_wait (libc.so.6)", "wait_event (shop)", "take_row (shop)", "libx.so+0x1"]);
            trace["sleeps"] = json!([sleep]);
        });
        let sentences = verdict(&seen);
        assert!(sentences[0].starts_with("Nothing to fix here"), "{sentences:?}");
        assert_eq!(
            sentences[1],
            "Outside of locks, threads slept longest in epoll_wait: 2.00 s, 50.0 % of their time, mostly by way of \
             take_row (shop) → wait_event (shop)."
        );
    }

    #[test]
    fn waiting_for_a_cpu_says_whether_the_program_itself_takes_them() {
        let waiting = |on_cpu: u64, run_queue: u64| {
            let seen = trace(|trace| {
                trace["parts"]["on_cpu_ns"] = json!(on_cpu);
                trace["parts"]["run_queue_ns"] = json!(run_queue);
            });
            verdict(&seen)[0].clone()
        };
        let own = waiting(1_900_000_000, 1_500_000_000);
        assert!(own.contains("on average 3.4 wanted the 2 CPUs") && own.contains("fewer will"), "{own}");
        let others = waiting(100_000_000, 300_000_000);
        assert!(others.contains("only 0.40 wanted") && others.contains("other programs"), "{others}");
    }

    #[test]
    fn hand_overs_by_the_ten_thousand_a_second_are_the_cost_themselves() {
        let seen = trace(|trace| trace["locks"] = json!([lock("semaphore", false, 2, 50_000, 8_000)]));
        assert!(
            verdict(&seen)[0].starts_with("At the semaphore queue_lock threads go to sleep 50,000 times")
        );
    }

    #[test]
    fn threads_that_live_shorter_than_they_cost_are_one_for_each_task() {
        let seen = trace(|trace| {
            trace["creation"]["threads"] = json!(1_000);
            trace["creation"]["latency"] = latencies(1_000, 60_000);
            trace["creation"]["life"] = latencies(1_000, 40_000);
        });
        assert!(
            verdict(&seen)[0].starts_with("A thread for each task: 1,000 threads"),
            "{:?}",
            verdict(&seen)
        );
        let long_lived = trace(|trace| {
            trace["creation"]["threads"] = json!(1_000);
            trace["creation"]["latency"] = latencies(1_000, 60_000);
            trace["creation"]["life"] = latencies(1_000, 40_000_000);
        });
        assert!(verdict(&long_lived)[0].starts_with("Nothing to fix"));
    }

    #[test]
    fn a_thread_that_polls_is_named_with_the_cpu_that_it_burns() {
        let seen = trace(|trace| {
            trace["depth"] = json!("calls");
            trace["polling"] = json!([{
                "thread": "reader", "host_tid": 7, "in_vain": 900_000, "calls": 900_010,
                "on_cpu_ns": 990_000_000, "cpus": 0.99,
            }]);
        });
        let first = &verdict(&seen)[0];
        assert!(first.starts_with("reader polls: 900,000 of its 900,010 calls yielded nothing"), "{first}");
        assert!(first.contains("0.99 CPUs busy"), "{first}");
    }
}
