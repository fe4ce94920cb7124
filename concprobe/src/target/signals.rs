//! Signals to concprobe while a command runs: who sent them and to whom, in the order in which they came,
//! and with that what the command has to be told. SIGTSTP, SIGCONT and the like keep their default effect.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{Instant, sleep_until, timeout},
};

use super::{
    running::Child,
    undisturbed::{Undisturbed, bit},
    wish::{Act, Arrival, MESSAGES, WISHES, Wish, Wishes},
    witness::Witness,
};

/// How long a signal is kept back, until whoever sends it has sent it to all that shall get it.
const SETTLE: Duration = Duration::from_millis(10);

/// What the handler writes: signal, `si_code`, sender, `CLOCK_MONOTONIC` in nanoseconds.
type Record = [i64; 4];

/// The handler's pipe. It stays open: a handler may still be about to write when nobody listens any more.
static PIPE: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();
static WRITE_END: AtomicI32 = AtomicI32::new(-1);
static LISTENING: AtomicBool = AtomicBool::new(false);

/// The handlers; dropped, the signals have their former effect again.
#[derive(Debug)]
pub struct Signals {
    pipe: AsyncFd<RawFd>,
    /// Where there is none, whether the kernel sent a signal must do.
    witness: Option<Witness>,
    /// What the witness got and nobody asked for yet.
    seen: u64,
    wishes: Wishes,
    /// What came, and when it is to be decided upon.
    kept: Vec<(Instant, Came)>,
    /// Last, so that the handlers stay as long as the rest is there.
    _handlers: Handlers,
}

#[derive(Clone, Copy, Debug)]
struct Came {
    signal: i32,
    by_kernel: bool,
    sender: i32,
    at_ns: u64,
}

impl Signals {
    /// Installs the handlers. In a tokio runtime, and before the command's process is made, so that no
    /// signal is missed.
    ///
    /// # Errors
    /// When the system refuses, or somebody listens already.
    pub fn listen() -> Result<Self> {
        let ignored = Undisturbed::remembered().ignored();
        let read_end = pipe().context("cannot make a pipe for signals")?;
        let witness = Witness::post().ok();
        let handlers = Handlers::install(read_end)?;
        // SAFETY: the pipe is never closed.
        let pipe = unsafe { AsyncFd::register_with_interest(read_end, Interest::READABLE) }
            .context("cannot listen to signals")?;
        Ok(Self {
            pipe,
            witness,
            seen: 0,
            wishes: Wishes::new(ignored),
            kept: Vec::new(),
            _handlers: handlers,
        })
    }

    /// The next wish; the child, if there is one, has been passed on the signal, or killed. May be given up
    /// and begun again.
    pub async fn next(&mut self, child: Option<&Child>) -> Wish {
        loop {
            let due = self.kept.first().map(|(due, _)| *due);
            tokio::select! {
                came = read_next(&self.pipe) => self.keep(came),
                () = wait_until(due) => {
                    let (_, came) = self.kept.remove(0);
                    if let Some(wish) = self.decide(came, child) {
                        return wish;
                    }
                }
            }
        }
    }

    /// The wish that came up to now, if one did: for who has no child yet.
    pub async fn already(&mut self) -> Option<Wish> {
        // Takes in what lies in the pipe, which is decided upon a little later.
        if let Ok(wish) = timeout(Duration::ZERO, self.next(None)).await {
            return Some(wish);
        }
        if self.kept.is_empty() {
            return None;
        }
        timeout(2 * SETTLE, self.next(None)).await.ok()
    }

    /// The wish that came up to now or comes at once: for who has found its child dead of a signal that was sent to the
    /// whole group.
    pub async fn soon(&mut self) -> Option<Wish> {
        timeout(3 * SETTLE, self.next(None)).await.ok()
    }

    /// The same signal again is the same to the kernel too, as long as it is not delivered.
    fn keep(&mut self, came: Came) {
        if self.kept.iter().all(|(_, other)| other.signal != came.signal) {
            self.kept.push((Instant::now() + SETTLE, came));
        }
    }

    fn decide(&mut self, came: Came, child: Option<&Child>) -> Option<Wish> {
        let Came { signal, at_ns, .. } = came;
        let reached_group =
            self.reached_group(came) && !child.is_some_and(|child| child.may_have_missed(at_ns));
        let from_command = child.is_some_and(|child| child.pid() == came.sender);
        let (wish, act) = self.wishes.take(Arrival { signal, at_ns, reached_group, from_command });
        match (act, child) {
            (Act::PassOn, Some(child)) => child.send(signal),
            (Act::Kill, Some(child)) => child.send(libc::SIGKILL),
            _ => {}
        }
        wish
    }

    fn reached_group(&mut self, came: Came) -> bool {
        let Some(witness) = &self.witness else { return came.by_kernel };
        let seen = match witness.ask() {
            Ok(seen) => Some(seen),
            Err(_) => {
                let unheard = witness.unheard();
                self.witness = Witness::post().ok();
                unheard
            }
        };
        let Some(seen) = seen else { return came.by_kernel };
        let known = self.seen | seen;
        self.seen = known & !bit(came.signal);
        known & bit(came.signal) != 0
    }
}

async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// What came next; waits for ever where the pipe cannot be read.
async fn read_next(pipe: &AsyncFd<RawFd>) -> Came {
    while let Ok(mut guard) = pipe.readable().await {
        match guard.try_io(|pipe| read(*pipe.get_ref())) {
            Ok(Ok(Some(came))) => return came,
            Ok(_) => break,
            Err(_would_block) => {}
        }
    }
    std::future::pending().await
}

fn read(pipe: RawFd) -> io::Result<Option<Came>> {
    let mut record: Record = [0; 4];
    // SAFETY: the kernel writes at most one record. The handler's records are written as a whole.
    let length = unsafe { libc::read(pipe, (&raw mut record).cast(), size_of::<Record>()) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    let [signal, code, sender, at_ns] = record;
    let number = |value: i64| i32::try_from(value).unwrap_or(0);
    // Positive codes are the kernel's; for SI_USER, SI_TKILL and SI_QUEUE there is a sender (sigaction(2)).
    let by_kernel = code > 0;
    let sender = if by_kernel { 0 } else { number(sender) };
    let came = Came { signal: number(signal), by_kernel, sender, at_ns: u64::try_from(at_ns).unwrap_or(0) };
    Ok((length > 0).then_some(came))
}

/// The end of the pipe to read from; both ends do not block, and exec closes them.
fn pipe() -> io::Result<RawFd> {
    if PIPE.get().is_none() {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: they were opened just now and nobody else has them.
        let ends = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // Whoever was first has won; then these are closed again.
        let _ = PIPE.set(ends.into());
    }
    let (read_end, write_end) = PIPE.get().ok_or_else(|| io::Error::other("the pipe is gone"))?;
    WRITE_END.store(write_end.as_raw_fd(), Ordering::SeqCst);
    Ok(read_end.as_raw_fd())
}

/// The former actions of the signals that are listened to.
struct Handlers(Vec<(i32, libc::sigaction)>);

impl std::fmt::Debug for Handlers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(signal, _)| signal)).finish()
    }
}

impl Handlers {
    fn install(read_end: RawFd) -> Result<Self> {
        ensure!(!LISTENING.swap(true, Ordering::SeqCst), "the signals are listened to already");
        // What the last listener left there is of no interest now.
        while matches!(read(read_end), Ok(Some(_))) {}
        let mut handlers = Self(Vec::new());
        for signal in WISHES.iter().chain(MESSAGES) {
            // SAFETY: all-zero is a valid value of this type.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            let mut former = action;
            // SAFETY: the handler does only what a handler may do.
            if unsafe { libc::sigaction(*signal, &raw const action, &raw mut former) } != 0 {
                let error = io::Error::last_os_error();
                return Err(error).with_context(|| format!("cannot listen to signal {signal}"));
            }
            handlers.0.push((*signal, former));
        }
        Ok(handlers)
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for (signal, former) in &self.0 {
            // SAFETY: what was there before is put back.
            unsafe { libc::sigaction(*signal, ptr::from_ref(former), ptr::null_mut()) };
        }
        LISTENING.store(false, Ordering::SeqCst);
    }
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel gives a valid `info`; all calls are ones that a handler may make, and what they do
    // to `errno` is undone.
    unsafe {
        let errno = *libc::__errno_location();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
        let at_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        let record: Record =
            [i64::from(signal), i64::from((*info).si_code), i64::from((*info).si_pid()), at_ns];
        libc::write(WRITE_END.load(Ordering::SeqCst), (&raw const record).cast(), size_of::<Record>());
        *libc::__errno_location() = errno;
    }
}
