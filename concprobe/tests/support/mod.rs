//! Runs the real program and reads its JSON.
#![allow(dead_code, reason = "each test file uses what it needs")]

pub mod seen;

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Held by a test that counts: classic tracepoint programs do not run while another process is inside a
/// BPF map operation on that CPU, as a run that starts at the same moment is.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program, with arguments separated by spaces.
pub fn concprobe(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_concprobe"));
    command.args(arguments.split_whitespace());
    heeding_signals(&mut command);
    command
}

/// Lets the program heed the signals of a terminal, also where nohup(1) or a shell's `&` started the tests.
pub fn heeding_signals(command: &mut Command) -> &mut Command {
    let heed = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: a plain system call, which a process between fork and exec may make.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: see above.
    unsafe { command.pre_exec(heed) }
}

/// Its output, whatever its exit status.
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
}

/// What it wrote to stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The result of a run, which must have ended well.
pub fn result(arguments: &str) -> Value {
    let output = output(concprobe(arguments).arg("--json"));
    let result = parse(&output);
    assert_nothing_lost(arguments, &result);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments}: {}", stderr(&output));
    assert_eq!(
        output.status.code() == Some(1),
        number(&result, "/lost") > 0,
        "{arguments}: {}",
        stderr(&output)
    );
    result
}

/// The result of `trace` with these options of the program itself with those arguments.
pub fn look(options: &str, arguments: &str) -> Value {
    let mut command = concprobe(&format!("trace --json {options} --"));
    command.arg(env!("CARGO_BIN_EXE_concprobe")).args(arguments.split_whitespace());
    let output = output(&mut command);
    assert_eq!(output.status.code(), Some(0), "{options} {arguments}: {}", stderr(&output));
    parse(&output)
}

/// One of the C programs in `tests/programs`, compiled once for each file of tests; a line `// cc: …` in it has what
/// the compiler is to be told beside.
pub fn program(name: &str) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let of_this_file = env::current_exe().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(of_this_file.file_name().unwrap())
        .with_extension("programs");
    let program = folder.join(name);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.insert(name.to_owned()) {
        fs::create_dir_all(&folder).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-pthread", "-w", "-o"]).arg(&program).arg(&source);
        let text = fs::read_to_string(&source).unwrap();
        compiler.args(
            text.lines().find_map(|line| line.strip_prefix("// cc: ")).unwrap_or("").split_whitespace(),
        );
        let output = output(&mut compiler);
        assert!(output.status.success(), "cannot compile {}: {}", source.display(), stderr(&output));
    }
    program
}

/// Nothing is lost but the ends of futex waits at which the kernel says that it left a program out: newer
/// kernels (7.x) do, when the program for the thread that ran before was preempted.
pub fn assert_nothing_lost(arguments: &str, result: &Value) {
    let unknown_ends = number(result, "/losses/unknown_wait_end");
    assert_eq!(number(result, "/lost"), unknown_ends, "{arguments}: {}", result["losses"]);
    assert!(unknown_ends <= number(result, "/probe/missed_runs"), "{arguments}: {}", result["losses"]);
}

/// The JSON on stdout.
pub fn parse(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("stdout is not JSON: {error}; stderr: {}", stderr(output)))
}

/// A count that must be there.
pub fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number at {path}"))
}

/// Ops in a class.
pub fn class(value: &Value, class: &str) -> u64 {
    number(value, &format!("/classes/{class}/count"))
}

/// The sum over the five classes.
pub fn classed(value: &Value) -> u64 {
    ["fast", "kernel", "preempted", "slept", "created"].iter().map(|name| class(value, name)).sum()
}

/// Every thread's parts add up to its wall time within 1 %.
pub fn assert_conservation(value: &Value) {
    for thread in value["threads"].as_array().unwrap() {
        let part = |name: &str| thread["parts"][name].as_i64().unwrap();
        let sum = part("on_cpu_ns") + part("blocked_ns") + part("run_queue_ns");
        assert_eq!(sum + part("unaccounted_ns"), part("wall_ns"), "{thread}");
        assert!(part("unaccounted_ns").abs() * 100 <= part("wall_ns"), "{thread}");
        assert_eq!(part("user_ns") + part("kernel_ns"), part("on_cpu_ns"), "{thread}");
    }
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "never saw: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Spinning processes; ended when dropped.
pub struct Load(Vec<Child>);

impl Load {
    /// Starts that many.
    pub fn start(processes: usize) -> Self {
        let spinner = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh starts");
        Self((0..processes).map(spinner).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A folder that everybody may write to, gone at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty one; no other test of this process may have one of that name.
    pub fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("concprobe-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// What a file in it holds.
    pub fn json(&self, name: &str) -> Value {
        let text = fs::read(self.0.join(name)).unwrap();
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As in a root shell, also where the tests themselves run through sudo.
pub fn not_under_sudo(command: &mut Command) -> &mut Command {
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "SUDO_HOME", "SUDO_TTY"] {
        command.env_remove(name);
    }
    command
}
