//! Programs as people have them: PostgreSQL, Python, Java, Go, Rust, xz, Redis, nginx. What is determined is
//! asserted, of the rest the shape. As root, and only with `CONCPROBE_REAL_PROGRAMS=1`: then a program that
//! is not installed is a failure that names its package.

mod support;

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{Folder, concprobe, not_under_sudo, number, output, stderr, wait_until};

// ---------------------------------------------------------------- support

/// Whether these tests are to run; says so where they are not, which the test harness cannot.
fn asked(test: &str) -> bool {
    let asked = env::var_os("CONCPROBE_REAL_PROGRAMS").is_some_and(|value| value == "1");
    if !asked {
        // Past the harness, which shows nothing of a test that passes.
        let _ = writeln!(std::io::stderr(), "{test}: ignored, CONCPROBE_REAL_PROGRAMS=1 is not set");
    }
    asked
}

/// Skips the test that it stands in, unless it is asked for; the guard that it leaves lets it count alone.
macro_rules! asked_or_return {
    ($name:literal) => {{
        if !asked($name) {
            return;
        }
        support::alone()
    }};
}

/// Where a program is that the distribution installs.
fn program(name: &str, package: &str) -> String {
    let postgres = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path)
        .chain(["/usr/bin", "/usr/sbin"].map(PathBuf::from))
        .chain(postgres.map(|version| version.path().join("bin")));
    // Not what a version manager put in front: it has other names, and other symbols.
    let is_shim = |path: &Path| path.components().any(|part| part.as_os_str() == "shims");
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file() && !is_shim(path))
        .unwrap_or_else(|| panic!("{name} is not installed: needs the package {package}"))
        .display()
        .to_string()
}

fn source(path: &str) -> String {
    format!("{}/tests/programs/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that must succeed.
fn succeed(command: &mut Command) -> Output {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    output
}

/// A `trace` of a command, all of whose words are given.
fn trace(options: &str, command: &[&str]) -> Command {
    let mut trace = concprobe(&format!("trace {options} --"));
    not_under_sudo(trace.args(command)).stdin(Stdio::null()).stdout(Stdio::null());
    trace
}

/// The result of such a `trace`, which ends by itself and well.
fn traced(command: &[&str]) -> Value {
    let folder = Folder::new("traced");
    let run = output(trace(&format!("-o {}", folder.file("result.json")), command).stderr(Stdio::piped()));
    assert_eq!(run.status.code(), Some(0), "{command:?}: {}", stderr(&run));
    sound(folder.json("result.json"))
}

/// The result of an `attach` that must end well.
fn attached(pid: u32, options: &str) -> Value {
    let run = output(&mut concprobe(&format!("attach --pid {pid} --json {options}")));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    sound(support::parse(&run))
}

/// Nothing is lost, and the parts of each thread's time add up.
fn sound(look: Value) -> Value {
    assert_eq!(number(&look, "/lost"), 0, "{}", look["losses"]);
    assert_eq!(look["self_check"]["passed"], true, "{}", look["self_check"]);
    for thread in rows(&look, "threads") {
        let part = |name: &str| thread["parts"][name].as_i64().unwrap();
        let sum = part("on_cpu_ns") + part("blocked_ns") + part("run_queue_ns") + part("unaccounted_ns");
        assert_eq!(sum, part("wall_ns"), "{thread}");
    }
    let threads: u64 = rows(&look, "threads").iter().map(|thread| number(thread, "/threads")).sum();
    let of_processes: u64 = rows(&look, "processes").iter().map(|process| number(process, "/threads")).sum();
    assert_eq!(threads, of_processes);
    look
}

fn rows<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no rows of {key}"))
}

/// The sentences of the verdict that are about the program: whether there was a CPU for it depends on what
/// else this machine does.
fn verdict(look: &Value) -> Vec<String> {
    rows(look, "verdict")
        .iter()
        .map(|sentence| sentence.as_str().unwrap().to_owned())
        .filter(|sentence| !sentence.starts_with("Threads that could run waited"))
        .collect()
}

/// The verdict accuses nothing.
fn assert_no_accusation(look: &Value) {
    for sentence in verdict(look) {
        let harmless = [
            "Nothing to fix here",
            "Of ",
            "Idle waiters, which cost nothing",
            "Outside of locks, threads slept",
        ];
        assert!(harmless.iter().any(|beginning| sentence.starts_with(beginning)), "{sentence}");
    }
}

fn blocked_ns(place: &Value) -> u64 {
    number(place, "/blocked/sum_ns") + number(place, "/open_ns")
}

/// The lock at which most time went by, a cost or not.
fn longest(look: &Value) -> &Value {
    rows(look, "locks").iter().max_by_key(|lock| blocked_ns(lock)).expect("somebody waited at a futex")
}

/// Whether a function is in one of the stacks.
fn in_stacks(stacks: &Value, function: &str) -> bool {
    stacks.as_array().unwrap().iter().any(|stack| {
        stack["frames"].as_array().unwrap().iter().any(|frame| frame.as_str().unwrap().contains(function))
    })
}

/// The rows of locks or of other sleeps in which somebody waits in that function.
fn waits_in<'a>(look: &'a Value, key: &str, function: &str) -> Vec<&'a Value> {
    rows(look, key).iter().filter(|place| in_stacks(&place["waiters"], function)).collect()
}

/// The percentage after these words.
fn share_after(sentence: &str, words: &str) -> f64 {
    let rest = sentence.split_once(words).unwrap_or_else(|| panic!("no {words:?}: {sentence}")).1;
    rest.trim_start().split(' ').next().unwrap().parse().unwrap()
}

/// A program that runs until it is told to end; told so when dropped.
struct Server {
    child: Child,
    /// What it takes for a wish to end at once.
    signal: i32,
}

impl Server {
    fn start(command: &mut Command, signal: i32) -> Self {
        let child = command.stdin(Stdio::null()).spawn();
        Self { child: child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")), signal }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, and gives its status.
    fn stop(&mut self) -> Option<i32> {
        let pid = i32::try_from(self.pid()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        if self.child.try_wait().unwrap().is_none() {
            // SAFETY: a plain system call on a child that was not waited for.
            unsafe { libc::kill(pid, self.signal) };
        }
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.stop().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

// ---------------------------------------------------------------- Python

/// The distribution's, whose symbols are those that most people have.
fn python() -> String {
    program("python3", "python3")
}

#[test]
fn python_threads_that_want_one_lock_are_told_of_it() {
    let _alone = asked_or_return!("python_threads_that_want_one_lock_are_told_of_it");
    let look = traced(&[&python(), &source("python/contended.py"), "100"]);
    assert_eq!(number(&look, "/creation/threads"), 4);
    assert_eq!(rows(&look, "processes").len(), 1);
    let lock = &look["locks"][0];
    assert_eq!((&lock["kind"], number(lock, "/threads")), (&Value::from("mutex"), 4), "{lock}");
    // Each of 400 holds of 2 ms is waited for by the three others, but at the edges; who is woken and finds it
    // taken sleeps again.
    assert!((300..=600).contains(&number(lock, "/slept")), "{lock}");
    assert!(blocked_ns(lock) >= 1_800_000_000, "{lock}");
    assert!(in_stacks(&lock["waiters"], "PyThread_acquire_lock"), "{}", lock["waiters"]);
    assert!(in_stacks(&lock["wakers"], "sem_post"), "{}", lock["wakers"]);
    let sleeps = rows(&look, "sleeps").iter().find(|sleep| sleep["call"] == "clock_nanosleep").unwrap();
    // The short ones may be over before the thread sleeps.
    assert!((400..=800).contains(&number(sleeps, "/slept")), "{sleeps}");
    assert_eq!(number(sleeps, "/threads"), 4);
    let culprit = &verdict(&look)[0];
    assert!(culprit.starts_with(&format!("The mutex {} costs", lock["name"].as_str().unwrap())), "{culprit}");
}

#[test]
fn a_python_thread_that_waits_for_others_to_end_is_not_one_that_works() {
    let _alone = asked_or_return!("a_python_thread_that_waits_for_others_to_end_is_not_one_that_works");
    let look = traced(&[&python(), &source("python/contended.py"), "100"]);
    // The four do nothing but hold the lock or wait for it, three at a time; the main thread joins them.
    let cost = share_after(&verdict(&look)[0], "costs");
    assert!(cost >= 80.0, "{cost} %: {}", verdict(&look)[0]);
}

#[test]
fn python_threads_that_compute_are_told_that_the_interpreter_s_lock_costs_them_their_time() {
    let _alone = asked_or_return!(
        "python_threads_that_compute_are_told_that_the_interpreter_s_lock_costs_them_their_time"
    );
    let look = traced(&[&python(), &source("python/interpreter_lock.py"), "4000000"]);
    assert_eq!(number(&look, "/creation/threads"), 4);
    let lock = &look["locks"][0];
    assert!(lock["name"].as_str().unwrap().contains("_PyRuntime"), "{lock}");
    // One computes while three wait: no work is what they lack.
    assert!(blocked_ns(lock) * 4 >= number(&look, "/wall_ns"), "{lock}");
    assert_eq!(lock["idle"], false, "{}: {}", lock["name"], lock["kind_because"]);
    assert_eq!(lock["kind"], "mutex", "{}: {}", lock["name"], lock["kind_because"]);
    let culprit = &verdict(&look)[0];
    assert!(culprit.starts_with("The mutex") && culprit.contains("_PyRuntime"), "{culprit}");
}

// ---------------------------------------------------------------- Java

/// A class of `tests/programs/java`, compiled into that folder.
fn java_class(folder: &Folder, class: &str) -> String {
    let compiler = program("javac", "openjdk-17-jdk-headless");
    let classes = folder.file("classes");
    succeed(Command::new(compiler).args(["-d", &classes, &source(&format!("java/{class}.java"))]));
    classes
}

#[test]
fn java_workers_that_wait_for_tasks_are_no_cost() {
    let _alone = asked_or_return!("java_workers_that_wait_for_tasks_are_no_cost");
    let folder = Folder::new("java-pool");
    let classes = java_class(&folder, "IdlePool");
    let mut java = Command::new(program("java", "openjdk-17-jre-headless"));
    java.args(["-cp", &classes, "IdlePool", "60"]).stdout(Stdio::piped());
    let mut java = Server::start(&mut java, libc::SIGTERM);
    let mut line = String::new();
    BufReader::new(java.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let named = |name: &str| {
        let tasks = fs::read_dir(format!("/proc/{}/task", java.pid())).unwrap().flatten();
        tasks
            .filter(|task| {
                fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.starts_with(name))
            })
            .count()
    };
    wait_until("eight workers", || named("pool-1-thread-") == 8);
    let look = attached(java.pid(), "--duration 2s");
    let workers: Vec<_> = rows(&look, "threads")
        .iter()
        .filter(|thread| thread["name"].as_str().unwrap().starts_with("pool-1-thread-"))
        .collect();
    assert_eq!(workers.len(), 8);
    assert!(workers.iter().all(|worker| worker["existed_before"] == true && worker["running"] == true));
    for worker in workers {
        assert!(number(worker, "/parts/blocked_ns") * 10 >= number(worker, "/parts/wall_ns") * 9, "{worker}");
    }
    for lock in rows(&look, "locks").iter().filter(|lock| blocked_ns(lock) >= 500_000_000) {
        assert_eq!(lock["idle"], true, "{lock}");
    }
    assert_no_accusation(&look);
    assert!(verdict(&look).iter().any(|sentence| sentence.starts_with("Idle waiters")));
}

#[test]
fn a_java_thread_for_each_task_is_told() {
    let _alone = asked_or_return!("a_java_thread_for_each_task_is_told");
    let folder = Folder::new("java-threads");
    let classes = java_class(&folder, "ThreadPerTask");
    let java = program("java", "openjdk-17-jre-headless");
    let look = traced(&[&java, "-cp", &classes, "ThreadPerTask", "2000"]);
    // The virtual machine has some of its own.
    let created = number(&look, "/creation/threads");
    assert!((2_000..2_100).contains(&created), "{created}");
    assert!(in_stacks(&look["creation"]["creators"], "JVM_StartThread"), "{}", look["creation"]["creators"]);
    let verdict = verdict(&look);
    assert!(verdict.iter().any(|sentence| sentence.starts_with("A thread for each task")), "{verdict:?}");
}

// ---------------------------------------------------------------- Go

#[test]
fn a_look_at_go_says_that_goroutines_are_not_visible() {
    let _alone = asked_or_return!("a_look_at_go_says_that_goroutines_are_not_visible");
    let folder = Folder::new("go");
    let binary = folder.file("goroutines");
    let mut compiler = Command::new(program("go", "golang-go"));
    compiler.args(["build", "-o", &binary, &source("go/goroutines.go")]);
    compiler.env("GOCACHE", folder.file("cache")).env("GO111MODULE", "off").env("CGO_ENABLED", "0");
    succeed(&mut compiler);
    let look = traced(&[&binary, "10"]);
    // Four thousand goroutines, a handful of threads.
    let threads: u64 = rows(&look, "threads").iter().map(|thread| number(thread, "/threads")).sum();
    assert!((2..=20).contains(&threads), "{threads}");
    let hidden = look["not_visible"].to_string();
    assert!(hidden.contains("goroutines"), "{hidden}");
    let parked = waits_in(&look, "locks", "runtime.stopm");
    assert!(!parked.is_empty(), "{}", look["locks"]);
    for lock in parked {
        assert_eq!(lock["kind"], "park", "{lock}");
    }
    for lock in waits_in(&look, "locks", "runtime.lock2") {
        assert_eq!(lock["kind"], "mutex", "{lock}");
    }
    // Its own functions have names where a thread sleeps itself.
    let resting = waits_in(&look, "sleeps", "main.rest");
    assert_eq!(resting.len(), 1, "{}", look["sleeps"]);
    assert!(resting[0]["call"].as_str().unwrap().contains("select"), "{}", resting[0]);
}

// ---------------------------------------------------------------- Rust

fn rust_program(folder: &Folder, name: &str) -> String {
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let binary = folder.file(name);
    let source = source(&format!("rust/{name}.rs"));
    succeed(Command::new(compiler).args(["--edition", "2024", "-O", "-g", "-o", &binary, &source]));
    binary
}

/// Who waits inside the standard library's mutex waits for a mutex, whatever that belongs to.
fn assert_mutexes_are_mutexes(look: &Value) {
    for lock in waits_in(look, "locks", "Mutex>::lock_contended") {
        assert_eq!(lock["kind"], "mutex", "{}: {}", lock["name"], lock["kind_because"]);
    }
}

#[test]
fn a_rust_mutex_is_named_with_those_who_wait_and_those_who_hold() {
    let _alone = asked_or_return!("a_rust_mutex_is_named_with_those_who_wait_and_those_who_hold");
    let folder = Folder::new("rust-mutex");
    let look = traced(&[&rust_program(&folder, "contended"), "100"]);
    assert_eq!(number(&look, "/creation/threads"), 4);
    let lock = &look["locks"][0];
    assert!(lock["name"].as_str().unwrap().starts_with("contended::DATA"), "{lock}");
    assert_eq!((&lock["kind"], number(lock, "/threads")), (&Value::from("mutex"), 4), "{lock}");
    assert!((200..=600).contains(&number(lock, "/slept")), "{lock}");
    for who in ["waiters", "wakers"] {
        assert!(in_stacks(&lock[who], "contended::take_and_hold"), "{who}: {}", lock[who]);
    }
    let mut names: Vec<&str> =
        rows(&look, "threads").iter().map(|thread| thread["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["contended", "worker 0", "worker 1", "worker 2", "worker 3"]);
    let culprit = &verdict(&look)[0];
    assert!(culprit.starts_with("The mutex contended::DATA"), "{culprit}");
    assert!(culprit.contains("mostly in contended::take_and_hold"), "{culprit}");
    // What other programs take of the CPUs is run-queue time, and in the whole.
    assert!(share_after(culprit, "costs") >= 75.0, "{culprit}");
    assert_mutexes_are_mutexes(&look);
}

#[test]
fn a_rust_channel_is_waited_at_and_no_cost() {
    let _alone = asked_or_return!("a_rust_channel_is_waited_at_and_no_cost");
    let folder = Folder::new("rust-channel");
    let look = traced(&[&rust_program(&folder, "channels"), "500"]);
    let lock = longest(&look);
    assert!(in_stacks(&lock["waiters"], "channels::consume"), "{lock}");
    assert_eq!((&lock["kind"], &lock["idle"]), (&Value::from("condition"), &Value::from(true)), "{lock}");
    // A message every 2 ms, each of which is waited for.
    assert!((450..=501).contains(&number(lock, "/slept")), "{lock}");
    assert_no_accusation(&look);
}

#[test]
fn the_mutex_inside_a_rust_channel_is_a_mutex() {
    let _alone = asked_or_return!("the_mutex_inside_a_rust_channel_is_a_mutex");
    let folder = Folder::new("rust-channel-mutex");
    let look = traced(&[&rust_program(&folder, "channels"), "500"]);
    assert_mutexes_are_mutexes(&look);
}

// ---------------------------------------------------------------- xz

#[test]
fn xz_with_two_threads_waits_for_work_and_contends_for_nothing() {
    let _alone = asked_or_return!("xz_with_two_threads_waits_for_work_and_contends_for_nothing");
    let folder = Folder::new("xz");
    // Numbers that look random take the most work.
    let mut state: u64 = 1;
    let data: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(8 << 20)
    .collect();
    fs::write(folder.file("data"), data).unwrap();
    let xz = program("xz", "xz-utils");
    let look = traced(&[&xz, "-T2", "-1", "--block-size=1MiB", "--keep", "--stdout", &folder.file("data")]);
    assert_eq!(rows(&look, "processes").len(), 1);
    assert_eq!(number(&look, "/creation/threads"), 2);
    assert_eq!(rows(&look, "threads").len(), 3);
    let waits: Vec<_> = waits_in(&look, "locks", "pthread_cond_")
        .into_iter()
        .filter(|lock| in_stacks(&lock["waiters"], "lzma_code"))
        .collect();
    // The main thread waits for blocks, most of the time.
    let waited: u64 =
        waits.iter().filter(|lock| lock["kind"] == "condition").map(|lock| blocked_ns(lock)).sum();
    assert!(waited * 2 >= number(&look, "/wall_ns"), "{waited} of {}", look["wall_ns"]);
    for lock in waits_in(&look, "locks", "lll_lock_wait") {
        assert_eq!(lock["kind"], "mutex", "{lock}");
    }
    assert_no_accusation(&look);
}

// ---------------------------------------------------------------- Redis

#[test]
fn redis_waits_in_epoll_idle_and_under_load() {
    let _alone = asked_or_return!("redis_waits_in_epoll_idle_and_under_load");
    let folder = Folder::new("redis");
    let socket = folder.file("socket");
    let mut server = Command::new(program("redis-server", "redis-server"));
    server.args(["--port", "0", "--unixsocket", &socket, "--save", "", "--dir", &folder.file("")]);
    let server = Server::start(server.stdout(Stdio::null()), libc::SIGTERM);
    let client = program("redis-cli", "redis-tools");
    wait_until("an answer of redis", || {
        let answer = output(Command::new(&client).args(["-s", &socket, "ping"]));
        answer.stdout == b"PONG\n"
    });

    let idle = attached(server.pid(), "--duration 1s");
    assert!(verdict(&idle)[0].starts_with("Nothing to fix here"), "{:?}", verdict(&idle));
    let threads = rows(&idle, "threads").len();
    assert!(threads >= 4, "its background threads: {threads}");
    assert!(rows(&idle, "threads").iter().all(|thread| thread["existed_before"] == true));
    assert!(rows(&idle, "locks").iter().all(|lock| lock["idle"] == true), "{}", idle["locks"]);
    assert_eq!(rows(&idle, "sleeps").len(), 1, "{}", idle["sleeps"]);
    assert_eq!(idle["sleeps"][0]["call"], "epoll_wait");
    // Ten times a second it looks after itself.
    assert!((5..=20).contains(&number(&idle, "/sleeps/0/slept")), "{}", idle["sleeps"][0]);
    assert!(in_stacks(&idle["sleeps"][0]["waiters"], "aeMain"), "{}", idle["sleeps"][0]["waiters"]);

    let mut benchmark = Command::new(program("redis-benchmark", "redis-tools"));
    benchmark.args(["-s", &socket, "-n", "100000000", "-c", "20", "-q", "-t", "get"]);
    let _benchmark = Server::start(benchmark.stdout(Stdio::null()), libc::SIGKILL);
    wait_until("work", || {
        let clients = output(Command::new(&client).args(["-s", &socket, "info", "clients"]));
        String::from_utf8_lossy(&clients.stdout).contains("connected_clients:21")
    });
    let busy = attached(server.pid(), "--duration 1s --syscalls");
    assert_no_accusation(&busy);
    let calls = |name: &str| {
        let found = rows(&busy, "calls").iter().find(|call| call["name"] == name);
        found.map_or(0, |call| number(call, "/calls"))
    };
    assert!(calls("read") >= 1_000 && calls("write") >= 1_000, "{}", busy["calls"]);
    assert!(calls("epoll_wait") >= 100, "{}", busy["calls"]);
    assert_eq!(rows(&busy, "polling").len(), 0, "{}", busy["polling"]);
    assert!(number(&busy, "/parts/on_cpu_ns") > number(&idle, "/parts/on_cpu_ns") * 10);
}

// ---------------------------------------------------------------- nginx

#[test]
fn nginx_is_looked_at_with_its_workers_until_it_is_told_to_end() {
    let _alone = asked_or_return!("nginx_is_looked_at_with_its_workers_until_it_is_told_to_end");
    let folder = Folder::new("nginx");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let below = folder.file("");
    let settings = format!(
        "worker_processes 2; pid {below}pid; error_log {below}error.log; daemon off; events {{}}
         http {{
           access_log off;
           client_body_temp_path {below}body; proxy_temp_path {below}proxy; fastcgi_temp_path {below}fastcgi;
           uwsgi_temp_path {below}uwsgi; scgi_temp_path {below}scgi;
           server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"hello\"; }} }}
         }}"
    );
    fs::write(folder.file("nginx.conf"), settings).unwrap();
    let nginx = program("nginx", "nginx");
    let result = folder.file("result.json");
    let settings = folder.file("nginx.conf");
    let command = [&nginx, "-e", "stderr", "-p", &below, "-c", &settings];
    let mut look = Server::start(&mut trace(&format!("-o {result}"), &command), libc::SIGTERM);
    wait_until("nginx", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let load = succeed(Command::new(program("ab", "apache2-utils")).args([
        "-q",
        "-n",
        "5000",
        "-c",
        "10",
        &format!("http://127.0.0.1:{port}/"),
    ]));
    let load = String::from_utf8_lossy(&load.stdout).into_owned();
    assert!(load.contains("Complete requests:      5000"), "{load}");
    assert!(load.contains("Failed requests:        0"), "{load}");
    assert_eq!(look.stop(), Some(0), "nginx ends well when told to");
    let look = sound(folder.json("result.json"));
    assert_eq!(look["interrupted_by"], libc::SIGTERM);
    assert_eq!(number(&look, "/creation/processes"), 2);
    let processes = rows(&look, "processes");
    assert_eq!(processes.len(), 3, "{}", look["processes"]);
    let master = processes.iter().find(|process| process["pid"] == look["pid"]).unwrap();
    for worker in processes.iter().filter(|process| process["pid"] != look["pid"]) {
        assert_eq!(worker["host_parent"], master["host_pid"]);
        assert_eq!(worker["name"], "nginx");
        assert_eq!(worker["running"], false);
        let sleeps =
            rows(&look, "sleeps").iter().find(|sleep| sleep["host_pid"] == worker["host_pid"]).unwrap();
        assert_eq!(sleeps["call"], "epoll_wait");
        assert!(in_stacks(&sleeps["waiters"], "ngx_process_events_and_timers"), "{sleeps}");
    }
    let waits = waits_in(&look, "sleeps", "ngx_master_process_cycle");
    assert!(
        waits.iter().any(|wait| wait["call"] == "rt_sigsuspend" && wait["host_pid"] == master["host_pid"])
    );
    assert_no_accusation(&look);
}

// ---------------------------------------------------------------- PostgreSQL

/// A cluster of databases with a table that has one row, in a folder and with a socket of its own.
struct Cluster {
    folder: Folder,
}

impl Cluster {
    fn new(name: &str) -> Self {
        let cluster = Self { folder: Folder::new(name) };
        let init = program("initdb", "postgresql");
        succeed(&mut cluster.as_postgres(&init, &["-D", &cluster.data(), "-A", "trust", "--no-sync"]));
        fs::write(cluster.folder.file("row.sql"), "update one set n = n + 1 where id = 1;\n").unwrap();
        cluster
    }

    fn data(&self) -> String {
        self.folder.file("data")
    }

    /// PostgreSQL refuses to run as root.
    fn as_postgres(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups", "--", program]);
        command.args(arguments).current_dir(self.folder.file("")).env("HOME", self.folder.file(""));
        command
    }

    fn server(&self) -> Vec<String> {
        let folder = self.folder.file("");
        let mut command = vec![program("postgres", "postgresql"), "-D".to_owned(), self.data()];
        for setting in ["listen_addresses=", &format!("unix_socket_directories={folder}"), "autovacuum=off"] {
            command.extend(["-c".to_owned(), setting.to_owned()]);
        }
        command
    }

    fn ask(&self, query: &str) -> Option<String> {
        let psql = program("psql", "postgresql-client");
        let answer = output(&mut self.as_postgres(&psql, &["-h", &self.folder.file(""), "-Atqc", query]));
        answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    }

    fn await_server(&self) {
        wait_until("an answer of PostgreSQL", || self.ask("select 1").is_some());
        self.ask("create table one(id int primary key, n int); insert into one values (1, 0)").unwrap();
    }

    /// Eight sessions that all change the same row.
    fn load(&self, seconds: u32) -> Command {
        let pgbench = program("pgbench", "postgresql");
        let (folder, script) = (self.folder.file(""), self.folder.file("row.sql"));
        let seconds = seconds.to_string();
        let mut command = self.as_postgres(
            &pgbench,
            &["-h", &folder, "-n", "-c", "8", "-j", "2", "-T", &seconds, "-f", &script, "postgres"],
        );
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

#[test]
fn a_postgresql_session_waits_for_a_contended_row_in_epoll() {
    let _alone = asked_or_return!("a_postgresql_session_waits_for_a_contended_row_in_epoll");
    let cluster = Cluster::new("session");
    let server = cluster.server();
    let arguments: Vec<&str> = server[1..].iter().map(String::as_str).collect();
    let mut server = cluster.as_postgres(&server[0], &arguments);
    let mut server = Server::start(server.stdout(Stdio::null()).stderr(Stdio::null()), libc::SIGINT);
    cluster.await_server();
    let load = Server::start(&mut cluster.load(60), libc::SIGTERM);
    let sessions = "select pid from pg_stat_activity where application_name = 'pgbench'";
    wait_until("eight sessions", || cluster.ask(sessions).is_some_and(|pids| pids.lines().count() == 8));
    let session = cluster.ask(sessions).unwrap().lines().next().unwrap().parse().unwrap();
    let look = attached(session, "--duration 2s");
    assert_eq!(rows(&look, "processes").len(), 1);
    assert_eq!(rows(&look, "threads").len(), 1);
    let waits = &look["sleeps"][0];
    assert_eq!(waits["call"], "epoll_wait", "{}", look["sleeps"]);
    assert!(number(waits, "/slept") >= 50, "{waits}");
    assert!(in_stacks(&waits["waiters"], "ProcSleep"), "who waits for a row: {}", waits["waiters"]);
    assert!(in_stacks(&waits["waiters"], "PostgresMain"), "{}", waits["waiters"]);
    for lock in rows(&look, "locks") {
        assert_eq!(lock["kind"], "semaphore", "{lock}");
        assert!(lock["shared"].is_object(), "in memory that the processes share: {lock}");
    }
    drop(load);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_whole_postgresql_server_is_looked_at_with_all_its_processes() {
    let _alone = asked_or_return!("a_whole_postgresql_server_is_looked_at_with_all_its_processes");
    let cluster = Cluster::new("server");
    let result = cluster.folder.file("result.json");
    let server = cluster.server();
    let words: Vec<&str> = server.iter().map(String::as_str).collect();
    let mut command = trace(&format!("--user postgres -o {result}"), &words);
    command.current_dir(cluster.folder.file("")).stderr(Stdio::null());
    let mut server = Server::start(&mut command, libc::SIGINT);
    cluster.await_server();
    succeed(&mut cluster.load(3));
    let created = cluster.ask("select n from one").unwrap().parse::<u64>().unwrap();
    assert!(created > 100, "{created} changes");
    assert_eq!(server.stop(), Some(0), "a fast shutdown");
    let look = sound(cluster.folder.json("result.json"));
    assert_eq!(look["interrupted_by"], libc::SIGINT);
    let processes = rows(&look, "processes");
    let postmaster = processes.iter().find(|process| process["pid"] == look["pid"]).unwrap();
    assert_eq!(processes.len() as u64, number(&look, "/creation/processes") + 1);
    assert!(processes.len() >= 1 + 4 + 8, "its own, and a session for each client: {}", processes.len());
    for process in processes {
        assert_eq!(process["running"], false, "{process}");
        assert_eq!(
            (&process["name"], number(process, "/threads")),
            (&Value::from("postgres"), 1),
            "{process}"
        );
        if process["pid"] != look["pid"] {
            assert_eq!(process["host_parent"], postmaster["host_pid"], "{process}");
        }
    }
    // Rows are waited for in epoll_wait, its short locks at semaphores in shared memory.
    let mut rows_waited_for = waits_in(&look, "sleeps", "ProcSleep");
    let all = rows_waited_for.len();
    rows_waited_for.retain(|wait| wait["call"] == "epoll_wait");
    assert!(rows_waited_for.len() >= 8, "{} of {all} places", rows_waited_for.len());
    let short_locks = waits_in(&look, "locks", "LWLockAcquire");
    assert!(!short_locks.is_empty(), "{}", look["locks"]);
    let mut words: Vec<String> = Vec::new();
    for lock in short_locks {
        assert!(in_stacks(&lock["waiters"], "PGSemaphoreLock"), "{lock}");
        assert!(lock["shared"]["inode"].is_u64(), "{lock}");
        words.push(lock["shared"].to_string());
    }
    let all = words.len();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), all, "each word is one row, whoever slept there");
}
