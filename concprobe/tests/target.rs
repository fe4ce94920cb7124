//! Commands are started as if concprobe were not there, signals reach them once, and running processes are
//! found and seen to end. As root. Where a whole process is needed, this program starts itself.
#![allow(clippy::print_stderr, reason = "a test that is not done says why")]

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use concprobe::target::{
    Announcement, Ending, Event, Existing, Exit, Held, Identity, NotStarted, Running, Signals, Wish,
};

const DEADLINE: Duration = Duration::from_secs(10);

// ---------------------------------------------------------------- support

/// A folder that everybody may write to, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("concprobe-target-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(began.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn oneself() -> Identity {
    Identity::of(None, 0, |_| None).unwrap()
}

fn under_sudo(uid: u32, gid: u32) -> Identity {
    Identity::of(None, 0, |name| match name {
        "SUDO_UID" => Some(uid.to_string().into()),
        "SUDO_GID" => Some(gid.to_string().into()),
        _ => None,
    })
    .unwrap()
}

fn run(command: &[&str], identity: &Identity) -> Result<Ending, NotStarted> {
    runtime().block_on(async {
        let mut running = Held::start(&words(command), identity, None)?.release().await?;
        Ok(running.wait().await.unwrap())
    })
}

fn exit(command: &[&str]) -> Exit {
    run(command, &oneself()).unwrap().exit
}

fn failure(command: &[&str], identity: &Identity) -> (i32, String) {
    let error = run(command, identity).unwrap_err();
    (error.shell_status(), error.to_string())
}

/// What a shell script prints when run as somebody, line by line.
fn lines_as(identity: &Identity, name: &str, script: &str) -> Vec<String> {
    let folder = Folder::new(name);
    let script = format!("exec > {}; {script}", folder.path("out"));
    let ending = run(&["sh", "-c", &script], identity).unwrap();
    assert_eq!(ending.exit, Exit::Status(0), "{script}");
    folder.read("out").lines().map(str::to_owned).collect()
}

/// The state of a process as in ps(1), `Z` when there is none.
fn state(pid: i32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('Z')
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "kill {signal} to {pid}");
}

/// A process of this program that starts a command as concprobe would.
struct Helper {
    child: Child,
    folder: Folder,
}

fn helper_command(folder: &Folder, job: &str, command: &[&str]) -> Vec<(String, String)> {
    vec![
        ("HELPER_JOB".to_owned(), job.to_owned()),
        ("HELPER_COMMAND".to_owned(), command.join("\x1f")),
        ("HELPER_LOG".to_owned(), folder.path("log")),
    ]
}

fn helper_arguments() -> Vec<String> {
    let program = env::current_exe().unwrap().display().to_string();
    let mut arguments = vec![program];
    arguments.extend(["--exact", "helper", "--ignored", "--nocapture", "--test-threads=1"].map(Into::into));
    arguments
}

impl Helper {
    fn start(name: &str, job: &str, command: &[&str]) -> Self {
        Self::start_through(name, &[], job, command)
    }

    /// Through another program, such as nohup(1); in a process group of its own.
    fn start_through(name: &str, through: &[&str], job: &str, command: &[&str]) -> Self {
        let folder = Folder::new(name);
        let command: Vec<String> =
            command.iter().map(|word| word.replace("FOLDER", &folder.path(""))).collect();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let mut all: Vec<String> = through.iter().map(|word| (*word).to_owned()).collect();
        all.extend(helper_arguments());
        let child = Command::new(&all[0])
            .args(&all[1..])
            .envs(helper_command(&folder, job, &command))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn log(&self) -> Vec<String> {
        self.folder.read("log").lines().map(str::to_owned).collect()
    }

    /// Waits for a line that begins so, and gives the rest of it.
    fn wait_for(&self, beginning: &str) -> String {
        wait_for(&format!("{beginning} in {:?}", self.folder.path("log")), || {
            // A line is complete when its end is there.
            let log = self.folder.read("log");
            let complete = &log[..log.rfind('\n').map_or(0, |at| at + 1)];
            complete.lines().find_map(|line| line.strip_prefix(beginning)).map(|rest| rest.trim().to_owned())
        })
    }

    fn command_pid(&self) -> i32 {
        self.wait_for("held").parse().unwrap()
    }

    fn wait_for_file(&self, name: &str) {
        wait_until(name, || self.folder.0.join(name).exists());
    }

    /// What happened between the start and the end.
    fn events(&mut self) -> Vec<String> {
        self.wait_for("ended");
        wait_until("the helper ends", || self.child.try_wait().unwrap().is_some());
        self.log().into_iter().filter(|line| line.starts_with("wish") || line.starts_with("ended")).collect()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "not a test: the process that other tests start"]
fn helper() {
    let Ok(job) = env::var("HELPER_JOB") else { return };
    let log = env::var("HELPER_LOG").unwrap();
    let say = move |line: String| {
        use std::io::Write as _;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    let command: Vec<OsString> = env::var("HELPER_COMMAND").unwrap().split('\x1f').map(Into::into).collect();
    if job == "threads" {
        for number in 0..3 {
            thread::Builder::new().name(format!("number {number}")).spawn(park).unwrap();
        }
        say("ready".to_owned());
        park();
    }
    let status = runtime().block_on(async {
        let mut signals = Signals::listen().unwrap();
        if job == "disturb" {
            disturb();
        }
        let held = Held::start(&command, &oneself(), None).unwrap();
        say(format!("held {}", held.pid()));
        if job == "hold" {
            std::future::pending::<()>().await;
        }
        let mut running = held.release().await.unwrap();
        if job == "old" {
            running = running.without_descriptor().unwrap();
        }
        say("running".to_owned());
        loop {
            match running.next(&mut signals).await.unwrap() {
                Event::Wish(Wish::First(signal)) => say(format!("wish first {signal}")),
                Event::Wish(Wish::Again(signal)) => say(format!("wish again {signal}")),
                Event::Ended(Ending { exit, .. }) => {
                    say(format!("ended {}", exit.shell_status()));
                    break exit.shell_status();
                }
            }
        }
    });
    std::process::exit(status);
}

/// The main thread is not a test's to end, but before `main` it can be.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn end_main_thread() {
        if env::var_os("HELPER_JOB").is_some_and(|job| job == "main-thread-ends") {
            thread::Builder::new().name("last one".to_owned()).spawn(park).unwrap();
            // SAFETY: ends this thread alone.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
    }
    end_main_thread
};

fn park() {
    loop {
        thread::park();
    }
}

/// What concprobe might do to itself before it starts a command.
fn disturb() {
    // SAFETY: plain system calls on local values.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited);
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        libc::sigaddset(&raw mut mask, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        libc::signal(libc::SIGALRM, libc::SIG_IGN);
        // Two that exec would not close.
        assert!(libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY) >= 0);
        assert!(libc::fcntl(0, libc::F_DUPFD, 100) >= 100);
    }
}

// ---------------------------------------------------------------- who it runs as

const WHO: &str =
    "id -u; id -g; id -G; id -ru; echo $HOME $USER $LOGNAME $SHELL; env | grep -c ^SUDO_ || true";

#[test]
fn under_sudo_the_command_runs_as_the_caller() {
    let nobody = under_sudo(65534, 65534);
    assert_eq!(nobody.owner(), Some((65534, 65534)));
    let lines = lines_as(&nobody, "sudo", WHO);
    let shell = if cfg!(target_os = "linux") { "/nonexistent nobody nobody" } else { "" };
    assert_eq!(lines[..4], ["65534", "65534", "65534", "65534"]);
    assert!(lines[4].starts_with(shell), "{lines:?}");
    assert_eq!(lines[5], "0", "variables of sudo");
}

#[test]
fn a_caller_without_an_account_is_a_pair_of_numbers() {
    let lines = lines_as(&under_sudo(424_242, 4_343), "numbers", WHO);
    assert_eq!(lines, ["424242", "4343", "4343", "424242", "/ 424242 424242 /bin/sh", "0"]);
}

#[test]
fn the_user_option_names_an_account() {
    let identity = Identity::find(Some("nobody")).unwrap();
    assert_eq!(identity.owner(), None, "a root shell's files are root's");
    let lines = lines_as(&identity, "nobody", WHO);
    assert_eq!(lines[..4], ["65534", "65534", "65534", "65534"]);
    // Capabilities are gone with the user.
    let lines = lines_as(&identity, "nobody-caps", "grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status");
    assert!(lines.iter().all(|line| line.ends_with("\t0000000000000000")), "{lines:?}");
}

#[test]
fn an_accounts_groups_are_all_its_groups() {
    // The first account that is in more than one group, if this machine has one.
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let names = passwd.lines().filter_map(|line| line.split(':').next()).filter(|name| *name != "root");
    let mut checked = 0;
    for name in names {
        let output = Command::new("id").args(["-G", name]).output().unwrap();
        let mut expected: Vec<String> =
            String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect();
        let lines = lines_as(&Identity::find(Some(name)).unwrap(), &format!("groups-{name}"), "id -G");
        let mut found: Vec<String> = lines[0].split_whitespace().map(str::to_owned).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{name}");
        checked += 1;
        if checked > 5 {
            break;
        }
    }
}

#[test]
fn an_unknown_user_is_an_error_that_names_them() {
    let error = Identity::find(Some("no-such-user")).unwrap_err().to_string();
    assert!(error.contains("there is no user \"no-such-user\""), "{error}");
}

#[test]
fn without_sudo_the_environment_is_untouched() {
    let identity = oneself();
    assert_eq!(identity.owner(), None);
    let home = env::var("HOME").unwrap_or_default();
    assert_eq!(lines_as(&identity, "untouched", "id -u; echo $HOME"), ["0", home.as_str()]);
}

#[test]
fn what_root_may_run_and_the_user_may_not_is_not_run() {
    let folder = Folder::new("forbidden");
    let script = folder.path("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(exit(&[&script]), Exit::Status(0));
    let (status, error) = failure(&[&script], &under_sudo(65534, 65534));
    assert_eq!(status, 126);
    assert!(error.contains("Permission denied"), "{error}");
}

// ---------------------------------------------------------------- how it starts

#[test]
fn what_does_not_start_has_a_shells_status_and_a_reason() {
    let folder = Folder::new("failures");
    folder.write("text", "x");
    folder.write("lost", "#!/no/such/interpreter\n");
    fs::set_permissions(folder.path("lost"), fs::Permissions::from_mode(0o755)).unwrap();
    let (text, lost, missing) = (folder.path("text"), folder.path("lost"), folder.path("missing"));
    let below = format!("{text}/below");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["no-such-command-at-all"], 127, "no such command in the folders of PATH"),
        (&[&missing], 127, "there is no such file"),
        (&[&below], 127, "there is no such file"),
        (&[""], 127, "no command was named"),
        (&[], 127, "no command was named"),
        (&[&lost], 127, "interpreter"),
        (&[&text], 126, "Permission denied"),
        (&["/"], 126, "Permission denied"),
    ];
    for (command, status, reason) in cases {
        let (found, error) = failure(command, &oneself());
        assert_eq!(found, *status, "{command:?}: {error}");
        assert!(error.contains(reason), "{command:?}: {error}");
    }
}

#[test]
fn a_script_that_names_no_interpreter_is_the_shells() {
    let folder = Folder::new("script");
    folder.write("script", "echo \"$0 $1 $2\" > \"$1\"; exit 7\n");
    let script = folder.path("script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let out = folder.path("out");
    assert_eq!(exit(&[&script, &out, "a b"]), Exit::Status(7));
    assert_eq!(folder.read("out"), format!("{script} {out} a b\n"));
}

#[test]
fn exit_statuses_and_signals_are_told_apart() {
    assert_eq!(exit(&["sh", "-c", "exit 42"]), Exit::Status(42));
    assert_eq!(exit(&["sh", "-c", "exit 137"]), Exit::Status(137));
    let killed = exit(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed, Exit::Signal { number: 9, core_dumped: false });
    assert_eq!(killed.shell_status(), 137);
    let old = runtime().block_on(async {
        let held = Held::start(&words(&["sh", "-c", "sleep 0.1; exit 9"]), &oneself(), None).unwrap();
        let mut running = held.release().await.unwrap().without_descriptor().unwrap();
        let first = running.wait().await.unwrap();
        assert_eq!(running.wait().await.unwrap(), first, "the same answer ever after");
        first
    });
    assert_eq!(old.exit, Exit::Status(9));
}

#[test]
fn what_the_command_used_is_told() {
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let usage = run(&["sh", "-c", script], &oneself()).unwrap().usage;
    assert!(usage.user > Duration::from_millis(20), "{usage:?}");
    let usage = run(&["sleep", "0.2"], &oneself()).unwrap().usage;
    assert!(usage.user + usage.system < Duration::from_millis(150), "{usage:?}");
    let usage = run(&["dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1", "status=none"], &oneself());
    let peak = usage.unwrap().usage.peak_bytes.unwrap();
    assert!((256 << 20..300 << 20).contains(&peak), "{peak}");
}

/// What a process can see of how it was started.
const SEEN: &str = r#"
    exec > "$SEEN"
    grep -E '^(Sig(Blk|Ign|Cgt|Pnd)|ShdPnd|Uid|Gid|Groups|Umask|Cap|NoNewPrivs|Seccomp:|Cpus_allowed:)' /proc/self/status
    cat /proc/self/limits /proc/self/oom_score_adj /proc/self/cgroup
    cut -d ')' -f 2 /proc/$$/stat | cut -d ' ' -f 5,7,18,19
    cat /proc/$$/cmdline | tr '\0' ' '; echo
    pwd
    tr '\0' '\n' < /proc/$$/environ
    for descriptor in /proc/$$/fd/*; do echo "${descriptor##*/}"; readlink $descriptor; done
    true
"#;

#[test]
fn a_command_sees_no_difference_to_a_bare_run() {
    let wrappers: &[&[&str]] = &[
        &["env"],
        &["env", "--ignore-signal=PIPE"],
        &[
            "env",
            "--ignore-signal=HUP,CHLD,INT",
            "--block-signal=USR1,WINCH,ALRM",
            "ODD=",
            "PATH=/usr/bin:/bin",
        ],
        &["nohup"],
        &[
            "sh",
            "-c",
            "ulimit -S -n 200; ulimit -l 64; umask 027; cd /; exec \"$@\" 7</dev/null 9</proc/version <&-",
            "sh",
        ],
        &["nice", "-n", "5"],
        &["env", "-u", "PATH"],
    ];
    let folder = Folder::new("seen");
    let seen = folder.path("seen");
    let commands: &[&[&str]] = &[&["sh", "-c", SEEN], &["cp", "/proc/self/status", &seen]];
    for (wrapper, command) in wrappers.iter().flat_map(|it| commands.iter().map(move |command| (it, command)))
    {
        let see = |inner: &[String]| {
            let _ = fs::remove_file(folder.path("seen"));
            let _ = fs::remove_file(folder.path("log"));
            let ran = Command::new(wrapper[0])
                .args(&wrapper[1..])
                .args(inner)
                .envs(helper_command(&folder, "disturb", command))
                .env("SEEN", &seen)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .output()
                .unwrap();
            assert_eq!(ran.status.code(), Some(0), "{wrapper:?} {}", folder.read("log"));
            // Of the file that was copied, what does not differ from run to run.
            let seen = folder.read("seen");
            let settings =
                |line: &&str| command[0] == "sh" || (line.starts_with("Sig") && !line.starts_with("SigQ:"));
            seen.lines().filter(settings).collect::<Vec<_>>().join("\n")
        };
        let bare = see(&command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let through = see(&helper_arguments());
        assert!(bare.contains("SigIgn:"), "{bare}");
        let differing = |one: &str, other: &str| -> Vec<String> {
            one.lines().filter(|line| !other.lines().any(|known| known == *line)).map(str::to_owned).collect()
        };
        let (more, less) = (differing(&through, &bare), differing(&bare, &through));
        assert!(through == bare, "{wrapper:?}: {more:?} instead of {less:?}");
    }
}

#[test]
fn the_command_is_in_the_same_group_and_session_and_a_child() {
    let mut helper = Helper::start(
        "group",
        "run",
        &[
            "sh",
            "-c",
            "cut -d ')' -f 2 /proc/$$/stat > FOLDER/stat; cut -d ')' -f 2 /proc/$PPID/stat >> FOLDER/stat",
        ],
    );
    assert_eq!(helper.events(), ["ended 0"]);
    let stat = helper.folder.read("stat");
    let fields: Vec<Vec<&str>> = stat.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(fields[0][1], helper.pid().to_string(), "parent");
    assert_eq!(fields[0][2], helper.pid().to_string(), "group");
    assert_eq!(fields[0][3..5], fields[1][3..5], "session and terminal");
}

#[test]
fn a_held_command_has_not_begun_and_announces_itself_as_often_as_asked() {
    let folder = Folder::new("held");
    runtime().block_on(async {
        let command = words(&["touch", &folder.path("begun")]);
        let announcement = Some(Announcement { session: 0x1234_5678_9abc, cookie: 7 });
        let held = Held::start(&command, &oneself(), announcement).unwrap();
        for _ in 0..100 {
            held.announce().unwrap();
        }
        assert!(!Path::new(&folder.path("begun")).exists());
        let pid = held.pid();
        let mut running = held.release().await.unwrap();
        assert_eq!(running.pid(), pid);
        assert_eq!(running.wait().await.unwrap().exit, Exit::Status(0));
        assert!(Path::new(&folder.path("begun")).exists());
    });
}

#[test]
fn a_held_command_that_is_dropped_or_killed_is_gone() {
    runtime().block_on(async {
        let held = Held::start(&words(&["true"]), &oneself(), None).unwrap();
        let pid = held.pid();
        drop(held);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "not even a zombie");
        let held = Held::start(&words(&["true"]), &oneself(), None).unwrap();
        held.child().send(libc::SIGTERM);
        wait_until("it ends", || state(held.pid()) == 'Z');
        assert!(held.announce().unwrap_err().to_string().contains("it has ended"));
        let ending = held.release().await.unwrap().wait().await.unwrap();
        assert_eq!(ending.exit.shell_status(), 143);
    });
}

/// The children of a process, whichever thread made them.
fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let children: String =
        tasks.map(|task| fs::read_to_string(task.join("children")).unwrap_or_default() + " ").collect();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_held_command_ends_with_a_killed_concprobe() {
    let mut helper = Helper::start("orphan-held", "hold", &["true"]);
    let command = helper.command_pid();
    let children = children(helper.pid());
    assert!(children.contains(&command), "{children:?}");
    assert_eq!(children.len(), 2, "the command and the witness");
    kill(helper.pid(), libc::SIGKILL);
    helper.child.wait().unwrap();
    for child in children {
        wait_until("it ends", || state(child) == 'Z');
    }
}

#[test]
fn a_released_command_outlives_a_killed_concprobe() {
    let script = "while [ -d FOLDER ] && ! [ -e FOLDER/go ]; do sleep 0.01; done; echo $PPID > FOLDER/done";
    let mut helper = Helper::start("orphan-released", "run", &["sh", "-c", script]);
    let command = helper.command_pid();
    helper.wait_for("running");
    let witness = children(helper.pid()).into_iter().find(|child| *child != command).unwrap();
    kill(helper.pid(), libc::SIGKILL);
    helper.child.wait().unwrap();
    wait_until("the witness ends", || state(witness) == 'Z');
    assert!(matches!(state(command), 'R' | 'S' | 'D'), "{}", state(command));
    helper.folder.write("go", "");
    helper.wait_for_file("done");
    wait_until("it ends", || state(command) == 'Z');
}

// ---------------------------------------------------------------- signals

/// Counts signals in files until told to end.
const COUNTING: &str = r"
    exec 2> /dev/null
    for name in INT TERM HUP QUIT USR1; do trap 'echo '$name' >> FOLDER/got' $name; done
    touch FOLDER/ready
    while [ -d FOLDER ] && ! [ -e FOLDER/go ]; do sleep 0.01; done
    exit 3";

fn counting(name: &str, through: &[&str]) -> Helper {
    let helper = Helper::start_through(name, through, "run", &["sh", "-c", COUNTING]);
    helper.wait_for_file("ready");
    helper
}

/// Lets the command end, and gives what happened and what signals it counted.
fn conclude(mut helper: Helper) -> (Vec<String>, String) {
    helper.folder.write("go", "");
    let events = helper.events();
    (events, helper.folder.read("got").replace('\n', " "))
}

const ENDING: [(i32, &str); 4] =
    [(libc::SIGINT, "INT"), (libc::SIGTERM, "TERM"), (libc::SIGHUP, "HUP"), (libc::SIGQUIT, "QUIT")];

#[test]
fn a_signal_to_concprobe_alone_is_passed_on_once() {
    for (signal, name) in ENDING {
        let helper = counting(&format!("alone-{name}"), &[]);
        kill(helper.pid(), signal);
        helper.wait_for(&format!("wish first {signal}"));
        helper.wait_for_file("got");
        let (events, got) = conclude(helper);
        assert_eq!(events, [format!("wish first {signal}"), "ended 3".to_owned()]);
        assert_eq!(got, format!("{name} "));
    }
}

#[test]
fn a_signal_to_the_whole_group_reaches_the_command_once() {
    for (signal, name) in ENDING {
        let helper = counting(&format!("whole-{name}"), &[]);
        kill(-helper.pid(), signal);
        // Nothing is passed on after this.
        helper.wait_for(&format!("wish first {signal}"));
        helper.wait_for_file("got");
        let (events, got) = conclude(helper);
        assert_eq!(events, [format!("wish first {signal}"), "ended 3".to_owned()]);
        assert_eq!(got, format!("{name} "));
    }
}

#[test]
fn timeout_which_signals_concprobe_and_the_group_ends_the_command_once() {
    let helper =
        Helper::start_through("timeout", &["timeout", "-s", "TERM", "1"], "run", &["sh", "-c", COUNTING]);
    helper.wait_for_file("ready");
    helper.wait_for("wish first 15");
    helper.wait_for_file("got");
    let folder = &helper.folder;
    folder.write("go", "");
    helper.wait_for("ended 3");
    assert_eq!(folder.read("got"), "TERM\n");
    assert_eq!(helper.log().iter().filter(|line| line.starts_with("wish")).count(), 1, "one wish");
}

#[test]
fn the_terminals_interrupt_reaches_the_command_once() {
    use std::io::Write as _;
    // It makes a terminal and a session for the command.
    let terminal = ["sh", "-c", "exec script -qec \"$*\" /dev/null", "sh"];
    let mut helper = Helper::start_through("terminal", &terminal, "run", &["sh", "-c", COUNTING]);
    helper.wait_for_file("ready");
    helper.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    helper.wait_for("wish first 2");
    helper.wait_for_file("got");
    helper.folder.write("go", "");
    helper.wait_for("ended 3");
    assert_eq!(helper.folder.read("got"), "INT\n");
}

#[test]
fn a_second_interrupt_kills_a_command_that_ignores_the_first() {
    for (name, job) in [("twice", "run"), ("twice-old", "old")] {
        let script = "trap '' INT; touch FOLDER/ready; exec sleep 30";
        let mut helper = Helper::start(name, job, &["sh", "-c", script]);
        helper.wait_for_file("ready");
        kill(helper.pid(), libc::SIGINT);
        let began = Instant::now();
        // On a machine that is busy the kernel would make one signal of two that nobody took yet.
        helper.wait_for("wish first 2");
        thread::sleep(Duration::from_millis(100).saturating_sub(began.elapsed()));
        kill(helper.pid(), libc::SIGINT);
        assert_eq!(helper.events(), ["wish first 2", "wish again 2", "ended 137"]);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[test]
fn a_message_is_passed_on_and_is_no_wish() {
    let helper = counting("message", &[]);
    for (to, count) in [(1, 1), (-1, 2), (1, 3), (-1, 4)] {
        kill(to * helper.pid(), libc::SIGUSR1);
        wait_until("it arrives", || helper.folder.read("got").lines().count() == count);
        // Until concprobe has decided upon it, the next one would be the same to it.
        thread::sleep(Duration::from_millis(100));
    }
    let (events, got) = conclude(helper);
    assert_eq!(events, ["ended 3"]);
    assert_eq!(got, "USR1 USR1 USR1 USR1 ");
}

#[test]
fn what_was_ignored_from_the_start_stays_so_for_the_group() {
    let helper = counting("nohup", &["env", "--ignore-signal=HUP"]);
    // A shell cannot trap what was ignored when it began.
    kill(-helper.pid(), libc::SIGHUP);
    kill(helper.pid(), libc::SIGUSR1);
    wait_until("the other signal arrives", || helper.folder.read("got") == "USR1\n");
    assert_eq!(helper.log().iter().filter(|line| line.starts_with("wish")).count(), 0);
    kill(helper.pid(), libc::SIGHUP);
    helper.wait_for("wish first 1");
    let (events, got) = conclude(helper);
    assert_eq!(events, ["wish first 1", "ended 3"]);
    assert_eq!(got, "USR1 ");
}

#[test]
fn a_command_that_signals_its_own_group_does_not_end_the_measuring() {
    let script = "trap '' TERM; kill -TERM 0; kill -TERM $PPID; while [ -d FOLDER ] && ! [ -e FOLDER/go ]; do sleep 0.01; done; exit 4";
    let mut helper = Helper::start("own", "run", &["sh", "-c", script]);
    helper.wait_for("running");
    helper.folder.write("go", "");
    assert_eq!(helper.events(), ["ended 4"]);
}

#[test]
fn stop_and_continue_stop_and_continue_both() {
    let mut helper = Helper::start("stop", "run", &["sleep", "60"]);
    let command = helper.command_pid();
    helper.wait_for("running");
    for signal in [libc::SIGTSTP, libc::SIGSTOP] {
        kill(-helper.pid(), signal);
        wait_until("both stop", || state(helper.pid()) == 'T' && state(command) == 'T');
        kill(-helper.pid(), libc::SIGCONT);
        wait_until("both go on", || state(helper.pid()) != 'T' && state(command) != 'T');
    }
    kill(helper.pid(), libc::SIGWINCH);
    kill(helper.pid(), libc::SIGSTOP);
    wait_until("it stops", || state(helper.pid()) == 'T');
    assert_ne!(state(command), 'T');
    kill(helper.pid(), libc::SIGCONT);
    kill(command, libc::SIGTERM);
    assert_eq!(helper.events(), ["ended 143"]);
}

#[test]
fn a_listener_that_is_gone_leaves_the_signals_as_they_were() {
    let runtime = runtime();
    let _context = runtime.enter();
    let handlers = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        status.lines().find(|line| line.starts_with("SigCgt")).unwrap().to_owned()
    };
    let before = handlers();
    for _ in 0..3 {
        let signals = Signals::listen().unwrap();
        assert_ne!(handlers(), before);
        assert!(Signals::listen().unwrap_err().to_string().contains("already"));
        drop(signals);
        assert_eq!(handlers(), before);
    }
}

// ---------------------------------------------------------------- a process that runs already

fn refusal(pid: i64) -> String {
    Existing::open(pid).unwrap_err().to_string()
}

#[test]
fn a_number_that_is_no_process_is_refused_with_the_reason() {
    assert_eq!(refusal(99_999_999), "there is no process 99999999");
    assert_eq!(refusal(i64::MAX), format!("there is no process {}", i64::MAX));
    for pid in [0, -1, -5, i64::MIN] {
        assert_eq!(refusal(pid), format!("a process has a positive number, and {pid} is none"));
    }
    let own = i64::from(std::process::id());
    assert_eq!(refusal(own), format!("process {own} is concprobe itself"));
    // SAFETY: a plain system call.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    assert_eq!(refusal(tid), format!("{tid} is a thread of concprobe itself"));
}

#[test]
fn a_thread_is_refused_with_the_process_it_belongs_to() {
    let helper = Helper::start("threads", "threads", &["true"]);
    helper.wait_for("ready");
    let pid = helper.pid();
    let existing = Existing::open(pid.into()).unwrap();
    // Each names itself, some time after it began.
    let threads = wait_for("three threads with names", || {
        let threads = existing.threads().unwrap();
        let named = threads.iter().filter(|thread| thread.name.starts_with("number ")).count();
        (named == 3).then_some(threads)
    });
    let names: Vec<&str> = threads.iter().map(|thread| thread.name.as_str()).collect();
    let main = existing.name().to_owned();
    // The helper may run in a thread of its own beside the main one.
    assert!(names.ends_with(&["number 0", "number 1", "number 2"]), "{names:?}");
    assert_eq!((threads[0].tid, threads[0].name.as_str()), (pid, main.as_str()));
    assert!(
        threads.iter().all(|thread| thread.start_ticks >= threads[0].start_ticks && thread.start_ticks > 0)
    );
    wait_until("all sleep", || existing.threads().unwrap().iter().all(|thread| thread.state == 'S'));
    let tid = threads.last().unwrap().tid;
    assert_eq!(
        refusal(tid.into()),
        format!("{tid} (number 2) is a thread of process {pid} ({main}), and not a process: use --pid {pid}")
    );
}

#[test]
fn a_zombie_and_a_kernel_thread_are_refused() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    wait_until("it ends", || state(pid) == 'Z');
    for open in [Existing::open, Existing::open_without_descriptor] {
        let error = open(pid.into()).unwrap_err().to_string();
        assert!(error.contains("has ended already") && error.contains("zombie"), "{error}");
    }
    child.wait().unwrap();
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert!(refusal(2).starts_with("process 2 (kthreadd) is a thread of the kernel"), "{}", refusal(2));
    } else {
        eprintln!("kernel threads are not visible here: not tested");
    }
}

#[test]
fn the_end_of_a_process_is_noticed_and_not_before() {
    for open in [Existing::open, Existing::open_without_descriptor] {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let existing = open(child.id().into()).unwrap();
        assert_eq!(existing.pid(), i32::try_from(child.id()).unwrap());
        runtime().block_on(async {
            let early = tokio::time::timeout(Duration::from_millis(120), existing.ended()).await;
            assert!(early.is_err() && !existing.has_ended());
            child.kill().unwrap();
            let (one, two) =
                tokio::time::timeout(DEADLINE, async { tokio::join!(existing.ended(), existing.ended()) })
                    .await
                    .unwrap();
            one.unwrap();
            two.unwrap();
        });
        assert!(existing.has_ended());
        assert!(existing.threads().unwrap_err().to_string().contains("has ended"));
        child.wait().unwrap();
    }
}

#[test]
fn a_process_whose_main_thread_has_ended_still_runs() {
    let mut helper = Helper::start("leader", "main-thread-ends", &["true"]);
    let pid = helper.pid();
    wait_until("the main thread ends", || {
        state(pid) == 'Z' && Path::new(&format!("/proc/{pid}/task")).exists()
    });
    for open in [Existing::open, Existing::open_without_descriptor] {
        let existing = open(pid.into()).unwrap();
        wait_until("the other one has its name", || {
            let names: Vec<_> = existing.threads().unwrap().into_iter().map(|thread| thread.name).collect();
            names == ["last one"]
        });
    }
    let existing = Existing::open(pid.into()).unwrap();
    helper.child.kill().unwrap();
    runtime().block_on(async { tokio::time::timeout(DEADLINE, existing.ended()).await.unwrap().unwrap() });
}

/// A process of just this number, which does nothing.
fn process_numbered(pid: i32) -> Option<i32> {
    // SAFETY: all-zero is a valid value of this type.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.exit_signal = u64::try_from(libc::SIGCHLD).unwrap();
    arguments.set_tid = (&raw const pid) as u64;
    arguments.set_tid_size = 1;
    // SAFETY: as fork; the child makes plain system calls only.
    let made =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) };
    if made == 0 {
        // SAFETY: a plain system call; it ends with whoever made it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        loop {
            // SAFETY: a plain system call.
            unsafe { libc::syscall(libc::SYS_ppoll, 0, 0, 0, 0, 0) };
        }
    }
    (made == i64::from(pid)).then_some(pid)
}

#[test]
fn another_process_with_the_same_number_is_another_process() {
    for open in [Existing::open, Existing::open_without_descriptor] {
        // The number may be taken by somebody else in between; then once more.
        let (existing, pid) = wait_for("the number is free", || {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            let existing = open(child.id().into()).unwrap();
            // Start times are counted in ticks of 10 ms.
            thread::sleep(Duration::from_millis(30));
            child.kill().unwrap();
            child.wait().unwrap();
            Some((existing, process_numbered(i32::try_from(child.id()).unwrap())?))
        });
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        assert!(existing.has_ended());
        runtime()
            .block_on(async { tokio::time::timeout(DEADLINE, existing.ended()).await.unwrap().unwrap() });
        assert!(existing.threads().unwrap_err().to_string().contains("has ended"));
        assert!(!open(pid.into()).unwrap().has_ended(), "the new one runs");
        kill(pid, libc::SIGKILL);
        // SAFETY: a plain system call.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
}

#[test]
fn the_types_can_go_to_other_threads() {
    fn sendable<T: Send>() {}
    sendable::<Held>();
    sendable::<Running>();
    sendable::<Signals>();
    sendable::<Existing>();
}
