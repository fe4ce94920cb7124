//! A signal to the own thread: what interrupting user code and returning to it costs.

use std::{
    ffi::c_int,
    io, ptr,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};

use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "signal",
    summary: "the price of a signal to the own thread: sending it, its handler, and the return from it",
    op: "one tgkill of the own thread, whose handler runs before the call returns",
    claim: Claim::EntersKernelWithoutSleep,
    default_ops: 500_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

const SIGNAL: c_int = libc::SIGUSR2;

/// How often the handler ran, in all threads: a handler has no argument to find another place by.
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_signal: c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[derive(Debug)]
struct Signal {
    threads: usize,
    handled_before: u64,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    // SAFETY: all zeros is an action without flags and with an empty mask; the handler touches one atomic.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(SIGNAL, &raw const action, ptr::null_mut())
    };
    if result != 0 {
        return Err(io::Error::last_os_error()).context("cannot install a handler for SIGUSR2");
    }
    Ok(Box::new(Signal { threads: settings.threads, handled_before: HANDLED.load(Ordering::Relaxed) }))
}

/// Lets the signal through, whatever mask the thread inherited.
fn unblock() -> Result<()> {
    // SAFETY: the set is initialised before it is used.
    let error = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, SIGNAL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut())
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error)).context("cannot unblock SIGUSR2");
    }
    Ok(())
}

impl Workload for Signal {
    fn crew(&self) -> Vec<Role> {
        Role::threads("raiser", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        unblock()?;
        // SAFETY: plain system calls without arguments.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        ops.each(|| {
            // SAFETY: a plain system call; the handler is installed.
            if unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) } != 0 {
                return Err(io::Error::last_os_error()).context("cannot send a signal to the own thread");
            }
            Ok(())
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let handled = HANDLED.load(Ordering::Relaxed) - self.handled_before;
        SelfCheck {
            passed: handled == ops,
            detail: format!("the handler ran {handled} times (expected {ops})"),
        }
    }
}
