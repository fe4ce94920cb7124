//! One hash over everything that decides about the object's code: both kernel-side crates and the
//! lock file's entries that they reach. The rest of `Cargo.lock` and the root `Cargo.toml` stay out,
//! so that a new dependency of the user side does not make the object stale: the build overrides the
//! release profile, and the rebuild in `--check` notices whatever else could come from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

const CRATES: [&str; 2] = ["concprobe-common", "concprobe-ebpf"];

/// SHA-256 over the sources below `root`, in lower-case hexadecimal.
pub(super) fn hash(root: &Path) -> Result<String> {
    let mut files = BTreeMap::new();
    for name in CRATES {
        collect(root, name, &mut files)?;
    }
    let lock = root.join("Cargo.lock");
    let text = fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let locked = locked(&text).with_context(|| format!("cannot make sense of {}", lock.display()))?;
    files.insert("Cargo.lock".into(), locked.into_bytes());
    Ok(hash_files(&files))
}

/// Adds all files below `root/relative`, under their paths from the root. Hidden files are left out:
/// they are an editor's or a tool's.
fn collect(root: &Path, relative: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let folder = root.join(relative);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .ok()
            .with_context(|| format!("{} holds a file whose name is no UTF-8", folder.display()))?;
        if name.starts_with('.') || name == "target" {
            continue;
        }
        let path = format!("{relative}/{name}");
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else {
            let content = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            files.insert(path, content);
        }
    }
    Ok(())
}

/// Lengths go in before the bytes, so that no two sets of files look the same to the hash.
fn hash_files(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut sha = Sha256::new();
    for (path, content) in files {
        for part in [path.as_bytes(), content] {
            sha.update((part.len() as u64).to_le_bytes());
            sha.update(part);
        }
    }
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    #[serde(default)]
    checksum: String,
    /// `name`, or `name version` where the name alone is ambiguous.
    #[serde(default)]
    dependencies: Vec<String>,
}

/// The packages that the kernel side reaches, one `name version checksum` a line, sorted.
fn locked(lock: &str) -> Result<String> {
    let lock: Lock = toml::from_str(lock)?;
    let mut lines = BTreeSet::new();
    let mut open: Vec<&str> = CRATES.to_vec();
    while let Some(dependency) = open.pop() {
        let mut words = dependency.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        let package = lock
            .package
            .iter()
            .find(|package| package.name == name && version.is_none_or(|version| version == package.version))
            .with_context(|| format!("no package {dependency}"))?;
        if lines.insert(format!("{} {} {}\n", package.name, package.version, package.checksum)) {
            open.extend(package.dependencies.iter().map(String::as_str));
        }
    }
    Ok(lines.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        list.iter().map(|(path, content)| ((*path).into(), content.as_bytes().to_vec())).collect()
    }

    #[test]
    fn the_order_of_listing_does_not_change_the_hash() {
        assert_eq!(
            hash_files(&files(&[("a", "1"), ("b", "2")])),
            hash_files(&files(&[("b", "2"), ("a", "1")]))
        );
    }

    #[test]
    fn names_contents_and_their_borders_change_the_hash() {
        let base = hash_files(&files(&[("a", "bc")]));
        for other in [&[("ab", "c")][..], &[("a", "bd")], &[("b", "bc")], &[("a", "bc"), ("d", "")], &[]] {
            assert_ne!(hash_files(&files(other)), base, "{other:?}");
        }
    }

    const LOCK: &str = r#"
version = 4
[[package]]
name = "concprobe-common"
version = "0.1.0"
[[package]]
name = "concprobe-ebpf"
version = "0.1.0"
dependencies = ["aya-ebpf", "concprobe-common", "syn 2.0.0"]
[[package]]
name = "aya-ebpf"
version = "0.2.1"
checksum = "c0ffee"
dependencies = ["syn 2.0.0"]
[[package]]
name = "syn"
version = "1.0.0"
[[package]]
name = "syn"
version = "2.0.0"
[[package]]
name = "clap"
version = "4.5.0"
"#;

    #[test]
    fn only_what_the_kernel_side_reaches_is_locked_in() {
        assert_eq!(
            locked(LOCK).unwrap(),
            "aya-ebpf 0.2.1 c0ffee\nconcprobe-common 0.1.0 \nconcprobe-ebpf 0.1.0 \nsyn 2.0.0 \n"
        );
    }

    #[test]
    fn a_lock_file_without_the_crates_is_an_error() {
        assert!(locked("version = 4\npackage = []\n").is_err());
    }
}
