//! What lies at an address of data, such as that of a lock.

use std::{fmt, path::PathBuf};

/// What lies at an address of data.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A global or static variable.
    Global {
        /// Its demangled name.
        symbol: String,
        /// The distance from its start.
        offset: u64,
        /// The name of the file that it belongs to.
        module: String,
        /// The address as the file counts.
        module_offset: u64,
    },
    /// Memory of the process without a symbol.
    Mapped {
        /// The name of a file, or one in brackets such as `[heap]`.
        name: String,
        /// The address as the file counts, or the distance from the start of the mapping.
        offset: u64,
    },
    /// Memory that other processes may share: a file, `/dev/shm`, a memfd, or shared memory without name.
    Shared {
        /// The path as the kernel has it.
        path: PathBuf,
        /// The number of the file system.
        device: u64,
        /// The inode, which with the device is the same in each process.
        inode: u64,
        /// The distance from the start of the file.
        file_offset: u64,
    },
    /// Nothing is known to be mapped there.
    Unknown {
        /// The address itself.
        address: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global { symbol, offset: 0, module, module_offset } => {
                write!(formatter, "{symbol} ({module}+{module_offset:#x})")
            }
            Self::Global { symbol, offset, module, module_offset } => {
                write!(formatter, "{symbol}+{offset:#x} ({module}+{module_offset:#x})")
            }
            Self::Mapped { name, offset } => write!(formatter, "{name}+{offset:#x}"),
            Self::Shared { path, file_offset, .. } => {
                write!(formatter, "{}+{file_offset:#x}", path.display())
            }
            Self::Unknown { address } => write!(formatter, "{address:#x} (not known to be mapped)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_like_in_a_debugger() {
        let global = |offset| Place::Global {
            symbol: "queue_lock".to_owned(),
            offset,
            module: "server".to_owned(),
            module_offset: 0x4060 + offset,
        };
        assert_eq!(global(0).to_string(), "queue_lock (server+0x4060)");
        assert_eq!(global(8).to_string(), "queue_lock+0x8 (server+0x4068)");
        assert_eq!(Place::Mapped { name: "[heap]".to_owned(), offset: 0x2a0 }.to_string(), "[heap]+0x2a0");
        let path = "/dev/shm/sem.x".into();
        let shared = Place::Shared { path, device: 1, inode: 2, file_offset: 0 };
        assert_eq!(shared.to_string(), "/dev/shm/sem.x+0x0");
        assert_eq!(Place::Unknown { address: 16 }.to_string(), "0x10 (not known to be mapped)");
    }
}
