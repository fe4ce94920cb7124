//! The maps, and the constants that the user side sets before loading.
//! Feeds: the user side, which maps the arrays into its memory. What only `trace` and `attach` use has no
//! more than one entry elsewhere.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, RingBuf, Stack},
};
use concprobe_common::{
    block::{
        Block, CALL_ROWS, CallCount, Control, DEFAULT_SLOTS, ENDED_NAMES, Ended, EndedKey, EndedNamed, KEPT,
        Losses, Running,
    },
    config::Config,
    event::RING_BYTES,
    histogram::{Histogram, Kind},
    lock_calls::FUNCTIONS,
    site::{CALL_SITES, DEFAULT_SITES, PAIRS as PAIR_COUNT, Pair, Site, SiteKey},
};

/// `BPF_F_MMAPABLE` of `include/uapi/linux/bpf.h`.
const MMAPABLE: u32 = 1 << 10;

/// Set by the user side through its symbol before loading.
#[unsafe(no_mangle)]
pub static CONFIG: Config = Config::ABSENT;

/// One field of [`CONFIG`]; the verifier knows its value and prunes what it excludes.
macro_rules! config {
    ($field:ident $([$index:expr])?) => {
        $crate::maps::constant(&$crate::maps::CONFIG.$field $([$index])?)
    };
}
pub(crate) use config;

#[inline(always)]
pub fn constant<T: Copy>(value: &'static T) -> T {
    // SAFETY: a reference is valid for reads. The read is volatile because the user side replaces the
    // value between compilation and loading, so the compiler must not fold it.
    unsafe { core::ptr::read_volatile(value) }
}

#[map]
pub static BLOCKS: Array<Block> = Array::with_max_entries(DEFAULT_SLOTS, MMAPABLE);

// One entry per possible CPU: the user side sets the size.
#[map]
pub static ENDED: Array<Ended> = Array::with_max_entries(1, MMAPABLE);

// One entry per possible CPU and kind: the user side sets the size.
#[map]
pub static HISTOGRAMS: Array<Histogram> = Array::with_max_entries(Kind::COUNT, MMAPABLE);

// One entry per possible CPU: the user side sets the size.
#[map]
pub static LOSSES: Array<Losses> = Array::with_max_entries(1, MMAPABLE);

// One entry per possible CPU and row of calls: the user side sets the size.
#[map]
pub static CALLS: Array<CallCount> = Array::with_max_entries(CALL_ROWS, MMAPABLE);

/// Slots that nobody uses. The user side fills it.
#[map]
pub static FREE: Stack<u32> = Stack::with_max_entries(DEFAULT_SLOTS, 0);

/// Host thread id → slot.
#[map]
pub static TASKS: HashMap<u32, u32> = HashMap::with_max_entries(DEFAULT_SLOTS, 0);

// One entry per possible CPU: the user side sets the size.
#[map]
pub static RUNNING: Array<Running> = Array::with_max_entries(1, 0);

/// A token for each ended thread that keeps its block. The user side fills it.
#[map]
pub static KEEP: Stack<u32> = Stack::with_max_entries(KEPT, 0);

#[map]
pub static CONTROL: Array<Control> = Array::with_max_entries(1, MMAPABLE);

#[map]
pub static ENDED_NAMED: HashMap<EndedKey, EndedNamed> = HashMap::with_max_entries(ENDED_NAMES, 0);

#[map]
pub static SITES: Array<Site> = Array::with_max_entries(DEFAULT_SITES, MMAPABLE);

#[map]
pub static SITE_INDEX: HashMap<SiteKey, u32> = HashMap::with_max_entries(DEFAULT_SITES, 0);

/// Sites that nobody uses, for futex words. The user side fills it.
#[map]
pub static FREE_SITES: Stack<u32> = Stack::with_max_entries(DEFAULT_SITES, 0);

/// The same for calls without one.
#[map]
pub static FREE_CALL_SITES: Stack<u32> = Stack::with_max_entries(CALL_SITES, 0);

#[map]
pub static PAIRS: HashMap<Pair, u32> = HashMap::with_max_entries(PAIR_COUNT, 0);

#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(RING_BYTES, 0);

// One entry per possible CPU and function: the user side sets the size.
#[map]
pub static LOCK_CALLS: Array<u64> = Array::with_max_entries(FUNCTIONS.len() as u32, MMAPABLE);
