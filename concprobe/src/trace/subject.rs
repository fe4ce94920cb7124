//! The program that is looked at: a command that is started when the kernel programs are on, or a process
//! that runs already, whose threads are taken on one by one.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use anyhow::{Context as _, Result, bail, ensure};
use concprobe_common::block::{Block, place};

use super::{
    Of,
    asleep::{self, Asleep},
    copies::Copies,
    numbering::Numbering,
};
use crate::{
    clock,
    observation::trace::Exit,
    probe::{Session, Set},
    target::{self, Announcement, Event, Existing, Held, NotStarted, Running, Signals, Wish},
};

/// How often the command's process announces itself at most.
const ANNOUNCEMENTS: u32 = 100;
/// How often the threads of a process are listed at most, until there are no new ones.
const LISTINGS: u32 = 100;
/// The one that announces itself.
const COOKIE: u64 = 1;

/// A signal came before there was a command that could have got it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted by signal {0} before the command began")]
pub struct Interrupted(pub i32);

/// What happened next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// The process ended; how, for a command.
    Ended(Option<Exit>),
    /// A signal asked concprobe to end.
    Asked(i32),
    /// Another one did: a command was killed.
    AskedAgain(i32),
}

/// The program.
#[derive(Debug)]
pub(super) struct Subject {
    stage: Stage,
    signals: Signals,
    pid: i32,
    began_ns: u64,
    ids: Numbering,
    /// Of threads that were there before: on-CPU and run-queue time by the kernel's own account then.
    accounts: HashMap<u32, (u64, u64)>,
    /// Of threads that had no event: state, and the account at the end.
    unseen: HashMap<u32, (char, Option<(u64, u64)>)>,
}

#[derive(Debug)]
enum Stage {
    Command { command: Vec<std::ffi::OsString>, identity: target::Identity },
    Running(Running),
    Existing(Existing),
    Ended,
}

impl Subject {
    /// Finds the process, or what the command needs.
    ///
    /// # Errors
    /// When there is no such process, or it is not to be looked at.
    pub(super) fn find(of: &Of) -> Result<Self> {
        let stage = match of {
            Of::Command { command, identity } => {
                Stage::Command { command: command.clone(), identity: identity.clone() }
            }
            Of::Process(pid) => Stage::Existing(Existing::open(i64::from(*pid))?),
        };
        let pid = if let Stage::Existing(existing) = &stage { existing.pid() } else { 0 };
        let signals = Signals::listen()?;
        Ok(Self {
            stage,
            signals,
            pid,
            began_ns: 0,
            ids: Numbering::default(),
            accounts: HashMap::new(),
            unseen: HashMap::new(),
        })
    }

    /// Starts the command, or takes the threads of the process on. The kernel programs must be attached.
    ///
    /// # Errors
    /// When the command does not start, or the process cannot be looked at.
    pub(super) async fn begin(&mut self, session: &mut Session, copies: Option<&mut Copies>) -> Result<()> {
        self.ids = Numbering::read(session)?;
        self.began_ns = clock::now_ns();
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Command { command, identity } => {
                let running = match self.start(&command, &identity, session, copies).await {
                    Err(error) if matches!(error.downcast_ref(), Some(NotStarted::System { .. })) => {
                        let (Wish::First(signal) | Wish::Again(signal)) =
                            self.signals.soon().await.ok_or(error)?;
                        bail!(Interrupted(signal));
                    }
                    other => other?,
                };
                self.stage = Stage::Running(running);
            }
            Stage::Existing(existing) => {
                self.adopt(&existing, session, copies)?;
                self.stage = Stage::Existing(existing);
            }
            other => self.stage = other,
        }
        Ok(())
    }

    async fn start(
        &mut self,
        command: &[std::ffi::OsString],
        identity: &target::Identity,
        session: &mut Session,
        copies: Option<&mut Copies>,
    ) -> Result<Running> {
        session.attach(Set::Announce)?;
        // From here on what is sent to the process group reaches the command's process, too.
        if let Some(Wish::First(signal) | Wish::Again(signal)) = self.signals.already().await {
            bail!(Interrupted(signal));
        }
        let announcement = Announcement { session: session.config().session, cookie: COOKIE };
        let held = Held::start(command, identity, Some(announcement))?;
        // The kernel leaves a program out where it would interrupt itself, so one call may go unheard.
        for _ in 0..ANNOUNCEMENTS {
            if session.records().has_announced(COOKIE) {
                break;
            }
            held.announce()?;
        }
        ensure!(
            session.records().has_announced(COOKIE),
            "the kernel programs did not see the command's process announce itself"
        );
        session.detach(Set::Announce);
        self.pid = held.pid();
        self.ids = Numbering::read(session)?;
        if let Some(copies) = copies {
            copies.follow(self.pid);
        }
        Ok(held.release().await?)
    }

    /// Takes on the threads that are there, until there are no others; those that they create are seen.
    fn adopt(
        &mut self,
        existing: &Existing,
        session: &mut Session,
        mut copies: Option<&mut Copies>,
    ) -> Result<()> {
        if let Some(copies) = copies.as_deref_mut() {
            copies.adopt(self.pid)?;
        }
        let mut known: HashSet<(i32, u64)> = HashSet::new();
        let mut threads = existing.threads()?;
        let asleep = asleep::look(session, self.pid, &self.ids, self.space(), &threads, copies)?;
        self.began_ns = clock::now_ns();
        for _ in 0..LISTINGS {
            self.ids = Numbering::read(session)?;
            threads.retain(|thread| known.insert((thread.tid, thread.start_ticks)));
            if threads.is_empty() {
                return Ok(());
            }
            for thread in &threads {
                self.adopt_thread(thread, asleep.get(&thread.tid).copied(), session)?;
            }
            threads = existing.threads()?;
        }
        bail!("process {} makes threads faster than they can be listed", self.pid)
    }

    fn adopt_thread(
        &mut self,
        thread: &target::Thread,
        asleep: Option<Asleep>,
        session: &mut Session,
    ) -> Result<()> {
        let Some(tid) = self.ids.host(thread.tid) else { return Ok(()) }; // gone meanwhile
        self.accounts.extend(account(self.pid, thread.tid).map(|account| (tid, account)));
        let now = clock::now_ns();
        let site = asleep.map_or(0, |asleep| asleep.site + 1);
        let slot = session.adopt(&Block {
            tid,
            tgid: self.host_pid(),
            own_tid: thread.tid.cast_unsigned(),
            place: place::UNSEEN,
            since_ns: now,
            started_ns: now,
            recording: 1,
            existed: 1,
            space: self.space(),
            site,
            last_site: site,
            stack_id: asleep.map_or(0, |asleep| asleep.stack_id),
            name: comm(self.pid, thread.tid),
            ..Block::EMPTY
        })?;
        // One that ended in between is never seen to end.
        match slot {
            Some(slot) if !Path::new(&format!("/proc/{}/task/{}", self.pid, thread.tid)).exists() => {
                session.release(tid, slot)
            }
            _ => Ok(()),
        }
    }

    /// The address space of the process attached to.
    fn space(&self) -> u64 {
        u64::from(self.host_pid()) << 32 | 1
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// When the system cannot wait for the process.
    pub(super) async fn turn(&mut self) -> Result<Turn> {
        match &mut self.stage {
            Stage::Running(running) => match running.next(&mut self.signals).await? {
                Event::Wish(Wish::First(signal)) => Ok(Turn::Asked(signal)),
                Event::Wish(Wish::Again(signal)) => Ok(Turn::AskedAgain(signal)),
                Event::Ended(ending) => Ok(Turn::Ended(Some(match ending.exit {
                    target::Exit::Status(status) => Exit { status: Some(status), signal: None },
                    target::Exit::Signal { number, .. } => Exit { status: None, signal: Some(number) },
                }))),
            },
            Stage::Existing(existing) => {
                tokio::select! {
                    wish = self.signals.next(None) => {
                        let (Wish::First(signal) | Wish::Again(signal)) = wish;
                        Ok(Turn::Asked(signal))
                    }
                    ended = existing.ended() => {
                        ended.context("cannot wait for the process to end")?;
                        Ok(Turn::Ended(None))
                    }
                }
            }
            Stage::Command { .. } | Stage::Ended => bail!("the command was not started"),
        }
    }

    /// Ends what a command that was killed had started, as far as it is looked at.
    pub(super) fn kill_descendants(&self, session: &Session) {
        if !self.is_command() {
            return;
        }
        let blocks = session.records().blocks(clock::now_ns);
        let living = blocks.iter().filter(|(block, _)| block.place != place::DEAD);
        let processes: HashSet<i32> = living.filter_map(|(block, _)| self.own_tid(block.tgid)).collect();
        for pid in processes.into_iter().filter(|pid| *pid > 1) {
            // SAFETY: a plain system call; it fails for a process that has just ended.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }

    /// When the look at it began, `CLOCK_MONOTONIC`.
    pub(super) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Whether it is a command that concprobe started.
    pub(super) fn is_command(&self) -> bool {
        !matches!(self.stage, Stage::Existing(_))
    }

    /// Its process id, as the caller sees it.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Its process id in the initial PID namespace.
    pub(super) fn host_pid(&self) -> u32 {
        self.ids.host(self.pid).unwrap_or(0)
    }

    /// A thread's or process's id as the caller sees it.
    pub(super) fn own_tid(&self, host: u32) -> Option<i32> {
        self.ids.own(host)
    }

    /// Learns the ids that the kernel programs noted, and those of threads that are there now.
    pub(super) fn learn(&mut self, session: &mut Session, blocks: &[(Block, u64)]) {
        self.ids.learn(session, blocks);
    }

    /// Reads of threads that had no event at all what they do.
    pub(super) fn look_at_the_unseen(&mut self, blocks: &[(Block, u64)]) {
        for (block, _) in blocks.iter().filter(|(block, _)| block.place == place::UNSEEN) {
            let (Some(pid), Some(tid)) = (self.own_tid(block.tgid), self.own_tid(block.tid)) else {
                continue;
            };
            if let Some(state) = state(pid, tid) {
                self.unseen.insert(block.tid, (state, account(pid, tid)));
            }
        }
    }

    /// Whether a thread that had no event sleeps, or could run; what cannot be told sleeps.
    pub(super) fn sleeps(&self, tid: u32) -> bool {
        self.unseen.get(&tid).is_none_or(|(state, _)| *state != 'R')
    }

    /// Of a thread that had no event and could run all the time: how long it waited for a CPU, nanoseconds.
    pub(super) fn waited_unseen(&self, block: &Block) -> Option<u64> {
        if block.place != place::UNSEEN || self.sleeps(block.tid) {
            return None;
        }
        let (_, before) = self.accounts.get(&block.tid)?;
        let (_, after) = self.unseen.get(&block.tid)?.1?;
        Some(after.saturating_sub(*before))
    }
}

/// On-CPU and run-queue nanoseconds of a thread by the kernel's own account.
fn account(pid: i32, tid: i32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut fields = text.split_whitespace().map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// What a thread does, as in ps(1).
fn state(pid: i32, tid: i32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// The name of a thread, which may be any bytes but those of the end.
pub(super) fn comm(pid: i32, tid: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    // A thread that is gone needs no name.
    let read = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    let read = read.strip_suffix(b"\n").unwrap_or(&read);
    let length = read.len().min(15);
    bytes[..length].copy_from_slice(&read[..length]);
    bytes
}
