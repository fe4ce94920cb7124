//! `build-ebpf`: compiles the kernel side into the object that concprobe embeds, and keeps a record
//! beside it of the sources and tools it came from. `--check` compares both with what is checked in.

mod record;
mod sources;
mod strip;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::workspace;
use record::Record;
use toolchain::Toolchain;

const STALE: &str = "stale: run cargo xtask build-ebpf";

/// What `build-ebpf` is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only check the object: fail when its sources have changed or a rebuild gives other bytes
    #[arg(long)]
    check: bool,
    /// Check only the sources' hash; needs no eBPF toolchain
    #[arg(long, requires = "check")]
    hash_only: bool,
}

/// The checked-in object and its record.
struct Checked {
    object: PathBuf,
    record: PathBuf,
}

/// Builds the object, or checks it.
pub(crate) fn build_ebpf(options: &Options) -> Result<()> {
    let root = workspace::root();
    let folder = root.join("concprobe/ebpf");
    let checked =
        Checked { object: folder.join("concprobe.bpf.o"), record: folder.join("concprobe.bpf.json") };
    if options.check { check(&root, &checked, options.hash_only) } else { build(&root, &checked) }
}

fn build(root: &Path, checked: &Checked) -> Result<()> {
    let before = Record::read(&checked.record).ok();
    let toolchain = toolchain::find(before.as_ref().map(|record| &record.tools))?;
    if let Some(difference) = before.as_ref().and_then(|before| before.tools.difference(&toolchain.tools)) {
        println!("note: {difference}; the bytes change with the tools");
    }
    let bytes = toolchain.build(root)?;
    let record = Record::new(sources::hash(root)?, toolchain.tools, &bytes);
    fs::create_dir_all(checked.object.parent().unwrap_or(root))
        .context("cannot create the object's folder")?;
    write(&checked.object, &bytes)?;
    write(&checked.record, record.to_json()?.as_bytes())?;
    let unchanged = before.is_some_and(|before| before.object_sha256 == record.object_sha256);
    println!(
        "{}: {} bytes, sha256 {}{}",
        checked.object.display(),
        bytes.len(),
        record.object_sha256,
        if unchanged { " (unchanged)" } else { "" }
    );
    Ok(())
}

fn check(root: &Path, checked: &Checked, hash_only: bool) -> Result<()> {
    let record = Record::read(&checked.record)?;
    let object =
        fs::read(&checked.object).with_context(|| format!("cannot read {}", checked.object.display()))?;
    if record::sha256(&object) != record.object_sha256 {
        bail!("{} is not the object of its record; {STALE}", checked.object.display());
    }
    if sources::hash(root)? != record.sources_sha256 {
        bail!("the sources of {} have changed; {STALE}", checked.object.display());
    }
    if hash_only {
        println!("eBPF object: the sources' hash fits (nothing was rebuilt)");
        return Ok(());
    }
    match toolchain::find(Some(&record.tools)) {
        Err(missing) => println!("eBPF object: the sources' hash fits; only that was compared\n{missing:#}"),
        Ok(toolchain) => match record.tools.difference(&toolchain.tools) {
            Some(difference) => {
                println!("eBPF object: the sources' hash fits; only that was compared: {difference}");
            }
            None => check_rebuild(root, &record, &toolchain)?,
        },
    }
    Ok(())
}

fn check_rebuild(root: &Path, record: &Record, toolchain: &Toolchain) -> Result<()> {
    let sha256 = record::sha256(&toolchain.build(root)?);
    if sha256 != record.object_sha256 {
        bail!(
            "a rebuild with the same tools gives other bytes (sha256 {sha256}, recorded {}); {STALE}",
            record.object_sha256
        );
    }
    println!("eBPF object: the sources' hash fits, and a rebuild gives the same bytes (sha256 {sha256})");
    Ok(())
}

fn write(file: &Path, content: &[u8]) -> Result<()> {
    fs::write(file, content).with_context(|| format!("cannot write {}", file.display()))
}
