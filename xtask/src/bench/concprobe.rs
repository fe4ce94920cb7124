//! The concprobe that is measured: built in release mode, and asked for JSON.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command::run;
use crate::workspace;

/// The release build.
pub(super) struct Concprobe(pub(super) PathBuf);

impl Concprobe {
    /// Builds it from the sources as they are.
    pub(super) fn build() -> Result<Self> {
        run(workspace::cargo().args(["build", "--release", "--package", "concprobe"]))?;
        Ok(Self(workspace::target_dir().join("release/concprobe")))
    }

    /// The JSON result of `concprobe run` with these arguments.
    pub(super) fn result(&self, arguments: &str) -> Result<Value> {
        let mut command = Command::new(&self.0);
        command.arg("run").args(arguments.split_whitespace()).arg("--json");
        let output = command.stderr(Stdio::null()).output().context("cannot run concprobe")?;
        if !output.status.success() {
            bail!("`concprobe run {arguments}` failed: {}; try it by hand", output.status);
        }
        serde_json::from_slice(&output.stdout).context("concprobe printed no JSON")
    }
}

/// The number at `pointer`.
pub(super) fn figure(result: &Value, pointer: &str) -> Result<f64> {
    result.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("the result has no {pointer}"))
}
