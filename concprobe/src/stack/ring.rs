//! What the kernel reports about address spaces: `perf_event_open(2)` with a software event that counts
//! nothing, one on each CPU. A CPU-wide event costs nothing when threads are switched; one that follows
//! tasks would cost at each switch.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

use anyhow::{Context as _, Result};
use perf_event::{Builder, Clock, Record, SampleFlag, Sampler, data, events::Software};

use super::table::{ANONYMOUS, Origin, Protection};
use crate::environment::parse_cpu_list;

/// Something that changed an address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A process came into being.
    Fork { parent: i32 },
    /// A process runs another program from now on.
    Exec,
    /// The last thing that is heard of a process.
    Exit,
    /// Something was mapped, or its protection changed.
    Map { start: u64, end: u64, file_offset: u64, protection: Protection, shared: bool, origin: Origin },
}

/// A change, whose it is and when it was, on `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) time_ns: u64,
    pub(super) pid: i32,
    pub(super) change: Change,
}

/// Sizes of a CPU's buffer that are tried: 256 KiB hold about 60 starts of a dynamically linked program.
/// Without `CAP_IPC_LOCK` the kernel allows less.
const SIZES_BYTES: [usize; 3] = [256 << 10, 64 << 10, 16 << 10];

/// More records than fit into a buffer; whoever reads no more cannot be kept busy by whoever writes.
const RECORDS_AT_ONCE: usize = SIZES_BYTES[0] / 32;

/// The kernel's buffers, one for each CPU.
pub(super) struct Rings {
    samplers: Vec<Sampler>,
}

impl Rings {
    /// Opens the event on each CPU that is online.
    pub(super) fn open() -> Result<Self> {
        let path = "/sys/devices/system/cpu/online";
        let online = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        let mut samplers = Vec::new();
        for cpu in parse_cpu_list(&online)? {
            match open(cpu) {
                Ok(sampler) => samplers.push(sampler),
                // The CPU went offline since the list was read.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => (),
                Err(error) => return Err(error).with_context(|| refusal(cpu)),
            }
        }
        Ok(Self { samplers })
    }

    /// Takes what has come in out of the buffers, in no order; returns how many records were lost.
    pub(super) fn drain(&mut self, events: &mut Vec<Event>) -> u64 {
        let mut lost = 0;
        for sampler in &mut self.samplers {
            for _ in 0..RECORDS_AT_ONCE {
                let Some(record) = sampler.next_record() else { break };
                match record.parse_record() {
                    Ok(data::Record::Lost(record)) => lost += record.lost,
                    Ok(parsed) => events.extend(event(&record, parsed)),
                    Err(_) => lost += 1,
                }
            }
        }
        lost
    }
}

fn open(cpu: usize) -> std::io::Result<Sampler> {
    let mut builder = Builder::new(Software::DUMMY);
    builder.any_pid().one_cpu(cpu).enabled(true);
    builder.mmap(true).mmap_data(true).mmap2(true).comm(true).comm_exec(true).task(true);
    builder.sample(SampleFlag::TIME).sample_id_all(true).clockid(Clock::MONOTONIC);
    let mut result = Err(std::io::ErrorKind::Other.into());
    for bytes in SIZES_BYTES {
        result = builder.build()?.sampled(bytes);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn refusal(cpu: usize) -> String {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.map_or_else(|error| error.to_string(), |text| text.trim().to_owned());
    format!(
        "cannot watch what programs map: perf_event_open on CPU {cpu} was refused (it needs root or \
         CAP_PERFMON and a seccomp filter that allows it; kernel.perf_event_paranoid is {paranoid})"
    )
}

fn event(record: &Record<'_>, parsed: data::Record<'_>) -> Option<Event> {
    // The only field that was asked for behind each record is the time.
    let end = || Some(u64::from_ne_bytes(*record.to_contiguous().last_chunk()?));
    let (time_ns, pid, change) = match parsed {
        // A thread's start and end change no address space.
        data::Record::Fork(fork) if fork.pid != fork.ppid => {
            (fork.time, fork.pid, Change::Fork { parent: fork.ppid.cast_signed() })
        }
        data::Record::Exit(exit) if exit.pid == exit.tid => (exit.time, exit.pid, Change::Exit),
        data::Record::Comm(comm) if record.misc() & COMM_EXEC != 0 => (end()?, comm.pid, Change::Exec),
        data::Record::Mmap2(map) => (end()?, map.pid, mapped(map)?),
        _ => return None,
    };
    Some(Event { time_ns, pid: pid.cast_signed(), change })
}

/// `PERF_RECORD_MISC_COMM_EXEC`.
const COMM_EXEC: u16 = 1 << 13;

fn mapped(map: data::Mmap2<'_>) -> Option<Change> {
    // The narrowing keeps all bits that there are: those of protections are the lowest three.
    let protection = Protection((map.prot & 7) as u8);
    let shared = map.flags & libc::MAP_SHARED.cast_unsigned() != 0;
    let device = libc::makedev(map.maj()?, map.min()?);
    let inode = map.ino()?;
    let name = map.filename.into_owned();
    let path = if name == b"//anon" { ANONYMOUS.into() } else { OsString::from_vec(name).into() };
    Some(Change::Map {
        start: map.addr,
        end: map.addr.checked_add(map.len)?,
        file_offset: map.pgoff,
        protection,
        shared,
        origin: Origin { path, device, inode },
    })
}
