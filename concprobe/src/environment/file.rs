//! Reads small kernel files as text; a failure names the file and what the system said.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// The file's content without the white space around it; bytes that are not UTF-8 are replaced.
pub(crate) fn text(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// The first `limit` bytes of the file; for files that have one block for each CPU.
pub(crate) fn beginning(path: impl AsRef<Path>, limit: u64) -> Result<String, String> {
    let path = path.as_ref();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// The file's whole content as one value.
pub(crate) fn value<T: FromStr>(path: impl AsRef<Path>) -> Result<T, String> {
    let path = path.as_ref();
    let text = text(path)?;
    text.parse().map_err(|_| format!("{}: unexpected content {text:?}", path.display()))
}

/// The value after `name:` in files such as `/proc/self/status`, `/proc/meminfo` and `/proc/cpuinfo`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// The choice in brackets, as in `none integrity [confidentiality]`, or with parentheses, as in
/// `none voluntary (full)`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| {
        let inner = word
            .strip_prefix('[')
            .and_then(|word| word.strip_suffix(']'))
            .or_else(|| word.strip_prefix('(').and_then(|word| word.strip_suffix(')')))?;
        (!inner.is_empty()).then_some(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_in_brackets_is_found_and_no_other() {
        assert_eq!(chosen("none integrity [confidentiality]"), Some("confidentiality"));
        assert_eq!(chosen("[none] integrity confidentiality\n"), Some("none"));
        assert_eq!(chosen("none voluntary (full) lazy"), Some("full"));
        assert_eq!(chosen("none integrity"), None);
        assert_eq!(chosen("[] ()"), None);
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn a_field_is_matched_by_its_whole_name() {
        let status = "Name:\tcat\nNSpid:\t12\t1\nCapEff:\t000001ffffffffff\n";
        assert_eq!(field(status, "NSpid"), Some("12\t1"));
        assert_eq!(field(status, "Cap"), None);
        assert_eq!(field("model name\t: A : B\n", "model name"), Some("A : B"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named_in_the_reason() {
        let reason = text("/proc/no-such-file").unwrap_err();
        assert!(reason.starts_with("/proc/no-such-file: No such file"), "{reason}");
        let reason = value::<u64>("/proc/version").unwrap_err();
        assert!(reason.starts_with("/proc/version: unexpected content \"Linux"), "{reason}");
    }
}
