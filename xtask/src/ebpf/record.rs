//! The record beside the checked-in object: which sources and which tools it came from.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The content of `concprobe.bpf.json`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// See [`super::sources::hash`].
    pub(super) sources_sha256: String,
    pub(super) object_sha256: String,
    #[serde(flatten)]
    pub(super) tools: Tools,
}

/// The versions that decide about the object's bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Tools {
    /// First line of `rustc -vV`.
    pub(super) rustc: String,
    /// The LLVM of that rustc; the linker has to use the same one or a newer one.
    pub(super) llvm: String,
    /// Without the program's name, as in `0.13.0`.
    pub(super) bpf_linker: String,
}

impl Record {
    pub(super) fn new(sources_sha256: String, tools: Tools, object: &[u8]) -> Self {
        Self { sources_sha256, object_sha256: sha256(object), tools }
    }

    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no record of a build", file.display()))
    }

    pub(super) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl Tools {
    /// How `found` differs from these recorded versions, in words.
    pub(super) fn difference(&self, found: &Self) -> Option<String> {
        let pairs = [
            ("rustc", &self.rustc, &found.rustc),
            ("LLVM", &self.llvm, &found.llvm),
            ("bpf-linker", &self.bpf_linker, &found.bpf_linker),
        ];
        let differing = pairs.iter().filter(|(_, recorded, found)| recorded != found);
        let words: Vec<_> = differing
            .map(|(tool, recorded, found)| format!("{tool} is '{found}', the record names '{recorded}'"))
            .collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// SHA-256 in lower-case hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Tools {
        Tools { rustc: "rustc 1.96.0".into(), llvm: "22.1.8".into(), bpf_linker: "0.13.0".into() }
    }

    #[test]
    fn the_empty_input_has_its_published_hash() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn a_record_survives_its_json() {
        let record = Record::new("ab".into(), tools(), b"object");
        assert_eq!(serde_json::from_str::<Record>(&record.to_json().unwrap()).unwrap(), record);
    }

    #[test]
    fn only_differing_tools_are_named() {
        assert_eq!(tools().difference(&tools()), None);
        let found = Tools { bpf_linker: "0.14.0".into(), ..tools() };
        assert_eq!(tools().difference(&found).unwrap(), "bpf-linker is '0.14.0', the record names '0.13.0'");
    }
}
