//! Child processes whose failure says what was run and how it ended.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context as _, Result, bail};

/// Runs `command` with this process's own input and output; an exit status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run `{}`", as_typed(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", as_typed(command));
    }
    Ok(())
}

/// Runs `command` and returns its standard output; an exit status other than 0 is an error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{}`", as_typed(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", as_typed(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no UTF-8", as_typed(command)))
}

/// The command line, for messages; the end of a list of many files is left out.
pub(crate) fn as_typed(command: &Command) -> String {
    const MOST: usize = 20;
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut words: Vec<_> = words.map(quoted).collect();
    if words.len() > MOST {
        let more = words.len() - MOST / 2;
        words.truncate(MOST / 2);
        words.push(format!("… ({more} more)"));
    }
    words.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%*".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The program `name` on `PATH`.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Whether `file` is a file that somebody may execute.
pub(crate) fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_named_with_its_status() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c 'exit 3'` failed: exit status: 3");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = capture(&mut Command::new("/nonexistent/tool")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run `/nonexistent/tool`");
    }

    #[test]
    fn long_lists_are_cut() {
        let mut command = Command::new("rustfmt");
        command.args(["f"; 30]);
        assert_eq!(as_typed(&command), "rustfmt f f f f f f f f f … (21 more)");
    }

    #[test]
    fn words_with_quotes_stay_typeable() {
        assert_eq!(as_typed(Command::new("a").args(["it's", "", "x=1"])), r"a 'it'\''s' '' x=1");
    }
}
