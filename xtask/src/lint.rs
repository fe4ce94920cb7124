//! `lint`: formatting, clippy, documentation and shell scripts. All are checked before it fails, so
//! that one run tells everything.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{capture, run, which};
use crate::workspace;

type Check = fn() -> Result<()>;

/// Runs all checks; the error names those that failed.
pub(crate) fn lint() -> Result<()> {
    let checks: [(&str, Check); 5] = [
        ("cargo fmt", formatting),
        ("rustfmt", formatting_of_generated_modules),
        ("clippy", clippy),
        ("documentation", documentation),
        ("shellcheck", shell_scripts),
    ];
    let mut failed = Vec::new();
    for (name, check) in checks {
        println!("lint: {name}");
        if let Err(error) = check() {
            eprintln!("lint: {error:#}");
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("lint failed: {}", failed.join(", "));
    }
    Ok(())
}

fn formatting() -> Result<()> {
    run(workspace::cargo().args(["fmt", "--all", "--check"]))
}

/// `cargo fmt` does not reach a file whose `mod` line comes out of a macro.
fn formatting_of_generated_modules() -> Result<()> {
    let files = tracked(&["*.rs"])?;
    let mut rustfmt = Command::new("rustfmt");
    run(rustfmt.current_dir(workspace::root()).args(["--check", "--edition", "2024"]).args(files))
}

fn clippy() -> Result<()> {
    run(workspace::cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn documentation() -> Result<()> {
    run(workspace::cargo().args(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn shell_scripts() -> Result<()> {
    if which("shellcheck").is_none() {
        println!("shellcheck is not installed: the scripts are not checked");
        return Ok(());
    }
    let mut shellcheck = Command::new("shellcheck");
    run(shellcheck.current_dir(workspace::root()).args(tracked(&["*.sh", ".ci/run"])?))
}

/// The files in the repository, new ones included, that match one of the patterns.
fn tracked(patterns: &[&str]) -> Result<Vec<String>> {
    let root = workspace::root();
    let mut list = Command::new("git");
    list.current_dir(&root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]);
    let files = capture(list.args(patterns))?;
    let existing = files.split('\0').filter(|file| !file.is_empty() && root.join(file).exists());
    Ok(existing.map(String::from).collect())
}
