//! One child process with its output in files, which is ended by its own id whatever happens.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::tool::Attached;
use crate::command::as_typed;

/// How long a tool may take to attach or to end; offcputime looks up thousands of stacks at its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at a state: rare enough not to disturb what is measured.
const POLL: Duration = Duration::from_millis(20);

/// A process that was started here.
pub(super) struct Running {
    child: Child,
    typed: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts `command`; what it prints goes to files in `folder` that begin with `name`.
    pub(super) fn start(command: &mut Command, folder: &Path, name: &str) -> Result<Self> {
        // A script may follow, which is too long for a message.
        let typed = as_typed(command).lines().next().unwrap_or_default().to_owned();
        let [stdout, stderr] = ["stdout", "stderr"].map(|end| folder.join(format!("{name}.{end}")));
        let create =
            |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        // Tools translate numbers and messages otherwise.
        command.stdout(create(&stdout)?).stderr(create(&stderr)?).env("LC_ALL", "C");
        // SAFETY: prctl is async-signal-safe, and nothing else happens between fork and exec.
        unsafe { command.pre_exec(end_with_parent) };
        let child = command.spawn().with_context(|| format!("cannot run `{typed}`"))?;
        Ok(Self { child, typed, stdout, stderr })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has attached, as `attached` tells.
    pub(super) fn wait_until_attached(&mut self, attached: Attached) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.has_attached(attached) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("`{}` ended before it had attached: {status}{}", self.typed, self.last_words());
            }
            if Instant::now() > deadline {
                bail!("`{}` has not attached within {PATIENCE:?}{}", self.typed, self.last_words());
            }
            std::thread::sleep(POLL);
        }
    }

    fn has_attached(&self, attached: Attached) -> bool {
        match attached {
            Attached::Says(words) => read(&self.stdout).contains(words),
            Attached::Links(wanted) => {
                let held = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
                let targets =
                    held.into_iter().flatten().flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
                let is_link = |target: &PathBuf| {
                    target
                        .to_str()
                        .is_some_and(|target| target.trim_matches(['[', ']']).ends_with("bpf_link"))
                };
                targets.filter(is_link).count() >= wanted
            }
        }
    }

    /// Waits until it ends by itself.
    pub(super) fn wait(&mut self, at_most: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + at_most;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("`{}` has not ended within {at_most:?}{}", self.typed, self.last_words());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Sends the SIGINT that makes a tool print what it has, and waits for its end.
    pub(super) fn interrupt(&mut self) -> Result<()> {
        let pid = libc::pid_t::try_from(self.child.id())?;
        // SAFETY: kill takes no pointers; the child has not been waited for, so the id is still its own.
        if unsafe { libc::kill(pid, libc::SIGINT) } != 0 {
            bail!("cannot interrupt `{}`: {}", self.typed, std::io::Error::last_os_error());
        }
        self.wait(PATIENCE).map(drop)
    }

    pub(super) fn printed(&self) -> String {
        read(&self.stdout)
    }

    pub(super) fn complaints(&self) -> String {
        read(&self.stderr)
    }

    /// The end of what it complained about, for messages.
    pub(super) fn last_words(&self) -> String {
        let complaints = self.complaints();
        let lines: Vec<&str> = complaints.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(3)..];
        if last.is_empty() { String::new() } else { format!("; it said: {}", last.join(" / ")) }
    }
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Tools that watch the whole system must not stay when this process is killed.
fn end_with_parent() -> std::io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes one more integer and no pointer.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // An error means that it has ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a tool writes; removed by the test that ends well.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-child-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn shell(script: &str, folder: &Path) -> Running {
        Running::start(Command::new("sh").args(["-c", script]), folder, "tool").unwrap()
    }

    #[test]
    fn a_tool_is_waited_for_and_prints_its_answer_when_interrupted() {
        let script = "trap 'echo answer; exit 0' INT; echo attached; while :; do sleep 0.01; done";
        let folder = folder("interrupted");
        let mut tool = shell(script, &folder);
        tool.wait_until_attached(Attached::Says("attached")).unwrap();
        tool.interrupt().unwrap();
        assert_eq!(tool.printed(), "attached\nanswer\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_tool_that_fails_to_attach_is_quoted() {
        let folder = folder("failed");
        let mut tool = shell("echo no such tracepoint >&2; exit 4", &folder);
        let error = tool.wait_until_attached(Attached::Links(1)).unwrap_err().to_string();
        assert!(error.ends_with("exit status: 4; it said: no such tracepoint"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
