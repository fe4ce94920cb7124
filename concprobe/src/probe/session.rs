//! One loading of the kernel programs, with its own maps: sessions do not see each other. When it is
//! dropped, or its process ends in whatever way, the kernel detaches everything.

use std::{
    io::{self, Read as _},
    num::NonZeroU32,
    os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Btf, Ebpf, EbpfLoader, Pod,
    maps::{Array, HashMap, Map, MapData, MapError, RingBuf, Stack},
    programs::{
        BtfTracePoint, Iter, Program, ProgramError, TracePoint, UProbe,
        uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope},
    },
};
use concprobe_common::{
    block::{Block, CALL_ROWS, Control, ENDED_NAMES, EndedKey, EndedNamed, Ids, KEPT},
    config::{self, Config},
    event,
    histogram::Kind,
    lock_calls::FUNCTIONS,
    maps,
    site::{self, Pair, Site, SiteKey},
};

use crate::{clock, doctor::explain_load_failure};

use super::{
    catalogue::{LIST, LOCK_CALL, PROGRAMS, Row, Set, Way},
    cost::{self, Cost},
    layout,
    memory::{Mapping, Records},
};

/// The kernel programs, built from `concprobe-ebpf` by `cargo xtask build-ebpf`.
pub(super) static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/ebpf/concprobe.bpf.o"));

/// What a session is loaded for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The way to attach; `None` takes the cheapest that this kernel offers.
    pub way: Option<Way>,
    /// How many threads can be tracked at the same time.
    pub slots: u32,
    /// Count calls by number as well.
    pub count_by_number: bool,
    /// Let the programs write debug messages.
    pub debug_messages: bool,
    /// Where tracefs is mounted, if anywhere.
    pub tracefs: Option<PathBuf>,
    /// For `trace` and `attach`: sum sleeps by site, and ended threads by name.
    pub tracing: Option<Tracing>,
}

/// What a session needs to look at any program.
#[derive(Clone, Copy, Debug)]
pub struct Tracing {
    /// How many sites of futex words can be told apart.
    pub sites: u32,
    /// Copy the stacks of some sleeps.
    pub stacks: bool,
    /// Track the processes that a tracked one creates, too.
    pub follow: bool,
}

/// The loaded programs, their maps and links.
#[derive(Debug)]
pub struct Session {
    ebpf: Ebpf,
    way: Way,
    config: Config,
    slots: u32,
    records: Records,
    attached: Vec<(Set, Link)>,
    /// Memory of the ring buffer, once it was taken.
    events_bytes: u64,
}

/// `BPF_NOEXIST` of `include/uapi/linux/bpf.h`.
const NOEXIST: u64 = 1;

/// The ring buffer in which copies of stacks come.
pub struct Events(RingBuf<MapData>);

impl std::fmt::Debug for Events {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Events")
    }
}

impl Events {
    /// Hands every event that is there to `take`, as bytes.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        while let Some(event) = self.0.next() {
            take(&event);
        }
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Dropping it detaches the program.
#[derive(Debug)]
#[expect(dead_code, reason = "the links are only kept")]
enum Link {
    Btf(aya::programs::tp_btf::BtfTracePointLink),
    Classic(aya::programs::trace_point::TracePointLink),
    Uprobe(aya::programs::uprobe::UProbeLink),
}

/// So that aya may hand over and take these.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Plain<T>(T);

// SAFETY: integers without padding (its size is asserted where it is defined).
unsafe impl Pod for Plain<Block> {}
// SAFETY: as above.
unsafe impl Pod for Plain<Site> {}
// SAFETY: as above.
unsafe impl Pod for Plain<SiteKey> {}
// SAFETY: as above.
unsafe impl Pod for Plain<Pair> {}
// SAFETY: as above.
unsafe impl Pod for Plain<EndedKey> {}
// SAFETY: as above.
unsafe impl Pod for Plain<EndedNamed> {}
// SAFETY: as above.
unsafe impl Pod for Plain<Control> {}

/// So that aya may replace the global of that name.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct ConfigGlobal(Config);

// SAFETY: `Config` consists of integers without padding (its size is asserted where it is defined).
unsafe impl Pod for ConfigGlobal {}

impl Session {
    /// Loads the programs; nothing is attached yet.
    ///
    /// # Errors
    /// What is missing or was refused: privileges, BTF, tracefs, a kernel feature.
    pub fn load(options: &Options) -> Result<Self> {
        let Some(way) = options.way else {
            let by_btf = Self::load_by(Way::Btf, options);
            return match by_btf {
                Ok(session) => Ok(session),
                // The classic way may still work; if not, the first error says more.
                Err(error) => Self::load_by(Way::Classic, options).map_err(|_| error),
            };
        };
        Self::load_by(way, options)
    }

    fn load_by(way: Way, options: &Options) -> Result<Self> {
        let session = random_number()?;
        let tracing = options.tracing;
        let found = layout::resolve(way, session, options.tracefs.as_deref())?;
        let stacks = tracing.is_some_and(|tracing| tracing.stacks) && found.has_task_pt_regs != 0;
        let config = Config {
            count_by_number: u32::from(options.count_by_number),
            tracing: u32::from(tracing.is_some()),
            stacks: u32::from(stacks),
            follow: u32::from(tracing.is_none_or(|tracing| tracing.follow)),
            ..found
        };
        let cpus = possible_cpus()?;
        let mut ebpf = load_object(&config, cpus, options)?;
        load_programs(&mut ebpf, way)?;
        // The lowest comes out first, so that few pages of the blocks are ever touched.
        fill_stack(&mut ebpf, maps::FREE, (0..options.slots).rev())?;
        if let Some(tracing) = tracing {
            let of_words = site::OVERFLOW + 1..tracing.sites;
            fill_stack(&mut ebpf, maps::FREE_CALL_SITES, (of_words.end..all_sites(&tracing)).rev())?;
            fill_stack(&mut ebpf, maps::FREE_SITES, of_words.rev())?;
            fill_stack(&mut ebpf, maps::KEEP, 0..KEPT)?;
            make_nameless_row(&mut ebpf)?;
        }
        let records = Records {
            ended: mapping(&ebpf, maps::ENDED, cpus)?,
            histograms: mapping(&ebpf, maps::HISTOGRAMS, cpus * Kind::COUNT)?,
            losses: mapping(&ebpf, maps::LOSSES, cpus)?,
            calls: mapping(&ebpf, maps::CALLS, cpus * CALL_ROWS)?,
            blocks: mapping(&ebpf, maps::BLOCKS, options.slots)?,
            lock_calls: mapping(&ebpf, maps::LOCK_CALLS, cpus * FUNCTIONS.len() as u32)?,
            sites: mapping(&ebpf, maps::SITES, tracing.as_ref().map_or(1, all_sites))?,
        };
        Ok(Self { ebpf, way, config, slots: options.slots, records, attached: Vec::new(), events_bytes: 0 })
    }

    /// The way that was chosen.
    pub fn way(&self) -> Way {
        self.way
    }

    /// What the programs were told about this kernel.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many threads can be tracked at the same time.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// What the programs have summed up.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The array of blocks, for the process whose threads read them.
    ///
    /// # Errors
    /// When the object has no such map.
    pub fn blocks(&self) -> Result<BorrowedFd<'_>> {
        Ok(map_data(&self.ebpf, maps::BLOCKS)?.fd().as_fd())
    }

    /// Attaches the programs of a set.
    ///
    /// # Errors
    /// Which program, where, and what the kernel said.
    pub fn attach(&mut self, set: Set) -> Result<()> {
        for row in PROGRAMS.iter().filter(|row| row.set == set) {
            let link = self.attach_program(row).with_context(|| {
                format!("cannot attach to tracepoint {}:{} ({})", row.category, row.hook, self.way.name())
            })?;
            self.attached.push((set, link));
        }
        Ok(())
    }

    fn attach_program(&mut self, row: &Row) -> Result<Link> {
        let program = program_mut(&mut self.ebpf, &row.program(self.way))?;
        Ok(match self.way {
            Way::Btf => {
                let program: &mut BtfTracePoint = program.try_into()?;
                let id = program.attach()?;
                Link::Btf(program.take_link(id)?)
            }
            Way::Classic => {
                let program: &mut TracePoint = program.try_into()?;
                let id = program.attach(row.category, row.hook)?;
                Link::Classic(program.take_link(id)?)
            }
        })
    }

    /// Counts the calls of lock functions from now on: `places` are their numbers and their offsets in `file`,
    /// `pid` is the process whose calls are trapped. [`Session::detach`] ends it.
    ///
    /// # Errors
    /// What the kernel says when it refuses.
    pub fn count_lock_calls(&mut self, file: &Path, places: &[(usize, u64)], pid: u32) -> Result<()> {
        let program: &mut UProbe = program_mut(&mut self.ebpf, LOCK_CALL)?.try_into()?;
        if program.fd().is_err() {
            program.load().map_err(|error| refused(error, LOCK_CALL))?;
        }
        let pid = NonZeroU32::new(pid).context("no process")?;
        for (function, offset) in places {
            let point = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(*offset),
                cookie: Some(*function as u64),
            };
            let id = program
                .attach(point, file, UProbeScope::OneProcess(pid))
                .with_context(|| format!("cannot trap {} in {}", FUNCTIONS[*function], file.display()))?;
            self.attached.push((Set::LockCalls, Link::Uprobe(program.take_link(id)?)));
        }
        Ok(())
    }

    /// Detaches the programs of a set.
    pub fn detach(&mut self, set: Set) {
        self.attached.retain(|(of_set, _)| *of_set != set);
    }

    /// The ids of all threads that this PID namespace shows. In the machine's first one `/proc` tells as much.
    ///
    /// # Errors
    /// When the kernel has no task iterator, or does not let it be read.
    pub fn list_threads(&mut self) -> Result<Vec<Ids>> {
        let btf = Btf::from_sys_fs().context("cannot read the kernel's type information")?;
        let program: &mut Iter = program_mut(&mut self.ebpf, LIST)?.try_into()?;
        if program.fd().is_err() {
            program.load("task", &btf).map_err(|error| refused(error, LIST))?;
        }
        let id = program.attach().context("cannot attach the task iterator")?;
        let mut bytes = Vec::new();
        let mut file = program.take_link(id)?.into_file().context("cannot open the task iterator")?;
        file.read_to_end(&mut bytes).context("cannot read the task iterator")?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
        Ok(bytes
            .chunks_exact(size_of::<Ids>())
            .map(|ids| Ids {
                tid: word(&ids[0..4]),
                tgid: word(&ids[4..8]),
                own_tid: word(&ids[8..12]),
                level: word(&ids[12..16]),
            })
            .collect())
    }

    /// Tells the programs how deep this PID namespace is nested, so that they note its numbers.
    ///
    /// # Errors
    /// What the kernel says when it refuses.
    pub fn set_level(&mut self, level: u32) -> Result<()> {
        self.control(Control { stopped: 0, level })
    }

    /// Ends the look, at the time that is returned (`CLOCK_MONOTONIC`): whatever the programs see from then on
    /// changes nothing.
    ///
    /// # Errors
    /// What the kernel says when it refuses.
    pub fn stop(&mut self) -> Result<u64> {
        self.control(Control { stopped: 1, level: 0 })?;
        Ok(clock::now_ns())
    }

    fn control(&mut self, order: Control) -> Result<()> {
        let mut control: Array<_, Plain<Control>> = map_mut(&mut self.ebpf, maps::CONTROL)?.try_into()?;
        control.set(0, Plain(order), 0).context("cannot give the kernel programs an order")
    }

    /// Takes on a thread that runs already, from now on. `None` if it is tracked, and what to give to
    /// [`Session::release`] if it turns out to be gone.
    ///
    /// # Errors
    /// When there is no block left for it.
    pub fn adopt(&mut self, block: &Block) -> Result<Option<u32>> {
        let slot = {
            let map = map_mut(&mut self.ebpf, maps::FREE)?;
            let mut free: Stack<_, u32> = map.try_into()?;
            free.pop(0).context("there is no room for another thread (raise --max-threads)")?
        };
        let mut blocks: Array<_, Plain<Block>> = map_mut(&mut self.ebpf, maps::BLOCKS)?.try_into()?;
        blocks.set(slot, Plain(*block), 0).context("cannot fill a thread's block")?;
        let mut tasks: HashMap<_, u32, u32> = map_mut(&mut self.ebpf, maps::TASKS)?.try_into()?;
        if tasks.insert(block.tid, slot, NOEXIST).is_ok() {
            self.forget_running()?;
            return Ok(Some(slot));
        }
        self.give_back(slot)?;
        Ok(None)
    }

    /// Makes a site at which these threads sleep already; what the programs find there later is added to it.
    /// To be called before any of the process's threads is taken on. None when there is no room for it.
    ///
    /// # Errors
    /// When the kernel's tables cannot be changed.
    pub fn make_site(&mut self, site: &Site, threads: &[u32]) -> Result<Option<u32>> {
        let index = {
            let pool = if site.key.call == site::FUTEX { maps::FREE_SITES } else { maps::FREE_CALL_SITES };
            let mut free: Stack<_, u32> = map_mut(&mut self.ebpf, pool)?.try_into()?;
            match free.pop(0) {
                Ok(index) => index,
                Err(MapError::ElementNotFound) => return Ok(None),
                Err(error) => return Err(error).context("cannot take a free place of sleep"),
            }
        };
        let mut sites: Array<_, Plain<Site>> = map_mut(&mut self.ebpf, maps::SITES)?.try_into()?;
        sites.set(index, Plain(*site), 0).context("cannot fill a site")?;
        let mut known: HashMap<_, Plain<SiteKey>, u32> =
            map_mut(&mut self.ebpf, maps::SITE_INDEX)?.try_into()?;
        known.insert(Plain(site.key), index, 0).context("cannot enter a site")?;
        let mut pairs: HashMap<_, Plain<Pair>, u32> = map_mut(&mut self.ebpf, maps::PAIRS)?.try_into()?;
        for tid in threads {
            pairs
                .insert(Plain(Pair { site: index, tid: *tid }), 1, 0)
                .context("cannot enter who sleeps there")?;
        }
        Ok(Some(index))
    }

    /// A CPU that remembers a thread as untracked has to look again.
    fn forget_running(&mut self) -> Result<()> {
        let mut running: Array<_, u64> = map_mut(&mut self.ebpf, maps::RUNNING)?.try_into()?;
        for cpu in 0..running.len() {
            running.set(cpu, 0, 0).context("cannot change what a CPU remembers")?;
        }
        Ok(())
    }

    /// Lets an adopted thread go that was gone before the programs could see its end.
    ///
    /// # Errors
    /// When the maps cannot be changed.
    pub fn release(&mut self, tid: u32, slot: u32) -> Result<()> {
        let mut tasks: HashMap<_, u32, u32> = map_mut(&mut self.ebpf, maps::TASKS)?.try_into()?;
        // When it is not there any more, the programs have seen the end after all.
        if tasks.remove(&tid).is_ok() { self.give_back(slot) } else { Ok(()) }
    }

    fn give_back(&mut self, slot: u32) -> Result<()> {
        let mut blocks: Array<_, Plain<Block>> = map_mut(&mut self.ebpf, maps::BLOCKS)?.try_into()?;
        blocks.set(slot, Plain(Block::EMPTY), 0).context("cannot empty a block")?;
        let mut free: Stack<_, u32> = map_mut(&mut self.ebpf, maps::FREE)?.try_into()?;
        free.push(slot, 0).context("cannot give a block back")
    }

    /// The sums over ended threads, by process and name.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn ended_named(&self) -> Result<Vec<(EndedKey, EndedNamed)>> {
        let map = self.ebpf.map(maps::ENDED_NAMED).ok_or_else(|| anyhow!("the object has no such table"))?;
        let rows: HashMap<_, Plain<EndedKey>, Plain<EndedNamed>> = map.try_into()?;
        rows.iter()
            .map(|row| row.map(|(key, value)| (key.0, value.0)))
            .filter(|row| row.as_ref().map_or(true, |(_, sums)| sums.threads > 0))
            .collect::<Result<_, _>>()
            .context("cannot read the sums of ended threads")
    }

    /// Which thread slept at which site.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn sleepers(&self) -> Result<Vec<Pair>> {
        let map = self.ebpf.map(maps::PAIRS).ok_or_else(|| anyhow!("the object has no such table"))?;
        let pairs: HashMap<_, Plain<Pair>, u32> = map.try_into()?;
        pairs
            .keys()
            .map(|pair| pair.map(|pair| pair.0))
            .collect::<Result<_, _>>()
            .context("cannot read who slept where")
    }

    /// The ring buffer of events, once.
    ///
    /// # Errors
    /// When it was taken before, or cannot be mapped.
    pub fn take_events(&mut self) -> Result<Events> {
        let map = self.ebpf.take_map(maps::EVENTS).ok_or_else(|| anyhow!("the events were taken before"))?;
        if let Map::RingBuf(data) = &map {
            self.events_bytes = cost::map_bytes(data.fd().as_fd().as_raw_fd()).unwrap_or(0);
        }
        Ok(Events(RingBuf::try_from(map).context("cannot map the ring buffer")?))
    }

    /// Memory of the maps, bytes, as the kernel accounts for it.
    pub fn map_bytes(&self) -> u64 {
        let data = self.ebpf.maps().filter_map(|(_, map)| match map {
            Map::Array(data) | Map::HashMap(data) | Map::Stack(data) | Map::RingBuf(data) => Some(data),
            _ => None,
        });
        data.filter_map(|data| cost::map_bytes(data.fd().as_fd().as_raw_fd())).sum::<u64>()
            + self.events_bytes
    }

    /// Detaches all programs; what they summed stays.
    pub fn detach_all(&mut self) {
        self.attached.clear();
    }

    /// What the programs have cost so far.
    pub fn cost(&self) -> Cost {
        PROGRAMS
            .iter()
            .filter_map(|row| self.ebpf.program(&row.program(self.way))?.fd().ok())
            .map(|program| Cost::of_program(program.as_fd().as_raw_fd()))
            .fold(Cost::default(), Cost::plus)
    }

    /// Lets the kernel time its programs until the result is dropped (`BPF_ENABLE_STATS`, Linux 5.8).
    ///
    /// # Errors
    /// When the kernel cannot, or not for this user.
    pub fn time_programs() -> Result<OwnedFd> {
        aya::sys::enable_stats(aya::sys::Stats::RunTime).context("cannot turn BPF statistics on")
    }

    /// Lets the debug messages of the programs go to the logger of this process; needs a tokio runtime to
    /// call [`aya_log::EbpfLogger::flush`] from time to time.
    ///
    /// # Errors
    /// When the object has no such ring buffer.
    pub fn debug_messages(&mut self) -> Result<aya_log::EbpfLogger<&'static dyn log::Log>> {
        aya_log::EbpfLogger::init(&mut self.ebpf).context("cannot read the kernel programs' debug messages")
    }
}

fn load_object(config: &Config, cpus: u32, options: &Options) -> Result<Ebpf> {
    let mut loader = EbpfLoader::new();
    let log_level: u8 = if options.debug_messages { aya_log::Level::Debug as u8 } else { 0 };
    let config = ConfigGlobal(*config);
    loader
        // The programs need no relocation against the kernel's types; dropping them frees 20 MiB.
        .btf(None)
        .override_global(config::SYMBOL, &config, true)
        .override_global(aya_log::LEVEL, &log_level, true)
        .map_max_entries(maps::BLOCKS, options.slots)
        .map_max_entries(maps::TASKS, options.slots)
        .map_max_entries(maps::FREE, options.slots)
        .map_max_entries(maps::ENDED, cpus)
        .map_max_entries(maps::LOSSES, cpus)
        .map_max_entries(maps::RUNNING, cpus)
        .map_max_entries(maps::LOCK_CALLS, cpus * FUNCTIONS.len() as u32)
        .map_max_entries(maps::HISTOGRAMS, cpus * Kind::COUNT)
        .map_max_entries(maps::CALLS, cpus * CALL_ROWS);
    // Maps cannot be left out, but what nobody uses is as small as can be.
    let of_tracing = |entries: u32| if options.tracing.is_some() { entries } else { 1 };
    let sites = options.tracing.as_ref().map_or(1, all_sites);
    let copies = options.tracing.is_some_and(|tracing| tracing.stacks);
    loader
        .map_max_entries(maps::ENDED_NAMED, of_tracing(ENDED_NAMES))
        .map_max_entries(maps::KEEP, of_tracing(KEPT))
        .map_max_entries(maps::SITES, sites)
        .map_max_entries(maps::SITE_INDEX, sites)
        .map_max_entries(maps::FREE_SITES, sites)
        .map_max_entries(maps::FREE_CALL_SITES, of_tracing(site::CALL_SITES))
        .map_max_entries(maps::PAIRS, of_tracing(site::PAIRS))
        .map_max_entries(maps::EVENTS, if copies { event::RING_BYTES } else { page_size() });
    loader.load(OBJECT).context("cannot create the maps of the kernel programs")
}

/// How long the table of sites is: futex words, then calls.
fn all_sites(tracing: &Tracing) -> u32 {
    tracing.sites + site::CALL_SITES
}

fn load_programs(ebpf: &mut Ebpf, way: Way) -> Result<()> {
    let btf = match way {
        Way::Btf => Some(Btf::from_sys_fs().context("cannot read the kernel's type information")?),
        Way::Classic => None,
    };
    for row in PROGRAMS {
        let name = row.program(way);
        let program = program_mut(ebpf, &name)?;
        let loaded = match &btf {
            Some(btf) => {
                <&mut BtfTracePoint>::try_from(program).and_then(|program| program.load(row.hook, btf))
            }
            None => <&mut TracePoint>::try_from(program).and_then(TracePoint::load),
        };
        loaded.map_err(|error| refused(error, &name))?;
    }
    Ok(())
}

/// The kernel's refusal, its log kept, and what may be behind it.
fn refused(error: ProgramError, name: &str) -> anyhow::Error {
    let advice = match &error {
        ProgramError::LoadError { io_error, verifier_log } => {
            let errno = io_error.raw_os_error().unwrap_or_default();
            explain_load_failure(errno, &verifier_log.to_string())
        }
        _ => None,
    };
    let error = anyhow::Error::from(error).context(format!("the kernel refuses program {name}"));
    match advice {
        Some(advice) => error.context(advice),
        None => error,
    }
}

fn program_mut<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Program> {
    ebpf.program_mut(name).ok_or_else(|| anyhow!("the object has no program {name}"))
}

fn map_mut<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Map> {
    ebpf.map_mut(name).ok_or_else(|| anyhow!("the object has no map {name}"))
}

fn map_data<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a MapData> {
    match ebpf.map(name) {
        Some(Map::Array(data) | Map::Stack(data)) => Ok(data),
        _ => Err(anyhow!("the object has no array {name}")),
    }
}

fn mapping<T: Copy>(ebpf: &Ebpf, name: &str, len: u32) -> Result<Mapping<T>> {
    Mapping::new(map_data(ebpf, name)?.fd().as_fd(), len as usize)
}

fn fill_stack(ebpf: &mut Ebpf, name: &str, values: impl Iterator<Item = u32>) -> Result<()> {
    let mut free: Stack<_, u32> = map_mut(ebpf, name)?.try_into()?;
    for value in values {
        free.push(value, 0).with_context(|| format!("cannot fill the stack {name}"))?;
    }
    Ok(())
}

/// The row that takes the threads whose names find no room must be there before the room is gone.
fn make_nameless_row(ebpf: &mut Ebpf) -> Result<()> {
    let mut rows: HashMap<_, Plain<EndedKey>, Plain<EndedNamed>> =
        map_mut(ebpf, maps::ENDED_NAMED)?.try_into()?;
    let nameless = EndedKey { tgid: 0, reserved: 0, name: [0; 16] };
    rows.insert(Plain(nameless), Plain(EndedNamed::EMPTY), 0)
        .context("cannot make the row of nameless threads")
}

/// The least that a ring buffer can have.
fn page_size() -> u32 {
    // SAFETY: a plain system call.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn possible_cpus() -> Result<u32> {
    let cpus = aya::util::nr_cpus().map_err(|(path, error)| anyhow!("cannot read {path}: {error}"))?;
    Ok(u32::try_from(cpus)?)
}

fn random_number() -> Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is valid for its length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) != Ok(bytes.len()) {
        return Err(io::Error::last_os_error()).context("cannot draw a random number");
    }
    Ok(u64::from_ne_bytes(bytes))
}
