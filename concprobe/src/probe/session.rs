//! One loading of the kernel programs, with its own maps: sessions do not see each other. When it is
//! dropped, or its process ends in whatever way, the kernel detaches everything.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
};

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Btf, Ebpf, EbpfLoader, Pod,
    maps::{Map, MapData, Stack},
    programs::{BtfTracePoint, Program, ProgramError, TracePoint},
};
use concprobe_common::{
    block::CALL_NUMBERS,
    config::{self, Config},
    histogram::Kind,
    maps,
};

use crate::doctor::explain_load_failure;

use super::{
    catalogue::{PROGRAMS, Row, Set, Way},
    cost::Cost,
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
}

/// Dropping it detaches the program.
#[derive(Debug)]
#[expect(dead_code, reason = "the links are only kept")]
enum Link {
    Btf(aya::programs::tp_btf::BtfTracePointLink),
    Classic(aya::programs::trace_point::TracePointLink),
}

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
        let config = Config {
            count_by_number: u32::from(options.count_by_number),
            ..layout::resolve(way, session, options.tracefs.as_deref())?
        };
        let cpus = possible_cpus()?;
        let mut ebpf = load_object(&config, cpus, options)?;
        load_programs(&mut ebpf, way)?;
        fill_free_slots(&mut ebpf, options.slots)?;
        let records = Records {
            ended: mapping(&ebpf, maps::ENDED, cpus)?,
            histograms: mapping(&ebpf, maps::HISTOGRAMS, cpus * Kind::COUNT)?,
            losses: mapping(&ebpf, maps::LOSSES, cpus)?,
            calls: mapping(&ebpf, maps::CALLS, cpus * CALL_NUMBERS)?,
        };
        Ok(Self { ebpf, way, config, slots: options.slots, records, attached: Vec::new() })
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

    /// Detaches the programs of a set.
    pub fn detach(&mut self, set: Set) {
        self.attached.retain(|(of_set, _)| *of_set != set);
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
        .map_max_entries(maps::HISTOGRAMS, cpus * Kind::COUNT)
        .map_max_entries(maps::CALLS, cpus * CALL_NUMBERS);
    loader.load(OBJECT).context("cannot create the maps of the kernel programs")
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

fn map_data<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a MapData> {
    match ebpf.map(name) {
        Some(Map::Array(data) | Map::Stack(data)) => Ok(data),
        _ => Err(anyhow!("the object has no array {name}")),
    }
}

fn mapping<T: Copy>(ebpf: &Ebpf, name: &str, len: u32) -> Result<Mapping<T>> {
    Mapping::new(map_data(ebpf, name)?.fd().as_fd(), len as usize)
}

fn fill_free_slots(ebpf: &mut Ebpf, slots: u32) -> Result<()> {
    let map = ebpf.map_mut(maps::FREE).ok_or_else(|| anyhow!("the object has no stack {}", maps::FREE))?;
    let mut free: Stack<_, u32> = map.try_into()?;
    // The lowest comes out first, so that few pages of the blocks are ever touched.
    for slot in (0..slots).rev() {
        free.push(slot, 0).context("cannot fill the stack of free blocks")?;
    }
    Ok(())
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
