//! Where the kernel, its files or the privileges are other than usual: it works another way, or one clear line says
//! what is missing, the status is 2, and the command was not run.

mod support;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use support::{Folder, output, program, seen::seen, stderr};

/// What a wrapper of `concprobe trace -- touch FILE` came to.
struct Refused {
    output: Output,
    folder: Folder,
}

impl Refused {
    fn run(name: &str, wrapper: &[&str], options: &[&str]) -> Self {
        let folder = Folder::new(name);
        // Where another user can reach it.
        let concprobe = folder.file("concprobe");
        fs::copy(env!("CARGO_BIN_EXE_concprobe"), &concprobe).unwrap();
        fs::set_permissions(&concprobe, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(&concprobe).arg("trace").args(options);
        command.args(["--", "touch", &folder.file("ran")]);
        let output = output(support::not_under_sudo(&mut command));
        Self { output, folder }
    }

    /// One line, status 2, and nothing was run.
    fn line(&self) -> String {
        let said = stderr(&self.output);
        assert_eq!(self.output.status.code(), Some(2), "{said}");
        assert!(self.output.stdout.is_empty(), "{said}");
        assert!(!Path::new(&self.folder.file("ran")).exists(), "the command was run: {said}");
        assert!(said.starts_with("concprobe: ") && !said.contains("panicked"), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        said
    }
}

const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid", "65534", "--clear-groups"];
const WITHOUT_TRACEFS: &str = "umount -a -t tracefs; umount -a -t debugfs; exec \"$@\"";
const WITHOUT_BTF: &str = "mount -t tmpfs none /sys/kernel/btf; exec \"$@\"";

/// A shell in a mount namespace of its own.
fn unshared(script: &str) -> [&str; 6] {
    ["unshare", "-m", "sh", "-c", script, "sh"]
}

#[test]
fn each_reason_for_which_bpf_is_refused_has_its_own_line_with_the_kernel_s_error() {
    let nobpf = program("nobpf");
    let nobpf = nobpf.to_str().unwrap();
    let mut lines = Vec::new();
    for (errno, error, advice) in [
        ("1", "Operation not permitted (os error 1)", "seccomp"),
        ("13", "Permission denied (os error 13)", "security policy"),
        ("38", "Function not implemented (os error 38)", "CONFIG_BPF_SYSCALL"),
        ("12", "Cannot allocate memory (os error 12)", "memory limit"),
    ] {
        let line = Refused::run(&format!("errno-{errno}"), &[nobpf, errno], &[]).line();
        assert!(line.contains(error) && line.contains(advice), "{errno}: {line}");
        for other in ["sudo ", "RLIMIT_MEMLOCK"] {
            assert!(!line.contains(other), "{errno}: what would not help is not advised: {line}");
        }
        let advice = line.split(" cannot create").next().unwrap().to_owned();
        assert!(!lines.contains(&advice), "{errno}: {advice}");
        lines.push(advice);
    }
}

#[test]
fn who_lacks_a_capability_is_told_which() {
    let line = Refused::run("nobody", &AS_NOBODY, &[]).line();
    assert!(line.contains("lacks CAP_BPF and CAP_PERFMON") && line.contains("sudo "), "{line}");
    for (name, has, lacks) in [("bpf-alone", "+bpf", "CAP_PERFMON"), ("perfmon-alone", "+perfmon", "CAP_BPF")]
    {
        let mut wrapper = AS_NOBODY.map(str::to_owned).to_vec();
        wrapper.extend([format!("--inh-caps={has}"), format!("--ambient-caps={has}")]);
        let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
        let line = Refused::run(name, &wrapper, &[]).line();
        assert!(line.contains(&format!("lacks {lacks}")), "{name}: {line}");
    }
}

#[test]
fn two_capabilities_are_enough_for_btf_and_the_classic_way_names_the_file_it_may_not_read() {
    let _alone = support::alone();
    let capabilities = ["--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon"];
    let wrapper: Vec<&str> = AS_NOBODY.iter().copied().chain(capabilities).collect();
    let run = Refused::run("two-capabilities", &wrapper, &["--attach", "btf"]);
    assert_eq!(run.output.status.code(), Some(0), "{}", stderr(&run.output));
    assert!(Path::new(&run.folder.file("ran")).exists());
    let line = Refused::run("two-capabilities-classic", &wrapper, &["--attach", "classic"]).line();
    assert!(line.contains("tracefs") || line.contains("/sys/kernel/tracing"), "{line}");
}

#[test]
fn a_way_that_is_asked_for_and_not_there_is_refused_by_name() {
    let line = Refused::run("no-tracefs", &unshared(WITHOUT_TRACEFS), &["--attach", "classic"]).line();
    assert!(line.contains("tracefs is not mounted"), "{line}");
    assert!(line.contains("mount -t tracefs"), "the command that helps: {line}");
    let line = Refused::run("no-btf", &unshared(WITHOUT_BTF), &["--attach", "btf"]).line();
    assert!(line.contains("CONFIG_DEBUG_INFO_BTF") || line.contains("/sys/kernel/btf/vmlinux"), "{line}");
}

#[test]
fn tracefs_is_found_below_debugfs_behind_an_empty_folder() {
    let _alone = support::alone();
    let script = "umount -a -t tracefs; mount -t tmpfs none /sys/kernel/tracing; \
                  mount -t debugfs none /sys/kernel/debug; ls /sys/kernel/debug/tracing >/dev/null; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(&unshared(script)[1..]).arg(env!("CARGO_BIN_EXE_concprobe"));
    command.args(["trace", "--json", "--attach", "classic", "--syscalls", "--"]);
    let seen = seen(command.arg(program("spawn")).args(["100", "1"]));
    assert_eq!(seen.trace["attached_by"], "classic");
    assert_eq!((seen.count("threads_created"), seen.calls("getppid")), (100, 100));
}

#[test]
fn without_btf_counts_and_locks_are_the_same_and_what_is_missing_has_its_reason() {
    let _alone = support::alone();
    let mut command = Command::new("unshare");
    command.args(&unshared(WITHOUT_BTF)[1..]).arg(env!("CARGO_BIN_EXE_concprobe"));
    command.args(["trace", "--json", "--syscalls", "--"]);
    let seen = seen(command.arg(program("queue_up")).args(["mutex", "4", "5", "5"]));
    assert_eq!(seen.status, Some(0));
    assert_eq!(seen.trace["attached_by"], "classic");
    assert_eq!(seen.count("threads_created"), 20);
    let lock = &seen.rows("locks")[0];
    if seen.trace["stacks"] == false {
        // It is BTF that is missing, and not a newer kernel.
        let warnings = seen.trace["warnings"].to_string();
        assert!(warnings.contains("BTF"), "{warnings}");
        assert!(!seen.trace["unavailable"]["stack_copies"].as_str().unwrap().contains("--no-stacks"));
    } else {
        assert!(lock["name"].as_str().unwrap().starts_with("counter_lock (queue_up+"), "{lock}");
    }
    assert_eq!((lock["kind"].as_str(), support::number(lock, "/slept")), (Some("mutex"), 20), "{lock}");
}

#[test]
fn a_small_limit_on_locked_memory_is_no_obstacle_and_stays_the_command_s() {
    let _alone = support::alone();
    let mut command = Command::new("prlimit");
    command.args(["--memlock=65536", env!("CARGO_BIN_EXE_concprobe"), "trace", "--json", "--"]);
    let seen = seen(command.args(["sh", "-c", "ulimit -l"]));
    assert_eq!(seen.status, Some(0), "{}", seen.printed);
    assert_eq!(seen.printed.trim(), "64", "the command has the caller's limit");
}

#[test]
fn it_does_not_look_at_itself() {
    let _alone = support::alone();
    let own = env!("CARGO_BIN_EXE_concprobe");
    // The shell that started it is looked at, with what it starts after the attach.
    let script = format!("{own} attach --json --syscalls --pid $$ --duration 500ms");
    let seen = seen(Command::new("sh").args(["-c", &format!("{script}; true")]));
    assert_eq!(seen.rows("processes").len(), 1, "{}", seen.trace["processes"]);
    assert_eq!(seen.rows("threads").len(), 1, "{}", seen.trace["threads"]);
    assert_eq!(support::number(&seen.rows("threads")[0], "/counts/syscalls"), 0, "it waits for concprobe");
}
