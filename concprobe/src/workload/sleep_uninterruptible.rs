//! A wait that signals do not end: a thread that forks with `vfork` is in state D until its child is gone.

use std::{
    ffi::{c_int, c_void},
    io, ptr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};

use super::watched::{self, Watched};
use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "sleep-uninterruptible",
    summary: "the third state of a thread that waits: D, which no signal ends",
    op: "one vfork whose child lives for --delay",
    claim: Claim::WaitsUninterruptibly,
    default_ops: 10,
    crew: CrewSize::Fixed(2),
    parameters: &[watched::DELAY],
    unavailable: None,
    build,
};

/// The order to end is seen by a child at least this often.
const PATIENCE_NS: u64 = 50_000_000;
/// Words of a child's stack: 64 KiB, of which the child needs hardly any.
const STACK: usize = 4096;

/// What a child reads in the memory that it has in common with its parent.
#[derive(Debug)]
struct Life {
    delay_ns: u64,
    /// The phase is to end at once.
    cut_short: AtomicBool,
}

#[derive(Debug)]
struct SleepUninterruptible {
    watched: Watched,
    life: Life,
    ended_well: AtomicU64,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let delay = settings.duration(watched::DELAY.name)?;
    let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    let workload = Box::new(SleepUninterruptible {
        watched: Watched::new(delay),
        life: Life { delay_ns, cut_short: AtomicBool::new(false) },
        ended_well: AtomicU64::new(0),
    });
    workload.watched.init()?;
    Ok(workload)
}

/// The child: sleeps, and ends. It runs in its parent's memory, with its parent's thread-local data, so it
/// allocates nothing, takes no locks and does not unwind; its system calls touch at most `errno`.
extern "C" fn sleep_and_exit(life: *mut c_void) -> c_int {
    // SAFETY: the parent passed a `Life`, and is suspended until this process is gone.
    let life = unsafe { &*life.cast::<Life>() };
    // SAFETY: plain system calls on local data.
    unsafe {
        libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut left_ns = life.delay_ns;
        while left_ns > 0 && !life.cut_short.load(Ordering::Relaxed) {
            let slice_ns = left_ns.min(PATIENCE_NS);
            let slice = libc::timespec { tv_sec: 0, tv_nsec: slice_ns.cast_signed() as libc::c_long };
            libc::syscall(libc::SYS_nanosleep, &raw const slice, ptr::null_mut::<libc::timespec>());
            left_ns -= slice_ns;
        }
        libc::_exit(0)
    }
}

/// One `vfork`: the calling thread goes on when the child has ended. The child has a stack of its own and
/// does not return, so that it cannot disturb the caller's. Whether it ended as it should.
fn vfork_and_wait(stack: &mut [u128], life: &Life) -> Result<bool> {
    let top = stack.as_mut_ptr_range().end;
    let argument = ptr::from_ref(life).cast_mut().cast();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack outlives the child, since this thread waits for it in the call; the child only reads
    // what `argument` refers to. No signal handler runs in the child, since it inherits a full mask.
    let child = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let child = libc::clone(sleep_and_exit, top.cast(), flags, argument);
        let outcome = if child < 0 { Err(io::Error::last_os_error()) } else { Ok(child) };
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        outcome.context("cannot create a process")?
    };
    reap(child).map(|status| status == 0)
}

/// Waits for a child that has ended.
fn reap(child: libc::pid_t) -> Result<c_int> {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is valid for writes.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).with_context(|| format!("cannot wait for process {child}"));
        }
    }
}

impl SleepUninterruptible {
    fn fork(&self, ops: &mut Ops<'_>) -> Result<()> {
        self.watched.enter();
        let mut stack = vec![0_u128; STACK];
        ops.each(|| {
            self.watched.begin();
            let well = vfork_and_wait(&mut stack, &self.life)?;
            self.ended_well.fetch_add(u64::from(well), Ordering::Relaxed);
            Ok(())
        })?;
        self.watched.finish();
        Ok(())
    }

    fn watch(&self, ops: &mut Ops<'_>) -> Result<()> {
        while self.watched.next_begins() {
            let expired = self.watched.watch(ops)?;
            self.life.cut_short.store(expired, Ordering::Relaxed);
        }
        // Here and not at the start, since the parent may begin the next phase first.
        self.life.cut_short.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Workload for SleepUninterruptible {
    fn crew(&self) -> Vec<Role> {
        vec![Role::thread("parent"), Role::thread("watcher").supporting()]
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        if member == 0 { self.fork(ops) } else { self.watch(ops) }
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let well = self.ended_well.load(Ordering::Relaxed);
        SelfCheck {
            passed: well == ops,
            detail: format!("{well} children slept and ended by themselves (expected {ops})"),
        }
    }
}
