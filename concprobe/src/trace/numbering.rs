//! The kernel's own ids and those of the PID namespace that concprobe lives in. In the machine's first one
//! they are the same, and nothing has to be asked.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use concprobe_common::block::Block;

use crate::{environment::Environment, probe::Session};

/// Both ids of every thread that is known.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    nested: bool,
    host_of: HashMap<i32, u32>,
    own_of: HashMap<u32, i32>,
}

impl Numbering {
    /// The ids of the threads that are there now.
    ///
    /// # Errors
    /// In a nested namespace, when the kernel cannot list its threads.
    pub(super) fn read(session: &mut Session) -> Result<Self> {
        let mut numbering =
            Self { nested: Environment::read().pid_namespace == Some(true), ..Self::default() };
        if numbering.nested {
            let level = numbering.list(session).context(
                "in a PID namespace of its own, concprobe has to ask the kernel's task iterator for ids; start \
                 it in the machine's first one (for a container: --pid=host)",
            )?;
            session.set_level(level)?;
        }
        Ok(numbering)
    }

    /// Takes down who is there now, and says how deep this namespace is nested.
    fn list(&mut self, session: &mut Session) -> Result<u32> {
        let threads = session.list_threads()?;
        for ids in &threads {
            self.insert(ids.tid, ids.own_tid.cast_signed());
        }
        Ok(threads.first().map_or(0, |ids| ids.level))
    }

    /// Learns what the kernel programs noted, and who is there now.
    pub(super) fn learn(&mut self, session: &mut Session, blocks: &[(Block, u64)]) {
        if !self.nested {
            return;
        }
        for (block, _) in blocks.iter().filter(|(block, _)| block.own_tid != 0) {
            self.insert(block.tid, block.own_tid.cast_signed());
        }
        // What it would tell is in the blocks, but for the one that announced itself.
        let _ = self.list(session);
    }

    fn insert(&mut self, host: u32, own: i32) {
        self.host_of.insert(own, host);
        self.own_of.insert(host, own);
    }

    /// The kernel's own id.
    pub(super) fn host(&self, own: i32) -> Option<u32> {
        if self.nested { self.host_of.get(&own).copied() } else { Some(own.cast_unsigned()) }
    }

    /// The id in this namespace.
    pub(super) fn own(&self, host: u32) -> Option<i32> {
        if self.nested { self.own_of.get(&host).copied() } else { Some(host.cast_signed()) }
    }
}
