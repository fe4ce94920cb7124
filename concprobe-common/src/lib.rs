//! What the kernel side and the user side must agree on: the shape of shared memory, and every formula
//! that both apply. Nothing here allocates, and nothing here exists twice.
#![cfg_attr(not(test), no_std)]

pub mod block;
pub mod class;
pub mod config;
pub mod futex;
pub mod histogram;
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
    /// Slots that nobody uses.
    pub const FREE: &str = "FREE";
}
