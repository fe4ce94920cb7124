//! The C programs in `xtask/bench`: the yardsticks, which nothing of concprobe is in.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::run;
use crate::workspace;

/// Compiles `xtask/bench/NAME.c` and returns the program, whose file name is `name` too.
pub(super) fn compile(name: &str) -> Result<PathBuf> {
    let source = workspace::root().join(format!("xtask/bench/{name}.c"));
    let folder = workspace::target_dir().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let program = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program).arg(source);
    run(&mut compiler)?;
    Ok(program)
}
