//! A pipe that carries messages of eight bytes.

use std::{
    io::{self, ErrorKind, PipeReader, PipeWriter, Read as _},
    os::fd::AsRawFd as _,
};

use anyhow::{Context as _, Result, bail};

/// Bytes of a message.
pub(super) const MESSAGE: usize = size_of::<u64>();

/// Both ends.
#[derive(Debug)]
pub(super) struct Pipe {
    /// Where messages come out.
    pub(super) outlet: PipeReader,
    /// Where they go in.
    pub(super) inlet: PipeWriter,
}

impl Pipe {
    /// A pipe whose reads wait.
    pub(super) fn blocking() -> Result<Self> {
        let (outlet, inlet) = io::pipe().context("cannot make a pipe")?;
        Ok(Self { outlet, inlet })
    }

    /// A pipe whose reads come back at once.
    pub(super) fn non_blocking() -> Result<Self> {
        let pipe = Self::blocking()?;
        // SAFETY: the descriptor is open, and a pipe has no other status flags that would get lost.
        if unsafe { libc::fcntl(pipe.outlet.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(io::Error::last_os_error()).context("cannot make a pipe non-blocking");
        }
        Ok(pipe)
    }

    /// One read: a message, or nothing when it would have to wait (`EAGAIN`).
    #[inline]
    pub(super) fn read(&self) -> Result<Option<u64>> {
        let mut message = [0; MESSAGE];
        loop {
            match (&self.outlet).read(&mut message) {
                // Writes of a message are atomic, so a part of one never comes.
                Ok(MESSAGE) => return Ok(Some(u64::from_ne_bytes(message))),
                Ok(bytes) => bail!("a pipe had {bytes} bytes instead of {MESSAGE}"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot read from a pipe"),
            }
        }
    }
}
