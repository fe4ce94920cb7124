//! What the kernel side and the user side must agree on: the shape of shared memory, and every formula
//! that both apply. Nothing here allocates, and nothing here exists twice.
#![cfg_attr(not(test), no_std)]

pub mod block;
pub mod class;
pub mod config;
pub mod event;
pub mod futex;
pub mod histogram;
pub mod lock_calls;
pub mod site;
pub mod task_state;
pub mod time;

/// Names of the BPF maps, as both sides spell them.
pub mod maps {
    /// One [`crate::block::Block`] per tracked thread; mmap-able.
    pub const BLOCKS: &str = "BLOCKS";
    /// One [`crate::block::Ended`] per possible CPU; mmap-able.
    pub const ENDED: &str = "ENDED";
    /// One [`crate::histogram::Histogram`] per possible CPU and [`crate::histogram::Kind`]; mmap-able.
    pub const HISTOGRAMS: &str = "HISTOGRAMS";
    /// One [`crate::block::Losses`] per possible CPU; mmap-able.
    pub const LOSSES: &str = "LOSSES";
    /// One [`crate::block::CallCount`] per possible CPU and system call number; mmap-able.
    pub const CALLS: &str = "CALLS";
    /// Thread id (host) → slot of its block.
    pub const TASKS: &str = "TASKS";
    /// One [`crate::block::Running`] per possible CPU.
    pub const RUNNING: &str = "RUNNING";
    /// Slots that nobody uses.
    pub const FREE: &str = "FREE";
    /// One count per possible CPU and function of [`crate::lock_calls`].
    pub const LOCK_CALLS: &str = "LOCK_CALLS";
    /// A token for each ended thread that keeps its block.
    pub const KEEP: &str = "KEEP";
    /// One [`crate::block::Control`].
    pub const CONTROL: &str = "CONTROL";
    /// [`crate::block::EndedKey`] → [`crate::block::EndedNamed`].
    pub const ENDED_NAMED: &str = "ENDED_NAMED";
    /// [`crate::site::Site`]s.
    pub const SITES: &str = "SITES";
    /// [`crate::site::SiteKey`] → index of the site.
    pub const SITE_INDEX: &str = "SITE_INDEX";
    /// Sites that nobody uses, for futex words.
    pub const FREE_SITES: &str = "FREE_SITES";
    /// Sites that nobody uses, for calls without a futex word.
    pub const FREE_CALL_SITES: &str = "FREE_CALL_SITES";
    /// [`crate::site::Pair`]s that were seen.
    pub const PAIRS: &str = "PAIRS";
    /// Ring buffer of [`crate::event`]s.
    pub const EVENTS: &str = "EVENTS";
}
