//! Signals that ask to end the comparison, during a trial and between two.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// # Errors
    /// When the system refuses to tell of signals.
    pub(super) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.hang_up.recv() => libc::SIGHUP,
        }
    }

    /// One that has come already.
    pub(super) async fn pending(&mut self) -> Option<i32> {
        tokio::select! {
            biased;
            signal = self.next() => Some(signal),
            () = tokio::task::yield_now() => None,
        }
    }
}
