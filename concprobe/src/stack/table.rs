//! What is and was mapped in one address space, with the time in which each mapping held.
//!
//! The kernel reports new mappings and no ends of them: a mapping holds until another covers it.

use std::{ffi::OsStr, path::PathBuf, sync::Arc};

/// Where mapped memory comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The file's path in the mount namespace of the process, or a name in brackets such as `[heap]`.
    pub path: PathBuf,
    /// The number of the file system, as `stat(2)` has it for most file systems.
    pub device: u64,
    /// The file's inode; 0 for memory that is no file.
    pub inode: u64,
}

impl Origin {
    /// Whether it is a file, be it one without a name in a file system.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.inode != 0
    }

    /// Whether it is memory that has no name either.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        !self.is_file() && self.path.as_os_str() == ANONYMOUS
    }

    /// The last part of the path, for people.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(OsStr::new("?")).to_string_lossy().into_owned()
    }
}

/// The name of memory that has none.
pub(super) const ANONYMOUS: &str = "[anon]";
/// The name of the memory that `brk(2)` gives.
pub(super) const HEAP: &str = "[heap]";
/// The furthest that the kernel moves the heap away from the program (arm64; elsewhere it is less).
const HEAP_DISTANCE: u64 = 1 << 30;

/// How mapped memory may be used, or ever could while it was mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protection(pub u8);

impl Protection {
    /// Bits as in `mmap(2)`.
    pub const READ: u8 = 1;
    /// Bits as in `mmap(2)`.
    pub const WRITE: u8 = 2;
    /// Bits as in `mmap(2)`.
    pub const EXECUTE: u8 = 4;

    /// Whether code may run in it.
    #[must_use]
    pub fn executable(self) -> bool {
        self.0 & Self::EXECUTE != 0
    }
}

/// A range of addresses and what lies there. Neighbours from one file at one distance count as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// The offset in the file at `start`.
    pub file_offset: u64,
    /// What was ever allowed.
    pub protection: Protection,
    /// Whether writes are seen by other processes.
    pub shared: bool,
    /// What is mapped.
    pub origin: Arc<Origin>,
}

impl Mapping {
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The offset in the file at `address`, which may lie beyond the mapping.
    pub(super) fn offset_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.file_offset)
    }

    /// Whether both are the same memory as far as names go: of one file at one distance, or of none.
    fn continues(&self, other: &Self) -> bool {
        match (self.origin.is_file(), other.origin.is_file()) {
            (true, true) => {
                self.origin == other.origin
                    && self.shared == other.shared
                    && self.offset_of(0) == other.offset_of(0)
            }
            (false, false) => true,
            _ => false,
        }
    }

    fn part(&self, start: u64, end: u64) -> Self {
        let file_offset = if self.origin.is_file() { self.offset_of(start) } else { 0 };
        Self { start, end, file_offset, ..self.clone() }
    }
}

/// A mapping and when it held.
#[derive(Debug, Clone)]
struct Timed {
    mapping: Mapping,
    from_ns: u64,
    until_ns: u64,
}

/// One address space.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// What holds now: by address, without overlap.
    live: Vec<Timed>,
    /// What was replaced, in the order of replacement.
    past: Vec<Timed>,
    /// The first file that was mapped: the program itself.
    program: Option<Arc<Origin>>,
}

impl Table {
    /// Number of mappings held, past ones included.
    pub(super) fn len(&self) -> usize {
        self.live.len() + self.past.len()
    }

    /// Adds what was mapped at `from_ns`; what it covers ends then.
    pub(super) fn insert(&mut self, mut new: Mapping, mut from_ns: u64) {
        if new.start >= new.end {
            return;
        }
        if self.program.is_none() && new.origin.is_file() {
            self.program = Some(Arc::clone(&new.origin));
        }
        let first = self.live.partition_point(|old| old.mapping.end <= new.start);
        let last = self.live.partition_point(|old| old.mapping.start < new.end).max(first);
        let (start, end, since_ns) = (new.start, new.end, from_ns);
        let mut pieces = Vec::new();
        for Timed { mapping: old, from_ns: old_from_ns, .. } in self.live.drain(first..last) {
            if old.continues(&new) {
                if old.start < new.start {
                    (new.start, new.file_offset) = (old.start, old.file_offset);
                }
                new.end = new.end.max(old.end);
                if new.origin.is_anonymous() {
                    new.origin = old.origin;
                }
                new.protection.0 |= old.protection.0;
                from_ns = from_ns.min(old_from_ns);
                continue;
            }
            let held = |mapping, until_ns| Timed { mapping, from_ns: old_from_ns, until_ns };
            if old.start < start {
                pieces.push(held(old.part(old.start, start), u64::MAX));
            }
            if old.end > end {
                pieces.push(held(old.part(end, old.end), u64::MAX));
            }
            // Memory without a name gives no name to a late question either.
            if old.origin.is_file() {
                self.past.push(held(old.part(old.start.max(start), old.end.min(end)), since_ns));
            }
        }
        pieces.push(Timed { mapping: new, from_ns, until_ns: u64::MAX });
        pieces.sort_by_key(|piece| piece.mapping.start);
        self.live.splice(first..first, pieces);
    }

    /// What was mapped at `address` at that time.
    pub(super) fn find(&self, address: u64, time_ns: u64) -> Option<&Mapping> {
        let index = self.live.partition_point(|timed| timed.mapping.end <= address);
        let live = self.live.get(index).filter(|timed| timed.from_ns <= time_ns).into_iter();
        let held = |timed: &&Timed| (timed.from_ns..timed.until_ns).contains(&time_ns);
        live.chain(self.past.iter().rev().filter(held))
            .map(|timed| &timed.mapping)
            .find(|mapping| mapping.contains(address))
    }

    /// The closest file that is mapped below `address`: what the loader clears behind the end of a file
    /// (`.bss`) belongs to it.
    pub(super) fn file_below(&self, address: u64, time_ns: u64) -> Option<&Mapping> {
        let index = self.live.partition_point(|timed| timed.mapping.start <= address);
        self.live[..index]
            .iter()
            .rev()
            .find(|timed| timed.mapping.origin.is_file() && timed.from_ns <= time_ns)
            .map(|timed| &timed.mapping)
    }

    /// Whether memory without a name that begins at `start` is the heap. The kernel reports it under its
    /// name only from the second time on that it grows.
    pub(super) fn is_heap(&self, start: u64) -> bool {
        let Some(file) = self.file_below(start, u64::MAX) else { return false };
        // What begins right behind the program are its variables.
        let distance = start.saturating_sub(file.end);
        Some(&file.origin) == self.program.as_ref() && (1..=HEAP_DISTANCE).contains(&distance)
    }

    /// Whether anything is mapped in the range now.
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        let index = self.live.partition_point(|timed| timed.mapping.end <= start);
        self.live.get(index).is_some_and(|timed| timed.mapping.start < end)
    }

    /// Forgets the older half of what was replaced; how many that were.
    pub(super) fn forget_past(&mut self) -> usize {
        let count = self.past.len().div_ceil(2);
        self.past.drain(..count);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, file_offset: u64, path: &str) -> Mapping {
        let inode = u64::from(path.starts_with('/'));
        let origin = Arc::new(Origin { path: path.into(), device: 1, inode });
        Mapping { start, end, file_offset, protection: Protection(1), shared: false, origin }
    }

    fn ranges(table: &Table) -> Vec<(u64, u64, u64)> {
        table.live.iter().map(|timed| &timed.mapping).map(|m| (m.start, m.end, m.file_offset)).collect()
    }

    fn path(table: &Table, address: u64, time_ns: u64) -> Option<&str> {
        table.find(address, time_ns).and_then(|mapping| mapping.origin.path.to_str())
    }

    #[test]
    fn borders_belong_to_the_mapping_that_begins_there() {
        let mut table = Table::default();
        table.insert(mapping(0x1000, 0x2000, 0, "/a"), 0);
        table.insert(mapping(0x2000, 0x3000, 0, "/b"), 0);
        assert_eq!(path(&table, 0xfff, 9), None);
        assert_eq!(path(&table, 0x1000, 9), Some("/a"));
        assert_eq!(path(&table, 0x1fff, 9), Some("/a"));
        assert_eq!(path(&table, 0x2000, 9), Some("/b"));
        assert_eq!(path(&table, 0x3000, 9), None);
        assert_eq!(path(&table, u64::MAX, 9), None);
    }

    #[test]
    fn a_mapping_in_the_middle_of_another_leaves_both_ends() {
        let mut table = Table::default();
        table.insert(mapping(0x1000, 0x9000, 0, "/a"), 10);
        table.insert(mapping(0x3000, 0x4000, 0, "/b"), 20);
        assert_eq!(ranges(&table), [(0x1000, 0x3000, 0), (0x3000, 0x4000, 0), (0x4000, 0x9000, 0x3000)]);
        assert_eq!(path(&table, 0x3800, 15), Some("/a"), "what was covered is found at its time");
        assert_eq!(path(&table, 0x3800, 20), Some("/b"));
        assert_eq!(path(&table, 0x4000, 20), Some("/a"));
        assert_eq!(path(&table, 0x1000, 9), None, "nothing held before it was mapped");
    }

    #[test]
    fn parts_of_one_file_at_one_distance_become_one_mapping() {
        let mut table = Table::default();
        table.insert(mapping(0x1000, 0x9000, 0, "/a"), 10);
        let code = Mapping { protection: Protection(5), ..mapping(0x3000, 0x4000, 0x2000, "/a") };
        table.insert(code, 20);
        assert_eq!(ranges(&table), [(0x1000, 0x9000, 0)]);
        assert!(table.find(0x1000, 10).unwrap().protection.executable());
        table.insert(mapping(0x8000, 0xa000, 0x7000, "/a"), 30);
        assert_eq!(ranges(&table), [(0x1000, 0xa000, 0)]);
        table.insert(mapping(0x8000, 0x9000, 0x6000, "/a"), 40);
        assert_eq!(table.live.len(), 3, "at another distance it is another mapping");
        assert_eq!(table.past.len(), 1);
    }

    #[test]
    fn one_mapping_may_cover_several() {
        let mut table = Table::default();
        for start in [0x1000, 0x3000, 0x5000] {
            table.insert(mapping(start, start + 0x1000, 0, "[anon]"), 0);
        }
        table.insert(mapping(0x1800, 0x5800, 0, "/b"), 5);
        let expected = [(0x1000, 0x1800, 0), (0x1800, 0x5800, 0), (0x5800, 0x6000, 0)];
        assert_eq!(ranges(&table), expected);
        assert!(table.past.is_empty(), "memory without a name is not remembered");
    }

    #[test]
    fn the_file_below_is_the_closest_one_even_if_the_address_is_not_mapped() {
        let mut table = Table::default();
        table.insert(mapping(0x1000, 0x2000, 0, "/a"), 0);
        table.insert(mapping(0x3000, 0x4000, 0, "/b"), 0);
        table.insert(mapping(0x4000, 0x5000, 0, "[anon]"), 0);
        let name = |address| table.file_below(address, 1).map(|mapping| mapping.origin.name());
        assert_eq!(name(0x4800).as_deref(), Some("b"));
        assert_eq!(name(0x2800).as_deref(), Some("a"));
        assert_eq!(name(0x800), None);
        assert!(table.overlaps(0x1fff, 0x2000) && !table.overlaps(0x2000, 0x3000));
    }

    #[test]
    fn the_heap_lies_behind_the_program_and_keeps_its_name() {
        let mut table = Table::default();
        assert!(!table.is_heap(0x1000));
        table.insert(mapping(0x1000, 0x2000, 0, "/program"), 0);
        table.insert(mapping(0x8000_0000, 0x9000_0000, 0, "/library"), 0);
        assert!(!table.is_heap(0x2000) && table.is_heap(0x3000));
        assert!(!table.is_heap(0x9000_1000) && !table.is_heap(0x7000_0000));
        table.insert(mapping(0x3000, 0x5000, 0, "[heap]"), 0);
        table.insert(mapping(0x3000, 0x8000, 0, "[anon]"), 5);
        assert_eq!(path(&table, 0x7000, 1), Some("[heap]"));
    }

    #[test]
    fn an_empty_or_falling_range_is_no_mapping() {
        let mut table = Table::default();
        table.insert(mapping(0x1000, 0x1000, 0, "/a"), 0);
        table.insert(mapping(0x2000, 0x1000, 0, "/a"), 0);
        assert_eq!(table.len(), 0);
    }
}
