//! Stand-ins for the base images that the Dockerfile names: a Debian root from debootstrap, and the
//! same with a C linker, this machine's Rust toolchain and the crates that the lock file names. The
//! build in the second one is offline, so it needs no way out of the container.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result};

use super::Buildah;
use crate::command::{capture, run};
use crate::workspace;

const DEBIAN: &str = "docker.io/library/debian:bookworm-slim";
const RUST: &str = "docker.io/library/rust:1-bookworm";

/// Makes the base images that are not there yet; the crates are brought up to date every time.
pub(super) fn ensure(folder: &Path, buildah: &Buildah) -> Result<()> {
    if !buildah.has(DEBIAN)? {
        let root = debootstrap(folder, "debian", &[])?;
        buildah.import(&root, DEBIAN, &[])?;
    }
    let root = debootstrap(folder, "rust", &["--include=gcc,libc6-dev,ca-certificates"])?;
    let changed = toolchain(&root)? | crates(&root)?;
    if changed || !buildah.has(RUST)? {
        let environment = [("CARGO_HOME", "/usr/local/cargo"), ("CARGO_NET_OFFLINE", "true")];
        buildah.import(&root, RUST, &environment)?;
    }
    Ok(())
}

/// A Debian root file system in `folder/name`, made on first use.
fn debootstrap(folder: &Path, name: &str, options: &[&str]) -> Result<PathBuf> {
    let root = folder.join(name);
    if root.exists() {
        return Ok(root);
    }
    let cache = folder.join("packages");
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let unfinished = folder.join(format!("{name}.unfinished"));
    if unfinished.exists() {
        run(Command::new("rm").args(["-rf", "--one-file-system"]).arg(&unfinished))?;
    }
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.arg("--variant=minbase").arg(format!("--cache-dir={}", cache.display()));
    run(debootstrap.args(options).arg("bookworm").arg(&unfinished))?;
    fs::rename(&unfinished, &root).with_context(|| format!("cannot rename {}", unfinished.display()))?;
    Ok(root)
}

/// Copies the toolchain that builds this workspace to where the real image has one on `PATH`.
fn toolchain(root: &Path) -> Result<bool> {
    let rustc = || {
        let mut rustc = Command::new("rustc");
        rustc.current_dir(workspace::root());
        rustc
    };
    let version = capture(rustc().arg("-vV"))?;
    let marker = root.join("usr/local/toolchain");
    if fs::read_to_string(&marker).is_ok_and(|copied| copied == version) {
        return Ok(false);
    }
    let sysroot = PathBuf::from(capture(rustc().args(["--print", "sysroot"]))?.trim());
    for part in ["bin", "lib"] {
        run(Command::new("cp").arg("-a").arg(sysroot.join(part)).arg(root.join("usr/local")))?;
    }
    fs::write(&marker, version).with_context(|| format!("cannot write {}", marker.display()))?;
    Ok(true)
}

/// Copies cargo's own settings, its index and the packed crates, once per state of the lock file.
fn crates(root: &Path) -> Result<bool> {
    let lock = fs::read(workspace::root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let home = root.join("usr/local/cargo");
    let marker = home.join("Cargo.lock");
    if fs::read(&marker).is_ok_and(|copied| copied == lock) {
        return Ok(false);
    }
    run(workspace::cargo().args(["fetch", "--locked"]))?;
    let from = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let from = from.context("neither CARGO_HOME nor HOME is set")?;
    for part in ["config.toml", "registry/index", "registry/cache"] {
        let target = home.join(part);
        let into = target.parent().unwrap_or(&home);
        fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
        if from.join(part).exists() {
            run(Command::new("cp").arg("-a").arg(from.join(part)).arg(into))?;
        }
    }
    fs::write(&marker, lock).with_context(|| format!("cannot write {}", marker.display()))?;
    Ok(true)
}
