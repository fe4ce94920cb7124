//! `kernels`: runs the core of the root tests under other kernels, in emulated machines: those that
//! concprobe promises to work on, and as far as they can be had an older and a newer one.

mod series;
mod summary;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::command::{as_typed, capture, which};
use crate::workspace;
use series::Series;
use summary::{Outcome, Tally};

const MEMORY: &str = "2G";
const LIMIT_SECONDS: &str = "600";
const TOOLS: [&str; 3] = ["qemu-system-x86_64", "busybox", "cpio"];

/// The executables that go into the guest.
struct Programs {
    tests: PathBuf,
    concprobe: PathBuf,
}

/// Runs the tests under each kernel of `names`, or of the default list.
pub(crate) fn kernels(names: &[String]) -> Result<()> {
    require_tools()?;
    let programs = build()?;
    let mut outcomes = Vec::new();
    for series in series::chosen(names) {
        let outcome = match fetch(&series) {
            Ok(image) => test_under(&series, &image, &programs)?,
            Err(error) => {
                eprintln!("kernel {}: {error:#}", series.name);
                Outcome::unavailable(&series)
            }
        };
        outcomes.push(outcome);
    }
    print!("{}", summary::table(&outcomes));
    let failed: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.fails()).map(|o| o.kernel.as_str()).collect();
    if !failed.is_empty() {
        bail!("failed under kernel {}", failed.join(", "));
    }
    Ok(())
}

fn require_tools() -> Result<()> {
    let missing: Vec<_> = TOOLS.into_iter().filter(|tool| which(tool).is_none()).collect();
    if !missing.is_empty() {
        bail!(
            "missing: {}\nOn Debian: apt-get install --no-install-recommends qemu-system-x86 busybox-static cpio",
            missing.join(", ")
        );
    }
    Ok(())
}

fn build() -> Result<Programs> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "concprobe", "--test", "core", "--no-run"]);
    let messages = capture(cargo.arg("--message-format=json-render-diagnostics"))?;
    let built = |kind, name| {
        executable(&messages, kind, name).with_context(|| format!("`{}` built no {name}", as_typed(&cargo)))
    };
    Ok(Programs { tests: built("test", "core")?, concprobe: built("bin", "concprobe")? })
}

/// The executable of one target in cargo's messages, a JSON object a line.
fn executable(messages: &str, kind: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut artifacts = messages.filter(|message| {
        message["reason"] == "compiler-artifact"
            && message["target"]["name"] == name
            && message["target"]["kind"][0] == kind
    });
    artifacts.find_map(|artifact| artifact["executable"].as_str().map(PathBuf::from))
}

/// The image of a kernel of this series, out of the cache or from the first suite that has one.
fn fetch(series: &Series) -> Result<PathBuf> {
    let folder = workspace::target_dir().join("kernels").join(series.name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if let Some(image) = cached(&folder)? {
        return Ok(image);
    }
    let mut failure = None;
    for suite in series.suites {
        let mut get = script("get-kernel.sh");
        get.arg("-d").arg(&folder).arg("-x");
        if let Some(suite) = suite {
            get.args(["-s", suite]);
        }
        match capture(get.arg(series.name)) {
            Ok(image) => return Ok(PathBuf::from(image.trim())),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.context("no suite is known to have it")?).context("cannot be had")
}

fn cached(folder: &Path) -> Result<Option<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(files.find(|file| release(file).is_some()))
}

/// The kernel release in the name of its image.
fn release(image: &Path) -> Option<&str> {
    image.file_name()?.to_str()?.strip_prefix("vmlinuz-")
}

fn script(name: &str) -> Command {
    Command::new(workspace::root().join("xtask/kernels").join(name))
}

fn test_under(series: &Series, image: &Path, programs: &Programs) -> Result<Outcome> {
    let kernel = release(image).unwrap_or(series.name).to_owned();
    println!("\nkernel {kernel}");
    let mut guest = script("run-in-kernel.sh");
    guest.args(["-m", MEMORY, "-t", LIMIT_SECONDS, "-f"]).arg(&programs.concprobe).arg(image);
    guest.arg(&programs.tests).args(["--test-threads=1", "--nocapture"]);
    let start = Instant::now();
    let (tally, passed) = run_and_tally(&mut guest)?;
    Ok(Outcome { kernel, required: series.required, result: Some((tally, passed)), time: start.elapsed() })
}

/// Passes the guest's console on, and counts the tests that it reports.
fn run_and_tally(guest: &mut Command) -> Result<(Tally, bool)> {
    let started = guest.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("cannot run `{}`", as_typed(guest)))?;
    let mut tally = Tally::default();
    if let Some(console) = child.stdout.take() {
        let mut out = std::io::stdout().lock();
        for line in BufReader::new(console).split(b'\n') {
            let line = line.context("cannot read the guest's console")?;
            let line = String::from_utf8_lossy(&line);
            writeln!(out, "{line}")?;
            tally.add(&line);
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{}`", as_typed(guest)))?;
    Ok((tally, status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_told_apart_by_kind_and_name() {
        let messages = concat!(
            "not json\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"core"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"concprobe"},"executable":"/t/concprobe"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"core"},"executable":"/t/core-1"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages, "test", "core"), Some(PathBuf::from("/t/core-1")));
        assert_eq!(executable(messages, "bin", "concprobe"), Some(PathBuf::from("/t/concprobe")));
        assert_eq!(executable(messages, "test", "concprobe"), None);
    }

    #[test]
    fn the_image_names_its_release() {
        assert_eq!(release(Path::new("/t/6.1/vmlinuz-6.1.0-57-cloud-amd64")), Some("6.1.0-57-cloud-amd64"));
        assert_eq!(release(Path::new("/t/6.1/linux-image_amd64.deb")), None);
    }
}
