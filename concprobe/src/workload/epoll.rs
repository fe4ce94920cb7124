//! One thread that waits for data on many descriptors: it sleeps in `epoll_wait`, and then reads without
//! waiting until nothing is left.

use std::{
    io::{self, ErrorKind, PipeWriter},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result, bail};

use super::{
    data_wait::{self, Way},
    pipe::Pipe,
    watched,
};
use crate::harness::{Claim, CrewSize, Entry, Kind, Parameter};

pub(super) static ENTRY: Entry = Entry {
    name: "epoll",
    summary: "the price of waiting for many descriptors at once: asleep, as in read",
    op: "one wait for data with epoll_wait and non-blocking reads until EAGAIN; the data comes after --delay",
    claim: Claim::WaitsAsleep,
    default_ops: 20,
    crew: CrewSize::Fixed(2),
    parameters: &[
        watched::DELAY,
        Parameter {
            name: "fds",
            help: "Pipes to wait for; each takes two descriptors",
            default: "1",
            kind: Kind::Count(1, 10_000),
        },
    ],
    unavailable: None,
    build: |settings| data_wait::build(settings, Epoll::new(settings.count("fds")?)?),
};

/// Events taken by one `epoll_wait`.
const EVENTS: usize = 64;

#[derive(Debug)]
struct Epoll {
    pipes: Vec<Pipe>,
    epoll: OwnedFd,
}

impl Epoll {
    fn new(fds: u64) -> Result<Self> {
        // SAFETY: the result is checked before it is owned.
        let epoll = unsafe {
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if epoll < 0 {
                return Err(io::Error::last_os_error()).context("cannot make an epoll instance");
            }
            OwnedFd::from_raw_fd(epoll)
        };
        let mut way = Self { pipes: Vec::new(), epoll };
        for index in 0..fds {
            let pipe = Pipe::non_blocking().with_context(|| {
                format!(
                    "cannot make pipe number {} of {fds}; fewer --fds, or a higher limit of open files \
                     (ulimit -n), help",
                    index + 1
                )
            })?;
            way.add(&pipe, index)?;
            way.pipes.push(pipe);
        }
        Ok(way)
    }

    /// Edge-triggered, which is why a pipe is read until nothing is left.
    fn add(&self, pipe: &Pipe, index: u64) -> Result<()> {
        let events = (libc::EPOLLIN | libc::EPOLLET).cast_unsigned();
        let mut event = libc::epoll_event { events, u64: index };
        let (epoll, outlet) = (self.epoll.as_raw_fd(), pipe.outlet.as_raw_fd());
        // SAFETY: both descriptors are open, and the event is valid.
        if unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, outlet, &raw mut event) } != 0 {
            return Err(io::Error::last_os_error()).context("cannot add a pipe to an epoll instance");
        }
        Ok(())
    }

    /// Sleeps until there is an event; how many there are.
    fn wait(&self, events: &mut [libc::epoll_event; EVENTS]) -> Result<usize> {
        let most = i32::try_from(events.len())?;
        loop {
            // SAFETY: the descriptor is open, and the array has as many elements as is said.
            let ready = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), most, -1) };
            if let Ok(ready) = usize::try_from(ready) {
                return Ok(ready);
            }
            let error = io::Error::last_os_error();
            if error.kind() != ErrorKind::Interrupted {
                return Err(error).context("cannot wait for events");
            }
        }
    }
}

impl Way for Epoll {
    fn receive(&self, empty_reads: &mut u64) -> Result<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let mut received = None;
        while received.is_none() {
            let ready = self.wait(&mut events)?;
            for event in &events[..ready] {
                let pipe = &self.pipes[usize::try_from(event.u64)?];
                while let Some(sent_ns) = pipe.read()? {
                    if received.replace(sent_ns).is_some() {
                        bail!("two messages came at once");
                    }
                }
                *empty_reads += 1;
            }
        }
        received.context("no message came")
    }

    fn inlet(&self, number: u64) -> &PipeWriter {
        let index = scrambled(number) % self.pipes.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "less than the length of a vector")]
        &self.pipes[index as usize].inlet
    }
}

/// A number that looks random and depends on `number` alone: Steele, Lea and Flood's SplitMix64, "Fast
/// splittable pseudorandom number generators", 2014.
fn scrambled(number: u64) -> u64 {
    let mut word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::scrambled;

    #[test]
    fn scrambling_gives_the_published_sequence() {
        assert_eq!(scrambled(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(scrambled(1), 0x6e78_9e6a_a1b9_65f4);
    }
}
