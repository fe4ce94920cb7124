//! The command's process before it becomes the command: it announces itself to the kernel programs, waits
//! to be released, becomes who it shall be, and executes. It ends when concprobe ends meanwhile.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    path::Path,
};

use tokio::io::AsyncReadExt as _;

use super::{
    identity::{Identity, Step, error_number},
    image::{Image, inherited_environment},
    running::{Child, Running},
    undisturbed::{Undisturbed, is_ignored, set_mask},
};

/// Orders to the process, the first also its answer.
const ANNOUNCE: u8 = b'a';
const GO: u8 = b'g';
/// The step in a failure report that stands for exec; the others are those of [`Step`].
const EXEC: u32 = 0;
/// Exit statuses of a shell (POSIX, 2.8.2).
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
/// concprobe's own: could not run.
const FAILED: i32 = 2;

/// What a thread tells the kernel programs, as spare arguments of `getppid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Of which session it is.
    pub session: u64,
    /// Which thread it is.
    pub cookie: u64,
}

/// Why the command did not start.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// There is no such command.
    #[error("cannot run {}: {reason}", command.display())]
    NotFound {
        /// As it was given.
        command: OsString,
        /// What is missing.
        reason: &'static str,
    },
    /// There is, but the system does not execute it.
    #[error("cannot run {}: {error}", command.display())]
    NotExecutable {
        /// As it was given.
        command: OsString,
        /// What the system said.
        error: io::Error,
    },
    /// It could not be given the user it shall run as.
    #[error("cannot {attempt} to run the command as user {uid}: {error}")]
    NotThatUser {
        /// Who it should have been.
        uid: u32,
        /// What was tried.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The process could not be made or talked to.
    #[error("cannot {attempt}: {error}")]
    System {
        /// What was tried.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl NotStarted {
    /// The exit status that tells of it: 127 and 126 as a shell's, otherwise concprobe's own 2.
    pub fn shell_status(&self) -> i32 {
        match self {
            Self::NotFound { .. } => NOT_FOUND,
            Self::NotExecutable { .. } => NOT_EXECUTABLE,
            Self::NotThatUser { .. } | Self::System { .. } => FAILED,
        }
    }

    fn system(attempt: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { attempt, error }
    }
}

/// The command's process, which waits to be released. Dropped, it ends.
#[derive(Debug)]
pub struct Held {
    child: Child,
    socket: UnixStream,
    command: OsString,
    uid: u32,
}

impl Held {
    /// Makes the process, which has announced itself when this returns. It is still root then, if concprobe
    /// is: its descriptors and memory are concprobe's until it executes, and nobody else may touch them.
    ///
    /// # Errors
    /// When there is no command, or the system refuses a process.
    pub fn start(
        command: &[OsString],
        identity: &Identity,
        announcement: Option<Announcement>,
    ) -> Result<Self, NotStarted> {
        let Some((name, arguments)) = command.split_first() else {
            return Err(not_executed(OsString::new(), libc::ENOENT));
        };
        let environment = identity.environment(inherited_environment());
        let mut image = Image::prepare(name, arguments, &environment)
            .map_err(|error| NotStarted::NotExecutable { command: name.clone(), error: error.into() })?;
        let (ours, theirs) =
            UnixStream::pair().map_err(NotStarted::system("make a socket pair for the command"))?;
        let undisturbed = Undisturbed::remembered();
        keep_children();
        // A handler of concprobe's must not run in the process: it would write into concprobe's own pipe.
        let mask = set_mask(u64::MAX);
        // SAFETY: the process makes plain system calls only, on what was made ready here.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            undisturbed.restore_signals();
            // SAFETY: the other end is this process's copy; with it open, it would not see concprobe end.
            unsafe { libc::close(ours.as_raw_fd()) };
            become_command(theirs.as_raw_fd(), undisturbed, identity, &mut image, announcement);
        }
        let error = io::Error::last_os_error();
        set_mask(mask);
        if pid < 0 {
            return Err(NotStarted::system("make a process for the command")(error));
        }
        // With it open, this process would not see that one end.
        drop(theirs);
        let held = Self { child: Child::held(pid), socket: ours, command: name.clone(), uid: identity.uid() };
        held.answer()?;
        Ok(held)
    }

    /// The process.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// The id of the process, which that of the command will be.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Lets it announce itself once more: the kernel may have left a program out.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn announce(&self) -> Result<(), NotStarted> {
        self.order(ANNOUNCE)?;
        self.answer()
    }

    /// Lets it execute the command, and returns when it has. In a tokio runtime; given up before it is done,
    /// the process ends.
    ///
    /// # Errors
    /// When it could not become the command; it has ended then.
    pub async fn release(mut self) -> Result<Running, NotStarted> {
        // A process that was ended by a signal meanwhile has its end told like any other.
        let _ = self.order(GO);
        let attempt = "hear from the command's process";
        let report = async {
            self.socket.set_nonblocking(true)?;
            let mut socket = tokio::net::UnixStream::from_std(self.socket)?;
            let mut report = Vec::new();
            socket.read_to_end(&mut report).await.map(|_| report)
        };
        let report = match report.await {
            // It ended with an order unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Vec::new(),
            other => other.map_err(NotStarted::system(attempt))?,
        };
        if let Some((step, error)) = understand(&report) {
            return Err(explain(step, error, self.command, self.uid));
        }
        self.child.set_free();
        Running::new(self.child).map_err(NotStarted::system("wait for the command"))
    }

    fn order(&self, order: u8) -> Result<(), NotStarted> {
        // Rust ignores SIGPIPE: a process that is gone is an error.
        (&self.socket).write_all(&[order]).map_err(gone)
    }

    fn answer(&self) -> Result<(), NotStarted> {
        (&self.socket).read_exact(&mut [0]).map_err(gone)
    }
}

/// Who does not hear or answer has ended, as by a signal from the terminal.
fn gone(error: io::Error) -> NotStarted {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    let ended = matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof);
    let error = if ended { io::Error::other("it has ended") } else { error };
    NotStarted::System { attempt: "talk to the command's process, which waits to be released", error }
}

/// A process that was started with SIGCHLD ignored is not told how its children ended.
fn keep_children() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: the default disposition has no handler.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// The whole life of the process up to exec.
fn become_command(
    socket: i32,
    undisturbed: &Undisturbed,
    identity: &Identity,
    image: &mut Image,
    announcement: Option<Announcement>,
) -> ! {
    let mut order = ANNOUNCE;
    while order != GO {
        if let Some(Announcement { session, cookie }) = announcement {
            // SAFETY: `getppid` takes no arguments; the spare ones are for the kernel programs.
            unsafe { libc::syscall(libc::SYS_getppid, session, cookie) };
        }
        send(socket, &[ANNOUNCE]);
        order = receive(socket);
    }
    // While concprobe's rights are there.
    undisturbed.restore_limits();
    undisturbed.mark_descriptors();
    let (step, error) = match identity.assume() {
        Ok(()) => (EXEC, image.execute()),
        Err((step, error)) => (step as u32, error),
    };
    let [a, b, c, d] = step.to_ne_bytes();
    let [e, f, g, h] = error.to_ne_bytes();
    send(socket, &[a, b, c, d, e, f, g, h]);
    // SAFETY: ends the process without running what concprobe registered for its own end.
    unsafe { libc::_exit(NOT_FOUND) }
}

fn send(socket: i32, bytes: &[u8]) {
    loop {
        // SAFETY: the kernel reads as many bytes as there are.
        let sent = unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        if sent >= 0 || error_number() != libc::EINTR {
            return;
        }
    }
}

/// The next order; there is no more of them when concprobe is gone, and then the process ends.
fn receive(socket: i32) -> u8 {
    let mut order = 0_u8;
    loop {
        // SAFETY: the kernel writes at most one byte.
        let received = unsafe { libc::recv(socket, (&raw mut order).cast(), 1, 0) };
        if received == 1 {
            return order;
        }
        if received == 0 || error_number() != libc::EINTR {
            // SAFETY: as above.
            unsafe { libc::_exit(NOT_FOUND) };
        }
    }
}

/// What failed and how, if anything was reported.
fn understand(report: &[u8]) -> Option<(u32, i32)> {
    let (step, error) = report.split_first_chunk::<4>()?;
    Some((u32::from_ne_bytes(*step), i32::from_ne_bytes(error.try_into().ok()?)))
}

fn explain(step: u32, number: i32, command: OsString, uid: u32) -> NotStarted {
    let error = io::Error::from_raw_os_error(number);
    let not_that_user = |attempt| NotStarted::NotThatUser { uid, attempt, error };
    match step {
        EXEC => not_executed(command, number),
        _ if step == Step::Groups as u32 => not_that_user("set the groups"),
        _ if step == Step::Group as u32 => not_that_user("set the group"),
        _ => not_that_user("set the user"),
    }
}

fn not_executed(command: OsString, number: i32) -> NotStarted {
    if !matches!(number, libc::ENOENT | libc::ENOTDIR) {
        return NotStarted::NotExecutable { command, error: io::Error::from_raw_os_error(number) };
    }
    let reason = what_is_missing(&command);
    NotStarted::NotFound { command, reason }
}

fn what_is_missing(command: &OsStr) -> &'static str {
    if command.is_empty() {
        "no command was named"
    } else if !command.as_encoded_bytes().contains(&b'/') {
        "there is no such command in the folders of PATH"
    } else if Path::new(command).is_file() {
        "the file is there, but the interpreter or loader that it names is not"
    } else {
        "there is no such file"
    }
}
