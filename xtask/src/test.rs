//! `test`: all tests of the workspace; with sudo in front of the test binaries where the rights to
//! load eBPF programs are missing.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::{capture, run};
use crate::{privileges, workspace};

/// Runs `cargo test --workspace` with the given further arguments.
pub(crate) fn test(arguments: &[OsString]) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--workspace"]).args(arguments);
    if !privileges::suffice() {
        privileges::require_sudo("cargo xtask test")?;
        println!("the tests load eBPF programs: they run through sudo");
        let version = capture(Command::new("rustc").arg("-vV").current_dir(workspace::root()))?;
        let host = host(&version).context("rustc -vV names no host")?;
        cargo.env(runner_variable(host), "sudo -E");
    }
    run(&mut cargo)
}

/// The host's target in what `rustc -vV` prints.
fn host(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("host: "))
}

/// The variable that names the program cargo puts in front of the binaries it runs.
fn runner_variable(target: &str) -> String {
    format!("CARGO_TARGET_{}_RUNNER", target.replace('-', "_").to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runner_variable_carries_the_hosts_target() {
        let version = "rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(runner_variable(host(version).unwrap()), "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER");
    }
}
