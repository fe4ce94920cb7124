//! The maps, and the constants that the user side sets before loading.
//! Feeds: the user side, which maps all but `TASKS` and `FREE` into its memory.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, Stack},
};
use concprobe_common::{
    block::{Block, CALL_NUMBERS, CallCount, DEFAULT_SLOTS, Ended, Losses},
    config::Config,
    histogram::{Histogram, Kind},
};

/// `BPF_F_MMAPABLE` of `include/uapi/linux/bpf.h`.
const MMAPABLE: u32 = 1 << 10;

/// Set by the user side through its symbol before loading.
#[unsafe(no_mangle)]
pub static CONFIG: Config = Config::ABSENT;

/// One field of [`CONFIG`]; the verifier knows its value and prunes what it excludes.
macro_rules! config {
    ($field:ident) => {
        $crate::maps::constant(&$crate::maps::CONFIG.$field)
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

// One entry per possible CPU and number: the user side sets the size.
#[map]
pub static CALLS: Array<CallCount> = Array::with_max_entries(CALL_NUMBERS, MMAPABLE);

/// Slots that nobody uses. The user side fills it.
#[map]
pub static FREE: Stack<u32> = Stack::with_max_entries(DEFAULT_SLOTS, 0);

/// Host thread id → slot.
#[map]
pub static TASKS: HashMap<u32, u32> = HashMap::with_max_entries(DEFAULT_SLOTS, 0);
