//! Where the parts of a program or library lie, in the file and in memory, and its unwind information.
//! The file is whatever a user ran: nothing that it says is believed before it is checked.

use std::{
    ops::{Deref, Range},
    sync::Arc,
};

use framehop::{Module, ModuleSectionInfo};
use object::{
    Endianness, elf,
    read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _},
};

use super::{file::Image, table::Mapping};

/// Symbol and string tables, and what is packed, of a larger size are not loaded.
const LIMIT_SECTION_BYTES: u64 = 1 << 30;
/// More segments or sections than any linker makes.
const LIMIT_COUNT: usize = 1 << 20;

type Header = elf::FileHeader64<Endianness>;

/// The parts of a file that matter here.
#[derive(Debug)]
pub(super) struct Layout {
    segments: Vec<Segment>,
    unwind: Sections,
    /// Why the symbols of the file must not be read.
    pub(super) hostile: Option<&'static str>,
}

/// A part of the file that the loader maps.
#[derive(Debug)]
struct Segment {
    address: u64,
    size: u64,
    file_offset: u64,
    file_size: u64,
}

/// Addresses and file ranges of the sections that unwinding reads.
#[derive(Debug, Default)]
struct Sections {
    text: Option<Place>,
    got: Option<Place>,
    eh_frame: Option<Place>,
    eh_frame_hdr: Option<Place>,
    debug_frame: Option<Place>,
}

#[derive(Debug, Clone)]
struct Place {
    addresses: Range<u64>,
    bytes: Range<usize>,
}

impl Layout {
    /// Reads the headers of an ELF file of this machine's word size.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let failed = |error: object::Error| format!("it is no 64-bit ELF file: {error}");
        let header = Header::parse(bytes).map_err(failed)?;
        let endian = header.endian().map_err(failed)?;
        if endian != Endianness::Little {
            return Err("it is a big-endian ELF file".to_owned());
        }
        let mut segments = Vec::new();
        for segment in header.program_headers(endian, bytes).map_err(failed)?.iter().take(LIMIT_COUNT) {
            if segment.p_type(endian) == elf::PT_LOAD {
                let address = segment.p_vaddr(endian);
                let size = segment.p_memsz(endian).min(u64::MAX - address);
                let (file_offset, file_size) = segment.file_range(endian);
                segments.push(Segment { address, size, file_offset, file_size });
            }
        }
        let mut unwind = Sections::default();
        let hostile = match header.sections(endian, bytes) {
            Ok(sections) => {
                let place = |name: &[u8]| {
                    let (_, section) = sections.section_by_name(endian, name)?;
                    let compressed = section.sh_flags(endian) & u64::from(elf::SHF_COMPRESSED) != 0;
                    let (offset, size) = section.file_range(endian).filter(|_| !compressed)?;
                    let (first, address) = (usize::try_from(offset).ok()?, section.sh_addr(endian));
                    let range = first..first.checked_add(usize::try_from(size).ok()?)?;
                    bytes.get(range.clone())?;
                    Some(Place { addresses: address..address.checked_add(size)?, bytes: range })
                };
                unwind = Sections {
                    text: place(b".text"),
                    got: place(b".got"),
                    eh_frame: place(b".eh_frame"),
                    eh_frame_hdr: place(b".eh_frame_hdr"),
                    debug_frame: place(b".debug_frame"),
                };
                let mut headers = sections.iter();
                if sections.len() > LIMIT_COUNT {
                    Some("it has too many sections")
                } else {
                    headers.find_map(|section| objection(section, endian, bytes))
                }
            }
            Err(_) => Some("its section headers are damaged"),
        };
        Ok(Self { segments, unwind, hostile })
    }

    /// The address, as the file counts, of an address in or behind a mapping of the file; `None` if no
    /// segment is there.
    pub(super) fn stated_address(&self, mapping: &Mapping, address: u64) -> Option<u64> {
        let offset = mapping.offset_of(address);
        let stated = |segment: &Segment| {
            let stated = offset.wrapping_sub(segment.file_offset).wrapping_add(segment.address);
            (segment.address..segment.address + segment.size).contains(&stated).then_some(stated)
        };
        // A page of the file that holds the end of one segment and the start of the next is mapped twice.
        // What the file holds tells them apart; behind its end, the segment that the mapping begins with.
        let rank = |segment: &Segment| {
            let held = offset.checked_sub(segment.file_offset).is_some_and(|at| at < segment.file_size);
            (!held, segment.file_offset.abs_diff(mapping.file_offset))
        };
        let candidates = self.segments.iter().filter_map(|segment| Some((rank(segment), stated(segment)?)));
        candidates.min().map(|(_, stated)| stated)
    }

    /// Whether there is information on how to get from a function to its caller.
    pub(super) fn can_unwind(&self) -> bool {
        self.unwind.eh_frame.is_some() || self.unwind.debug_frame.is_some()
    }

    /// The same file for the unwinding library, at the addresses that the file states.
    pub(super) fn module(&self, image: &Arc<Image>) -> Module<Section> {
        let first = self.segments.iter().map(|segment| segment.address).min().unwrap_or(0);
        let last = self.segments.iter().map(|segment| segment.address + segment.size).max().unwrap_or(0);
        let sections = Described { image, sections: &self.unwind, first };
        Module::new(String::new(), first..last, first, sections)
    }
}

/// The sections of an image, as the unwinding library asks for them.
struct Described<'a> {
    image: &'a Arc<Image>,
    sections: &'a Sections,
    first: u64,
}

impl Described<'_> {
    fn place(&self, name: &[u8]) -> Option<&Place> {
        let sections = self.sections;
        let place = match name {
            b".text" => &sections.text,
            b".got" => &sections.got,
            b".eh_frame" => &sections.eh_frame,
            b".eh_frame_hdr" => &sections.eh_frame_hdr,
            b".debug_frame" => &sections.debug_frame,
            _ => &None,
        };
        place.as_ref()
    }
}

impl ModuleSectionInfo<Section> for Described<'_> {
    fn base_svma(&self) -> u64 {
        self.first
    }

    fn section_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
        self.place(name).map(|place| place.addresses.clone())
    }

    fn section_data(&mut self, name: &[u8]) -> Option<Section> {
        let range = self.place(name)?.bytes.clone();
        Some(Section { image: Arc::clone(self.image), range })
    }
}

/// What would make the symbol library allocate more than there is.
fn objection(
    section: &elf::SectionHeader64<Endianness>,
    endian: Endianness,
    bytes: &[u8],
) -> Option<&'static str> {
    let (offset, size) = section.file_range(endian)?;
    let limited = matches!(section.sh_type(endian), elf::SHT_SYMTAB | elf::SHT_DYNSYM | elf::SHT_STRTAB);
    let packed = section.compression(endian, bytes);
    match () {
        () if offset.checked_add(size).is_none_or(|end| end > bytes.len() as u64) => {
            Some("a section of it lies outside of the file")
        }
        () if limited && size > LIMIT_SECTION_BYTES => Some("its symbol table is too large"),
        () => match packed {
            Ok(Some((header, _, _))) if header.ch_size.get(endian) > LIMIT_SECTION_BYTES => {
                Some("a packed section of it is too large")
            }
            Ok(_) => None,
            Err(_) => Some("a packed section of it is damaged"),
        },
    }
}

/// The bytes of a section, which keep the file mapped.
#[derive(Debug, Clone)]
pub(super) struct Section {
    image: Arc<Image>,
    range: Range<usize>,
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // The range was checked when the file was read.
        self.image.get(self.range.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::table::{Origin, Protection},
        *,
    };

    #[test]
    fn variables_behind_the_end_of_the_file_belong_to_the_segment_that_is_mapped() {
        // As lld lays out a Rust program: the third segment ends in the page in which the fourth begins.
        let segment =
            |file_offset, address, file_size, size| Segment { address, size, file_offset, file_size };
        let layout = Layout {
            segments: vec![
                segment(0, 0, 0x1b0a9c, 0x1b0a9c),
                segment(0x1b0aa0, 0x1b1aa0, 0x429de0, 0x429de0),
                segment(0x5da880, 0x5dc880, 0x42bd0, 0x43780),
                segment(0x61d450, 0x620450, 0xa10, 0xb38),
            ],
            unwind: Sections::default(),
            hostile: None,
        };
        let stated = |file_offset: u64, address: u64, at: u64| {
            let origin = Arc::new(Origin { path: "/a".into(), device: 1, inode: 1 });
            let (start, end) = (0x7000_0000 + address, 0x7000_0000 + address + 0x1000);
            let protection = Protection(3);
            let mapping = Mapping { start, end, file_offset, protection, shared: false, origin };
            layout.stated_address(&mapping, 0x7000_0000 + at)
        };
        assert_eq!(stated(0x61d000, 0x620000, 0x620e5f), Some(0x620e5f));
        assert_eq!(stated(0x61d000, 0x620000, 0x620e64), Some(0x620e64));
        assert_eq!(stated(0x5da000, 0x5dc000, 0x5dd000), Some(0x5dd000));
        assert_eq!(stated(0x1b0000, 0x1b1000, 0x1b1aa0), Some(0x1b1aa0));
        assert_eq!(stated(0, 0, 0x1b0a9b), Some(0x1b0a9b));
    }

    #[test]
    fn the_test_program_itself_can_be_unwound() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let layout = Layout::parse(&bytes).unwrap();
        assert!(layout.can_unwind() && layout.hostile.is_none());
    }

    #[test]
    fn damaged_files_are_refused_or_read_without_harm() {
        assert!(Layout::parse(b"").is_err());
        assert!(Layout::parse(b"#!/bin/sh\n").is_err());
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        for length in (0..4096).step_by(7) {
            // Cut off behind the header, the program headers may be whole and the sections are not.
            if let Ok(layout) = Layout::parse(&bytes[..length]) {
                assert!(layout.hostile.is_some(), "{length}");
            }
        }
        let mut damaged = bytes[..64].to_vec();
        for position in 0..64 {
            damaged[position] ^= 0xff;
            let _ = Layout::parse(&damaged);
        }
    }
}
