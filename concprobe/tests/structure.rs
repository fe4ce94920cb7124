//! The dependency picture: which module must not know of which. A forbidden arrow fails here.

use std::{fs, path::Path};

/// Module (or file) → words that must not appear in its code.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "workload",
        &["aya", "tokio", "clap", "concprobe_common", "crate::probe", "crate::run", "crate::report"],
    ),
    ("harness", &["aya", "tokio", "clap", "crate::probe", "crate::run", "crate::report", "crate::workload"]),
    (
        "probe",
        &["tokio", "crate::workload", "crate::harness", "crate::run", "crate::report", "crate::observation"],
    ),
    ("observation", &["aya", "tokio", "crate::probe", "crate::run", "crate::report"]),
    (
        "diagnose",
        &["aya", "tokio", "std::fs", "std::time", "clock", "crate::probe", "crate::run", "crate::report"],
    ),
    (
        "report",
        &["aya", "tokio", "std::fs", "std::time", "clock", "crate::probe", "crate::run", "crate::diagnose"],
    ),
    ("environment", &["aya", "tokio", "crate::probe", "crate::run", "crate::report", "crate::harness"]),
    ("doctor", &["aya", "tokio", "crate::probe", "crate::run", "crate::report", "crate::harness"]),
    ("plan", &["aya", "tokio", "crate::run", "crate::report", "crate::cli"]),
    ("trace", &["aya", "crate::cli", "crate::report", "crate::workload"]),
    ("saved", &["aya", "tokio", "crate::run", "crate::report", "crate::cli", "crate::trace"]),
    ("diff", &["aya", "tokio", "std::fs", "crate::run", "crate::report", "crate::cli", "crate::trace"]),
    ("figures", &["aya", "tokio", "crate::run", "crate::report"]),
    ("run", &["aya", "crate::cli", "crate::report"]),
    ("compare", &["aya", "crate::probe", "crate::report", "crate::cli"]),
    ("reproduce", &["aya", "tokio", "crate::probe", "crate::report", "crate::cli"]),
    (
        "stack",
        &["aya", "tokio", "crate::run", "crate::report", "crate::cli", "crate::workload", "crate::harness"],
    ),
    (
        "target",
        &[
            "aya",
            "crate::run",
            "crate::report",
            "crate::cli",
            "crate::workload",
            "crate::probe",
            "crate::observation",
        ],
    ),
    ("clock", &["crate::"]),
    ("units", &["crate::"]),
    ("statistics", &["crate::"]),
    ("call_names", &["crate::"]),
    ("latencies", &["aya", "crate::run", "crate::report", "crate::probe"]),
];

/// A workload may name the very thing that it measures.
const MEASURED: &[(&str, &str)] = &[("tokio_tasks", "tokio")];

/// The code of a file without comments, text literals and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .map(|line| line.split('"').step_by(2).collect::<Vec<_>>().join("\"\""))
        .collect::<Vec<_>>()
        .join("\n")
}

fn files(module: &str) -> Vec<std::path::PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join(format!("{module}.rs"))];
    let mut folders = vec![source.join(module)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

fn mentions(code: &str, word: &str) -> bool {
    let is_part =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    code.match_indices(word).any(|(at, found)| {
        !is_part(code[..at].chars().next_back()) && !is_part(code[at + found.len()..].chars().next())
    })
}

#[test]
fn no_module_knows_what_it_must_not_know() {
    for (module, words) in FORBIDDEN {
        for file in files(module) {
            let code = code(&file);
            let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            for word in words.iter().filter(|word| !MEASURED.contains(&(stem, word))) {
                assert!(!mentions(&code, word), "{} names {word}", file.display());
            }
        }
    }
}

#[test]
fn every_module_of_the_library_is_in_the_picture() {
    let library = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    for line in library.lines().filter_map(|line| line.strip_prefix("pub mod ")) {
        let module = line.trim_end_matches(';');
        assert!(module == "cli" || FORBIDDEN.iter().any(|(known, _)| *known == module), "{module}");
    }
}

#[test]
fn a_forbidden_word_would_be_found() {
    assert!(mentions("use aya::Ebpf;", "aya"));
    assert!(!mentions("use aya_log::EbpfLogger;", "aya"));
    assert!(!mentions("let payaya = 1;", "aya"));
}
