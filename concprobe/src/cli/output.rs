//! The only place that writes: results to stdout, everything else to stderr, files where asked.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt as _, chown},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::report::Style;

/// Writes a result.
///
/// # Errors
/// When stdout does not take it: a closed pipe, a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("cannot write to stdout")
}

/// Says what went wrong.
#[expect(clippy::print_stderr, reason = "this is the place for it")]
pub fn complain(error: &anyhow::Error) {
    eprintln!("concprobe: {}", harmless(&format!("{error:#}")));
}

/// Says what to be careful about.
#[expect(clippy::print_stderr, reason = "this is the place for it")]
pub fn warn(warning: &str) {
    eprintln!("concprobe: warning: {}", harmless(warning));
}

/// Without what a terminal would obey, but for line feeds and the headings' own bold: names and files that
/// come from elsewhere may hold anything.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        let own = || ["\x1b[1m", "\x1b[0m"].iter().any(|code| text[at..].starts_with(code));
        if letter.is_control() && letter != '\n' && !own() {
            safe.extend(letter.escape_default());
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// The reader of a pipe has had enough, which is no failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// How to write the screen: colour only on a terminal, and not where `NO_COLOR` is set.
pub fn style(verbose: u8) -> Style {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style { colour: io::stdout().is_terminal() && !no_colour, verbose: verbose > 0 }
}

/// The command line without the program's name.
pub fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// Lets the kernel programs' messages go to stderr.
pub fn show_messages() {
    struct Stderr;

    impl log::Log for Stderr {
        fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
            metadata.target().starts_with("concprobe")
        }

        #[expect(clippy::print_stderr, reason = "this is the place for it")]
        fn log(&self, record: &log::Record<'_>) {
            if self.enabled(record.metadata()) {
                eprintln!("concprobe: kernel: {}", record.args());
            }
        }

        fn flush(&self) {}
    }

    static STDERR: Stderr = Stderr;
    // Fails only when a logger is set already, and there is none.
    if log::set_logger(&STDERR).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
}

/// While it lives, what a command writes to stdout goes to stderr, so that a result can have stdout alone.
#[derive(Debug)]
pub struct OwnStdout(OwnedFd);

impl OwnStdout {
    /// Takes stdout for the result.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn take() -> Result<Self> {
        let kept = io::stdout().as_fd().try_clone_to_owned().context("cannot keep stdout for the result")?;
        redirect(io::stderr().as_fd()).context("cannot lead the command's output to stderr")?;
        Ok(Self(kept))
    }
}

impl Drop for OwnStdout {
    fn drop(&mut self) {
        // It worked in the other direction, and a result that goes to stderr is better than none.
        let _ = redirect(self.0.as_fd());
    }
}

fn redirect(to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open.
    if unsafe { libc::dup2(to.as_raw_fd(), libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Where the whole result goes, found to be writable before anything is measured.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    file: File,
    /// The file was made by this run.
    fresh: bool,
    /// To whom the file is given.
    owner: Option<(u32, u32)>,
}

impl Destination {
    /// Gives the file to that user and group, under sudo to the caller.
    pub fn give_to(mut self, owner: Option<(u32, u32)>) -> Self {
        self.owner = owner;
        self
    }

    /// Opens the file without touching what it holds.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn prepare(path: &Path) -> Result<Self> {
        let fresh = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("cannot write the result to {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, fresh, owner: None })
    }

    /// Writes the result; a file that held an older one is replaced only when all of the new one is there.
    ///
    /// # Errors
    /// What the system says, and that the result has been printed.
    pub fn save(self, text: &str) -> Result<()> {
        let Self { path, mut file, fresh, owner } = self;
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let written = if fresh || !is_file {
            file.write_all(text.as_bytes()).and_then(|()| if is_file { file.sync_all() } else { Ok(()) })
        } else {
            replace(&path, text)
        };
        if written.is_err() && fresh {
            // A part of a result must not pass for one.
            let _ = fs::remove_file(&path);
        }
        if let Some((user, group)) = owner.filter(|_| fresh && is_file && written.is_ok()) {
            chown(&path, Some(user), Some(group))
                .with_context(|| format!("cannot give {} to its user", path.display()))?;
        }
        written.with_context(|| format!("the result could not be saved to {}", path.display()))
    }

    /// Removes the file if this run made it.
    pub fn abandon(self) {
        if self.fresh {
            // Nothing was measured; an empty file more or less is not worth an error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let older = fs::metadata(path)?;
    let written = File::create(&partial)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        // The new one belongs to whom the older one belonged, and may be read by the same.
        .and_then(|()| chown(&partial, Some(older.uid()), Some(older.gid())))
        .and_then(|()| fs::set_permissions(&partial, older.permissions()))
        .and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}
