//! The driver's side of the talk with the workload's process: one order, one answer, and meanwhile
//! progress, signals and a watchdog.

use std::{
    future::pending,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    time::Duration,
};

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Interest, Lines, unix::AsyncFd},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::Child,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};

use super::process;
use crate::{
    harness::{
        control::Control,
        protocol::{Answer, Assignment, Evidence, Order, Phase},
    },
    plan::Plan,
    probe::Session,
};

/// How often progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// A signal that comes so soon after another one is the same wish.
const ECHO: Duration = Duration::from_millis(50);

type Messages = AsyncFd<aya_log::EbpfLogger<&'static dyn log::Log>>;

/// Why a run ended before its plan was carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A signal asked for it.
    #[error("interrupted by signal {0} before anything was measured")]
    Interrupted(i32),
    /// The workload said why it cannot go on.
    #[error("{0}")]
    Failed(String),
    /// The workload's process ended.
    #[error("the workload's process ended unexpectedly ({0})")]
    Ended(String),
    /// The workload did nothing for a long time.
    #[error("the workload hangs: no op in {patience:?}, during {during}; its process was ended")]
    Hangs {
        /// What it was to do.
        during: String,
        /// How long it was waited for.
        patience: Duration,
    },
}

/// The workload's process and the way to talk to it.
pub struct Conversation {
    child: Child,
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    control: Control,
    control_fd: OwnedFd,
    signals: Signals,
    /// The first signal that asked to stop, and when it came.
    interrupted: Option<(i32, Instant)>,
    messages: Option<Messages>,
    members: u64,
    peak_bytes: Option<u64>,
    setup_ns: Option<u64>,
    patience: Duration,
}

/// What is known of the workload's process at its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending {
    /// `CLOCK_MONOTONIC` of its first op, 0 if there was none.
    pub first_op_ns: u64,
    /// Its peak memory, bytes.
    pub peak_bytes: Option<u64>,
    /// How long making the crew took, nanoseconds.
    pub setup_ns: Option<u64>,
}

#[derive(Debug)]
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.hang_up.recv() => libc::SIGHUP,
        }
    }
}

impl Conversation {
    /// Starts the workload's process and tells it what to do.
    ///
    /// # Errors
    /// When the system refuses what that needs.
    pub fn start(plan: &Plan, session: Option<&Session>) -> Result<Self> {
        let signals = Signals::new()?;
        let control_fd = Control::create()?;
        let control = Control::map(control_fd.as_fd())?;
        let blocks = session.map(Session::blocks).transpose()?;
        let mut descriptors = vec![control_fd.as_fd()];
        descriptors.extend(blocks);
        let (child, socket) = process::start(&descriptors)?;
        let assignment = Assignment {
            workload: plan.entry.name.to_owned(),
            threads: plan.settings.threads,
            parameters: plan.settings.parameters.clone(),
            pin: plan.pin.clone(),
            evidence: session.zip(blocks).map(|(session, blocks)| Evidence {
                blocks: blocks.as_raw_fd(),
                slots: session.slots(),
                session: session.config().session,
            }),
            control: control_fd.as_raw_fd(),
        };
        send_first(&socket, &assignment)?;
        socket.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(socket)?.into_split();
        Ok(Self {
            child,
            lines: BufReader::new(reader).lines(),
            writer,
            control,
            control_fd,
            signals,
            interrupted: None,
            messages: None,
            members: plan.settings.threads as u64,
            peak_bytes: None,
            setup_ns: None,
            patience: plan.patience,
        })
    }

    /// Shows the kernel programs' messages while waiting.
    pub fn show_messages(&mut self, messages: aya_log::EbpfLogger<&'static dyn log::Log>) {
        // SAFETY: the logger keeps its one descriptor open as long as it lives.
        self.messages = unsafe { AsyncFd::register_with_interest(messages, Interest::READABLE) }.ok();
    }

    /// The signal that asked to stop, if one did.
    pub fn interrupted(&self) -> Option<i32> {
        self.interrupted.map(|(signal, _)| signal)
    }

    /// Waits until every member is there.
    pub async fn ready(&mut self) -> Result<(), Trouble> {
        if let Answer::Ready { setup_ns } = self.answer(None).await? {
            self.setup_ns = Some(setup_ns);
        }
        Ok(())
    }

    /// Gives an order and waits for the answer, showing progress where there is a phase to show.
    pub async fn ask(&mut self, order: &Order, progress: Option<(&Phase, &str)>) -> Result<Answer, Trouble> {
        self.control.set_done(0);
        if matches!(order, Order::Finish) {
            // Afterwards it may be gone.
            self.peak_bytes = self.child.id().and_then(|pid| peak_bytes(&pid.to_string()));
        }
        let mut line = serde_json::to_vec(order).map_err(|error| Trouble::Failed(error.to_string()))?;
        line.push(b'\n');
        if self.writer.write_all(&line).await.is_err() {
            return Err(self.ended().await);
        }
        self.answer(progress).await
    }

    async fn answer(&mut self, progress: Option<(&Phase, &str)>) -> Result<Answer, Trouble> {
        let bar = Progress::new(progress);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = (u64::MAX, Instant::now());
        loop {
            tokio::select! {
                line = self.lines.next_line() => return match line {
                    Ok(Some(line)) => understand(&line),
                    _ => Err(self.ended().await),
                },
                signal = self.signals.next() => {
                    match self.interrupted {
                        None => {
                            self.interrupted = Some((signal, Instant::now()));
                            self.control.stop();
                        }
                        // Who signals a process and its group, as timeout(1) does, means it once.
                        Some((_, first)) if first.elapsed() < ECHO => {}
                        Some(_) => {
                            // The second one: do not wait for the op in progress.
                            let _ = self.child.start_kill();
                            return Err(Trouble::Interrupted(signal));
                        }
                    }
                }
                () = flush(&mut self.messages) => {}
                _ = ticks.tick() => {
                    let done = self.control.done();
                    bar.show(done * self.members);
                    if done != last.0 {
                        last = (done, Instant::now());
                    } else if last.1.elapsed() > self.patience {
                        let _ = self.child.start_kill();
                        let during = progress.map_or("its start or end", |(_, label)| label).to_owned();
                        return Err(Trouble::Hangs { during, patience: self.patience });
                    }
                }
            }
        }
    }

    async fn ended(&mut self) -> Trouble {
        match self.child.wait().await {
            Ok(status) => Trouble::Ended(status.to_string()),
            Err(error) => Trouble::Ended(error.to_string()),
        }
    }

    /// Lets the process end, if it is in order, or ends it.
    pub async fn end(mut self, in_order: bool) -> Ending {
        let first_op_ns = self.control.first_op_ns();
        drop(self.writer);
        drop(self.lines);
        if !in_order || tokio::time::timeout(Duration::from_secs(2), self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        if let Some(messages) = &mut self.messages {
            messages.get_mut().flush();
        }
        drop(self.control_fd);
        Ending { first_op_ns, peak_bytes: self.peak_bytes, setup_ns: self.setup_ns }
    }
}

/// The first message is small and the socket is empty: a blocking write does not block.
fn send_first(socket: &std::os::unix::net::UnixStream, assignment: &Assignment) -> Result<()> {
    use std::io::Write as _;
    let mut line = serde_json::to_vec(assignment)?;
    line.push(b'\n');
    (&*socket).write_all(&line).context("cannot speak to the workload's process")
}

fn understand(line: &str) -> Result<Answer, Trouble> {
    match serde_json::from_str(line) {
        Ok(Answer::Failed(message)) => Err(Trouble::Failed(message)),
        Ok(answer) => Ok(answer),
        Err(error) => {
            Err(Trouble::Failed(format!("the workload's process answered what is no answer: {error}")))
        }
    }
}

/// Passes the kernel programs' messages on as they come; waits for ever when there are none to show.
async fn flush(messages: &mut Option<Messages>) {
    let Some(messages) = messages else { return pending().await };
    if let Ok(mut guard) = messages.readable_mut().await {
        guard.get_inner_mut().flush();
        guard.clear_ready();
    }
}

/// Peak memory of a process, bytes; `"self"` for this one.
pub fn peak_bytes(pid: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// A bar on stderr, where that is a terminal; nothing otherwise.
struct Progress {
    bar: ProgressBar,
    of_time: Option<Duration>,
    began: Instant,
}

impl Progress {
    fn new(progress: Option<(&Phase, &str)>) -> Self {
        let Some((phase, label)) = progress else {
            return Self { bar: ProgressBar::hidden(), of_time: None, began: Instant::now() };
        };
        let of_time = phase.duration_ns.map(Duration::from_nanos);
        let length = of_time.map_or(phase.ops, |time| u64::try_from(time.as_millis()).ok());
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %") {
            bar.set_style(style);
        }
        bar.set_message(label.to_owned());
        Self { bar, of_time, began: Instant::now() }
    }

    fn show(&self, ops: u64) {
        let elapsed = || u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.bar.set_position(if self.of_time.is_some() { elapsed() } else { ops });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
