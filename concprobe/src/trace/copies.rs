//! Copies of stacks: taken out of the ring buffer as they come, unwound at once, summed by place, and named
//! when the look is over.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context as _, Result};
use concprobe_common::event::{SleepEnd, StackCopy, kind};
use tokio::io::{Interest, unix::AsyncFd};

use super::rows;
use crate::{
    observation::trace::{Shared, StackCopies, StackShare, Waker},
    probe::{Events, Session},
    stack::{Capture, End, Mappings, Names, Place, Registers, Unwinder},
};

/// Stacks that are shown of a place.
const SHOWN: usize = 5;
/// Different stacks that are kept in all; later ones count as lost.
const MOST: usize = 50_000;

/// A stack, as a number of [`Copies::stacks`].
type Stack = usize;

/// Site, thread id, name of a thread that ended sleeps.
type WakerKey = (u32, u32, String);

/// A sleep whose stack was copied and that has not ended yet.
#[derive(Debug)]
struct Pending {
    site: u32,
    stack: Stack,
    thread: String,
    weight: u64,
    waker: Option<(u32, String, Stack)>,
}

/// What stacks stand for.
#[derive(Clone, Debug, Default)]
struct Sum {
    time_ns: u64,
    samples: u64,
    weight: u64,
    threads: Vec<String>,
}

/// What different stacks have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unwound {
    pid: i32,
    addresses: Vec<u64>,
    incomplete: Option<String>,
}

/// The copies, and what was made of them.
pub(super) struct Copies {
    events: AsyncFd<Events>,
    mappings: Mappings,
    unwinder: Unwinder,
    names: Names,
    /// Why mappings are read from `/proc` only, if they are.
    pub(super) limited: Option<String>,
    stacks: Vec<(Unwound, u64)>,
    known: HashMap<Unwound, Stack>,
    named: HashMap<Stack, Vec<String>>,
    pending: HashMap<u64, Pending>,
    waiters: BTreeMap<(u32, Stack), Sum>,
    wakers: BTreeMap<WakerKey, BTreeMap<Stack, Sum>>,
    creators: BTreeMap<Stack, Sum>,
    counts: StackCopies,
}

impl Copies {
    /// Opens the ring buffer, and watches what is mapped from now on.
    pub(super) fn watch(session: &mut Session) -> Result<Self> {
        let (mappings, limited) = match Mappings::watch() {
            Ok(mappings) => (mappings, None),
            Err(error) => (Mappings::from_proc_only(), Some(format!("{error:#}"))),
        };
        // SAFETY: the buffer keeps its one descriptor open as long as it lives.
        let events = unsafe { AsyncFd::register_with_interest(session.take_events()?, Interest::READABLE) }
            .context("cannot wait for the kernel's copies")?;
        Ok(Self {
            events,
            mappings,
            unwinder: Unwinder::new(),
            names: Names::new(),
            limited,
            stacks: Vec::new(),
            known: HashMap::new(),
            named: HashMap::new(),
            pending: HashMap::new(),
            waiters: BTreeMap::new(),
            wakers: BTreeMap::new(),
            creators: BTreeMap::new(),
            counts: StackCopies::default(),
        })
    }

    /// Keeps what this process, and those that it creates, map.
    pub(super) fn follow(&mut self, pid: i32) {
        self.mappings.follow(pid);
    }

    /// Takes what a process has mapped already.
    pub(super) fn adopt(&mut self, pid: i32) -> Result<()> {
        self.mappings.follow(pid);
        self.mappings.adopt(pid).with_context(|| format!("cannot read what process {pid} has mapped"))
    }

    /// Waits until the ring buffer fills.
    pub(super) async fn ready(&mut self) {
        match self.events.readable_mut().await {
            Ok(mut guard) => guard.clear_ready(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Takes what is there.
    pub(super) fn fetch(&mut self) {
        self.mappings.poll();
        let mut events = Vec::new();
        self.events.get_mut().drain(|event| events.push(event.to_vec()));
        for event in events {
            self.take(&event);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let Some(word) = bytes.first_chunk::<4>() else { return };
        match u32::from_ne_bytes(*word) {
            kind::SLEEP_END => {
                if let Some(end) = plain::<SleepEnd>(bytes) {
                    self.sleep_ended(end.id, end.blocked_ns);
                }
            }
            _ => {
                if let Some(copy) = plain::<StackCopy>(bytes) {
                    self.copied(&copy);
                }
            }
        }
    }

    fn copied(&mut self, copy: &StackCopy) {
        let Some(registers) = Registers::from_kernel(&copy.registers) else { return };
        let length = (copy.length as usize).min(copy.stack.len());
        let capture = Capture {
            pid: copy.own_tgid.cast_signed(),
            time_ns: copy.time_ns,
            registers,
            stack: &copy.stack[..length],
        };
        let Some(stack) = self.unwound(&capture) else { return };
        let thread = rows::name(&copy.name);
        match copy.kind {
            kind::SLEEPER => {
                let pending =
                    Pending { site: copy.site, stack, thread, weight: u64::from(copy.weight), waker: None };
                self.pending.insert(copy.id, pending);
            }
            kind::WAKER => {
                if let Some(pending) = self.pending.get_mut(&copy.id) {
                    pending.waker = Some((copy.tid, thread, stack));
                }
            }
            kind::CREATOR => {
                let sum = self.creators.entry(stack).or_default();
                sum.add(u64::from(copy.weight), u64::from(copy.weight), &thread);
            }
            _ => {}
        }
    }

    /// Takes the stack of a thread that slept before the look began, for so many like it, and says the sleep's number;
    /// 0 when there is no room.
    pub(super) fn asleep(&mut self, site: u32, thread: &str, weight: u64, capture: &Capture<'_>) -> u64 {
        let Some(stack) = self.unwound(capture) else { return 0 };
        // The kernel side has the number of a block in the upper half, which is smaller.
        let id = u64::from(u32::MAX) << 32 | self.pending.len() as u64;
        self.pending.insert(id, Pending { site, stack, thread: thread.to_owned(), weight, waker: None });
        id
    }

    fn unwound(&mut self, capture: &Capture<'_>) -> Option<Stack> {
        self.counts.taken += 1;
        let stack = self.known_or_new(capture);
        if stack.is_none() {
            self.counts.lost += 1;
        }
        stack
    }

    fn known_or_new(&mut self, capture: &Capture<'_>) -> Option<Stack> {
        let trace = self.unwinder.unwind(&mut self.mappings, capture);
        match &trace.end {
            End::Complete => self.counts.complete += 1,
            End::Truncated | End::TooDeep => self.counts.truncated += 1,
            _ => self.counts.without_unwind_info += 1,
        }
        let incomplete = (trace.end != End::Complete).then(|| trace.end.to_string());
        let unwound = Unwound { pid: capture.pid, addresses: trace.addresses, incomplete };
        if let Some(stack) = self.known.get(&unwound) {
            return Some(*stack);
        }
        if self.stacks.len() >= MOST {
            return None;
        }
        self.stacks.push((unwound.clone(), capture.time_ns));
        self.known.insert(unwound, self.stacks.len() - 1);
        Some(self.stacks.len() - 1)
    }

    fn sleep_ended(&mut self, id: u64, blocked_ns: u64) {
        let Some(pending) = self.pending.remove(&id) else { return };
        // A copy stands for as many sleeps as its weight says, each as long as this one: without bias.
        let time_ns = blocked_ns.saturating_mul(pending.weight);
        let sum = self.waiters.entry((pending.site, pending.stack)).or_default();
        sum.add(time_ns, pending.weight, &pending.thread);
        if let Some((tid, thread, stack)) = pending.waker {
            let stacks = self.wakers.entry((pending.site, tid, thread.clone())).or_default();
            stacks.entry(stack).or_default().add(time_ns, pending.weight, &thread);
        }
    }

    /// Sleeps that have no end yet count until now; `open` tells how long the sleep of that number lasts.
    pub(super) fn close(&mut self, open: &HashMap<u64, u64>) {
        for id in self.pending.keys().copied().collect::<Vec<_>>() {
            match open.get(&id) {
                Some(blocked_ns) => self.sleep_ended(id, *blocked_ns),
                None => {
                    self.pending.remove(&id);
                }
            }
        }
    }

    /// Stacks of those who slept at a site, the greatest time first.
    pub(super) fn waiters(&mut self, site: u32) -> Vec<StackShare> {
        let sums: Vec<(Stack, Sum)> = self
            .waiters
            .range((site, 0)..=(site, Stack::MAX))
            .map(|((_, stack), sum)| (*stack, sum.clone()))
            .collect();
        self.shares(sums)
    }

    /// Stacks of those who created threads, the most first.
    pub(super) fn creators(&mut self) -> Vec<StackShare> {
        let sums = self.creators.iter().map(|(stack, sum)| (*stack, sum.clone())).collect();
        self.shares(sums)
    }

    fn shares(&mut self, mut sums: Vec<(Stack, Sum)>) -> Vec<StackShare> {
        let all: u64 = sums.iter().map(|(_, sum)| sum.time_ns).sum();
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.time_ns));
        sums.truncate(SHOWN);
        sums.into_iter()
            .map(|(stack, sum)| StackShare {
                share: share(sum.time_ns, all),
                samples: sum.samples,
                threads: sum.threads,
                frames: self.frames(stack),
                incomplete: self.stacks[stack].0.incomplete.clone(),
            })
            .collect()
    }

    /// Who ended the sleeps at a site, the greatest time first.
    pub(super) fn wakers(&mut self, site: u32) -> Vec<Waker> {
        let range = (site, 0, String::new())..(site + 1, 0, String::new());
        let found: Vec<(WakerKey, BTreeMap<Stack, Sum>)> =
            self.wakers.range(range).map(|(key, stacks)| (key.clone(), stacks.clone())).collect();
        let all: u64 = found.iter().flat_map(|(_, stacks)| stacks.values()).map(|sum| sum.time_ns).sum();
        let mut wakers: Vec<Waker> = found
            .into_iter()
            .map(|((_, host_tid, thread), stacks)| {
                let time: u64 = stacks.values().map(|sum| sum.time_ns).sum();
                let samples = stacks.values().map(|sum| sum.samples).sum();
                let most = stacks.into_iter().max_by_key(|(_, sum)| sum.time_ns).map(|(stack, _)| stack);
                let frames = most.map(|stack| self.frames(stack)).unwrap_or_default();
                Waker { thread, host_tid, share: share(time, all), samples, frames }
            })
            .collect();
        wakers.sort_by(|left, right| right.share.total_cmp(&left.share));
        wakers.truncate(SHOWN);
        wakers
    }

    /// The names of a stack's frames, the innermost first.
    fn frames(&mut self, stack: Stack) -> Vec<String> {
        if let Some(frames) = self.named.get(&stack) {
            return frames.clone();
        }
        let (unwound, time_ns) = self.stacks[stack].clone();
        let mut frames = Vec::new();
        for (index, address) in unwound.addresses.iter().enumerate() {
            let found = self.names.frame(&mut self.mappings, unwound.pid, time_ns, *address, index > 0);
            frames.extend(found.iter().map(ToString::to_string));
        }
        self.named.insert(stack, frames.clone());
        frames
    }

    /// What lies at an address of data, and the file it belongs to if processes share it.
    pub(super) fn place(&mut self, pid: Option<i32>, time_ns: u64, address: u64) -> (String, Option<Shared>) {
        let Some(pid) = pid else { return (format!("{address:#x}"), None) };
        let place = self.names.data(&mut self.mappings, pid, time_ns, address);
        let Place::Shared { path, inode, file_offset, .. } = &place else { return (place.to_string(), None) };
        let path = path.to_string_lossy().into_owned();
        // The kernel keeps shared memory without a file in one of this name.
        let name = if path.starts_with("/dev/zero") {
            format!("[shared memory {inode}]+{file_offset:#x}")
        } else {
            place.to_string()
        };
        (name, Some(Shared { path, inode: *inode, offset: *file_offset }))
    }

    /// What became of the copies; `lost` is what the kernel side could not hand over.
    pub(super) fn counts(&self, lost: u64) -> StackCopies {
        StackCopies { lost: self.counts.lost + lost, ..self.counts }
    }
}

impl Sum {
    fn add(&mut self, time_ns: u64, weight: u64, thread: &str) {
        self.time_ns = self.time_ns.saturating_add(time_ns);
        self.samples += 1;
        self.weight += weight;
        if self.threads.len() < SHOWN && !self.threads.iter().any(|known| known == thread) {
            self.threads.push(thread.to_owned());
        }
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// A record of the kernel side.
fn plain<T: Copy>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the kernel side wrote a `T`, which consists of integers, and all of it is there.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}
