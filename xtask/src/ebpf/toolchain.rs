//! Finds a compiler that can build `core` for eBPF (the distribution's with its library sources, or a
//! rustup nightly with `rust-src`) and the pinned bpf-linker, and builds the object with them, such
//! that the bytes do not depend on where the sources, cargo's home or the compiler lie.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};

use super::record::Tools;
use super::strip;
use crate::command::{capture, is_executable, run, which};
use crate::workspace;

const BPF_LINKER: &str = "0.13.0";
const TARGET: &str = "bpfel-unknown-none";

const INSTALL: &str = "\
To build the eBPF object, install on Debian:
    apt-get install rustc-web cargo-web rust-web-src llvm-22-dev libpolly-22-dev zlib1g-dev libzstd-dev
    PATH=/usr/lib/llvm-22/bin:$PATH RUSTFLAGS=-L/usr/lib/llvm-22/lib \\
        cargo install bpf-linker --version 0.13.0 --locked --no-default-features --features llvm-22
and elsewhere:
    rustup toolchain install nightly --component rust-src
    cargo install bpf-linker --version 0.13.0 --locked";

/// A compiler with its library sources, and the linker.
pub(super) struct Toolchain {
    compiler: Compiler,
    /// The folder of bpf-linker.
    linker: PathBuf,
    pub(super) tools: Tools,
}

#[derive(Debug)]
struct Compiler {
    cargo: PathBuf,
    rustc: PathBuf,
    /// `lib/rustlib/src/rust` in the compiler's own tree.
    sources: PathBuf,
    /// A released compiler takes unstable options only when told so.
    released: bool,
}

/// The toolchain whose versions are the `recorded` ones; without one, the distribution's, then rustup's.
///
/// An error says what is missing and how to install it.
pub(super) fn find(recorded: Option<&Tools>) -> Result<Toolchain> {
    let (linker, bpf_linker) = find_linker()?;
    let mut compilers: Vec<_> = std::iter::once(distribution()).chain(rustup_nightlies()).collect();
    // A stable sort: the recorded version first, otherwise the order of preference stays.
    let is_recorded = |compiler: &Compiler| {
        let version = compiler.versions().map(|(rustc, _)| rustc).ok();
        version.is_some() && version == recorded.map(|tools| tools.rustc.clone())
    };
    compilers.sort_by_key(|compiler| !compiler.as_ref().is_ok_and(is_recorded));
    let mut reasons = Vec::new();
    for compiler in compilers {
        match compiler.and_then(|compiler| compiler.versions().map(|versions| (compiler, versions))) {
            Ok((compiler, (rustc, llvm))) => {
                return Ok(Toolchain { compiler, linker, tools: Tools { rustc, llvm, bpf_linker } });
            }
            Err(reason) => reasons.push(format!("  {reason:#}")),
        }
    }
    bail!("found no compiler that builds eBPF:\n{}\n{INSTALL}", reasons.join("\n"))
}

fn find_linker() -> Result<(PathBuf, String)> {
    let installed = cargo_home().map(|home| home.join("bin/bpf-linker")).filter(|file| is_executable(file));
    let Some(linker) = which("bpf-linker").or(installed) else {
        bail!("found no bpf-linker on PATH or among cargo's programs\n{INSTALL}");
    };
    let version = bpf_linker_version(&capture(Command::new(&linker).arg("--version"))?)?;
    if version != BPF_LINKER {
        bail!("{} has version {version}, the pinned one is {BPF_LINKER}\n{INSTALL}", linker.display());
    }
    Ok((linker.parent().map(Path::to_path_buf).unwrap_or_default(), version))
}

/// The version in what `bpf-linker --version` prints.
fn bpf_linker_version(output: &str) -> Result<String> {
    let version = output.trim().strip_prefix("bpf-linker ");
    version.map(str::to_owned).with_context(|| format!("'{}' is no version of bpf-linker", output.trim()))
}

fn cargo_home() -> Option<PathBuf> {
    let default = || env::home_dir().map(|home| home.join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(default)
}

fn distribution() -> Result<Compiler> {
    Compiler::in_tree(Path::new("/usr"), true).context("no distribution compiler")
}

/// The nightlies that rustup has, each as a compiler or as the reason why it cannot serve.
fn rustup_nightlies() -> Vec<Result<Compiler>> {
    let listed = match capture(Command::new("rustup").args(["toolchain", "list"])) {
        Ok(listed) => listed,
        Err(error) => return vec![Err(error.context("no rustup"))],
    };
    let nightlies =
        listed.lines().filter_map(|line| line.split(' ').next()).filter(|n| n.starts_with("nightly"));
    let compilers: Vec<_> = nightlies
        .map(|name| {
            let mut print = Command::new("rustup");
            print.args(["run", name, "rustc", "--print", "sysroot"]);
            let tree = capture(&mut print)?;
            Compiler::in_tree(Path::new(tree.trim()), false).with_context(|| format!("rustup's {name}"))
        })
        .collect();
    if compilers.is_empty() { vec![Err(anyhow::anyhow!("rustup has no nightly"))] } else { compilers }
}

impl Compiler {
    fn in_tree(tree: &Path, released: bool) -> Result<Self> {
        let compiler = Self {
            cargo: tree.join("bin/cargo"),
            rustc: tree.join("bin/rustc"),
            sources: tree.join("lib/rustlib/src/rust"),
            released,
        };
        for tool in [&compiler.cargo, &compiler.rustc] {
            if !is_executable(tool) {
                bail!("{} is missing", tool.display());
            }
        }
        let sources = compiler.sources.join("library/core/Cargo.toml");
        if !sources.exists() {
            bail!("the library sources are missing ({})", sources.display());
        }
        Ok(compiler)
    }

    /// The versions of rustc and of its LLVM.
    fn versions(&self) -> Result<(String, String)> {
        let mut print = Command::new(&self.rustc);
        // `cargo run` points the loader at the libraries of the compiler that built this program.
        print.arg("-vV").env_remove("LD_LIBRARY_PATH");
        rustc_versions(&capture(&mut print)?)
    }
}

/// The first line and the LLVM version in what `rustc -vV` prints.
fn rustc_versions(output: &str) -> Result<(String, String)> {
    let rustc = output.lines().next().filter(|line| line.starts_with("rustc "));
    let llvm = output.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    let (Some(rustc), Some(llvm)) = (rustc, llvm) else { bail!("'{output}' is no version of rustc") };
    Ok((rustc.to_owned(), llvm.to_owned()))
}

impl Toolchain {
    /// Builds the object from the workspace at `root` and returns its bytes.
    pub(super) fn build(&self, root: &Path) -> Result<Vec<u8>> {
        let mut flags: Vec<String> = [
            // By name: a path here would go into the symbols' hashes.
            "-Clinker=bpf-linker",
            "-Clink-arg=--btf",
            "--cfg=bpf_target_arch=\"x86_64\"",
        ]
        .map(String::from)
        .to_vec();
        flags.extend(self.remaps(root)?);
        let target_dir = workspace::target_dir().join("ebpf");
        let mut build = self.cargo(root);
        build
            .args(["build", "--locked", "--release", "-Zbuild-std=core", "--target", TARGET])
            .args(["--package", "concprobe-ebpf", "--target-dir"])
            .arg(&target_dir)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        run(&mut build)?;
        let object = target_dir.join(TARGET).join("release/concprobe-bpf");
        let bytes = fs::read(&object).with_context(|| format!("cannot read {}", object.display()))?;
        strip::without_dwarf(&bytes).with_context(|| format!("cannot strip {}", object.display()))
    }

    /// Cargo without what the user's environment, rustup's proxies and the root manifest's profile for
    /// the user side would bring in.
    fn cargo(&self, root: &Path) -> Command {
        let mut cargo = Command::new(&self.compiler.cargo);
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.linker.clone()).chain(env::split_paths(&path));
        cargo.current_dir(root).env("RUSTC", &self.compiler.rustc);
        if let Ok(path) = env::join_paths(folders) {
            cargo.env("PATH", path);
        }
        for name in ["RUSTUP_TOOLCHAIN", "LD_LIBRARY_PATH", "RUSTFLAGS", "CARGO", "RUSTC_WORKSPACE_WRAPPER"] {
            cargo.env_remove(name);
        }
        cargo.env("RUSTC_WRAPPER", "");
        for (name, value) in [
            ("OPT_LEVEL", "3"),
            ("DEBUG", "2"),
            ("STRIP", "none"),
            ("LTO", "off"),
            ("CODEGEN_UNITS", "1"),
            ("PANIC", "abort"),
            ("OVERFLOW_CHECKS", "false"),
            ("DEBUG_ASSERTIONS", "false"),
        ] {
            cargo.env(format!("CARGO_PROFILE_RELEASE_{name}"), value);
        }
        if self.compiler.released {
            cargo.env("RUSTC_BOOTSTRAP", "1");
        }
        cargo
    }

    /// The flags that replace the folders of this machine by fixed names.
    fn remaps(&self, root: &Path) -> Result<Vec<String>> {
        let sources = &self.compiler.sources;
        let resolved = fs::canonicalize(sources).unwrap_or_else(|_| sources.clone());
        let mut folders =
            vec![(root.to_path_buf(), "/concprobe"), (sources.clone(), "/rust"), (resolved, "/rust")];
        folders.extend(self.registries(root)?.into_iter().map(|folder| (folder, "/registry")));
        let flag = |(from, to): (PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
        Ok(folders.into_iter().map(flag).collect())
    }

    /// The folders that hold the unpacked dependencies; asking downloads what is not there yet.
    fn registries(&self, root: &Path) -> Result<BTreeSet<PathBuf>> {
        let mut metadata = self.cargo(root);
        metadata.args(["metadata", "--locked", "--format-version", "1"]);
        registry_folders(&capture(&mut metadata)?)
    }
}

/// The parents of all package folders that `cargo metadata` names outside the workspace.
fn registry_folders(metadata: &str) -> Result<BTreeSet<PathBuf>> {
    let metadata: serde_json::Value =
        serde_json::from_str(metadata).context("cargo metadata printed no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata named no packages")?;
    let foreign = packages.iter().filter(|package| !package["source"].is_null());
    let manifests = foreign.filter_map(|package| package["manifest_path"].as_str());
    Ok(manifests
        .filter_map(|manifest| Path::new(manifest).ancestors().nth(2))
        .map(Path::to_path_buf)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_version_is_what_follows_its_name() {
        assert_eq!(bpf_linker_version("bpf-linker 0.13.0\n").unwrap(), "0.13.0");
        assert!(bpf_linker_version("LLD 19.1").is_err());
    }

    #[test]
    fn rustc_tells_its_own_version_and_that_of_llvm() {
        let output = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\nbinary: rustc\n\
                      release: 1.96.0\nLLVM version: 22.1.8\n";
        let (rustc, llvm) = rustc_versions(output).unwrap();
        assert_eq!(rustc, "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)");
        assert_eq!(llvm, "22.1.8");
        assert!(rustc_versions("").is_err());
    }

    #[test]
    fn dependencies_of_one_registry_share_one_folder() {
        let metadata = r#"{"packages": [
            {"source": "registry+index", "manifest_path": "/home/me/.cargo/registry/src/index-1/aya-1.0/Cargo.toml"},
            {"source": "registry+index", "manifest_path": "/home/me/.cargo/registry/src/index-1/syn-2.0/Cargo.toml"},
            {"source": null, "manifest_path": "/home/me/concprobe/xtask/Cargo.toml"}]}"#;
        let folders = registry_folders(metadata).unwrap();
        assert_eq!(Vec::from_iter(folders), [PathBuf::from("/home/me/.cargo/registry/src/index-1")]);
    }
}
