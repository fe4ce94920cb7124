//! Leaves the DWARF sections out of an eBPF object. They are needed only while BTF is made from them,
//! and would be seven eighths of the checked-in file; `strip` programs for eBPF are not everywhere.

use anyhow::Result;
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

/// `object` without its `.debug_*` sections and their relocations; BTF stays.
pub(super) fn without_dwarf(object: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(object)?;
    for section in &mut builder.sections {
        section.delete |= is_dwarf(&section.name.to_string());
    }
    builder.delete_orphans();
    if builder.sections.iter().all(|section| !matches!(section.data, SectionData::SectionString)) {
        // LLVM keeps the names of sections and symbols in one table, the builder in two.
        let names = builder.sections.add();
        names.name = ".shstrtab".into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

fn is_dwarf(section: &str) -> bool {
    section.strip_prefix(".rel").unwrap_or(section).starts_with(".debug_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn btf_and_programs_are_no_dwarf() {
        for name in [".BTF", ".rel.BTF.ext", "tp_btf/sched_switch", ".reltp_btf/sched_switch", ".rodata"] {
            assert!(!is_dwarf(name), "{name}");
        }
        assert!(is_dwarf(".debug_info") && is_dwarf(".rel.debug_info"));
    }
}
