//! `run`: builds concprobe as people use it and becomes `concprobe run`, with the rights it needs.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::{as_typed, run};
use crate::{privileges, workspace};

/// Builds the release binary and replaces this process by it, so that its exit status is passed on.
pub(crate) fn run_concprobe(arguments: &[OsString]) -> Result<()> {
    run(workspace::cargo().args(["build", "--release", "--package", "concprobe"]))?;
    let binary = workspace::target_dir().join("release/concprobe");
    let mut command = if privileges::suffice() || needs_no_bpf(arguments) {
        Command::new(binary)
    } else {
        privileges::require_sudo("cargo xtask run")?;
        let mut sudo = Command::new("sudo");
        sudo.arg("--").arg(binary);
        sudo
    };
    command.arg("run").args(arguments);
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run `{}`", as_typed(&command)))
}

fn needs_no_bpf(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--no-bpf")
}
