//! Reads `/proc/PID/maps`, the format of `proc_pid_maps(5)`.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    os::unix::ffi::OsStringExt as _,
};

use super::table::{ANONYMOUS, Origin, Protection};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) file_offset: u64,
    pub(super) protection: Protection,
    pub(super) shared: bool,
    pub(super) origin: Origin,
}

/// More is not read: the kernel allows 65,530 mappings unless told otherwise, of about 100 bytes each.
const LIMIT_BYTES: u64 = 64 << 20;

/// The mappings of a process that exists.
///
/// # Errors
/// What the system says; a process that has ended has none, which is no error.
pub(super) fn read(pid: i32) -> io::Result<Vec<Line>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/maps"))?.take(LIMIT_BYTES).read_to_end(&mut bytes)?;
    Ok(parse(&bytes).collect())
}

/// The lines that can be read as such.
pub(super) fn parse(bytes: &[u8]) -> impl Iterator<Item = Line> {
    bytes.split(|byte| *byte == b'\n').filter_map(line)
}

fn line(bytes: &[u8]) -> Option<Line> {
    let mut rest = bytes;
    let mut field = || {
        let length = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (field, behind) = rest.split_at(length);
        rest = behind.strip_prefix(b" ").unwrap_or(behind);
        str::from_utf8(field).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let flags = field()?.as_bytes();
    let file_offset = field()?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let number = |text| u32::from_str_radix(text, 16).ok();
    let mut protection = 0;
    for (index, letter, bit) in
        [(0, b'r', Protection::READ), (1, b'w', Protection::WRITE), (2, b'x', Protection::EXECUTE)]
    {
        protection |= if *flags.get(index)? == letter { bit } else { 0 };
    }
    Some(Line {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        file_offset: hexadecimal(file_offset)?,
        protection: Protection(protection),
        shared: *flags.get(3)? == b's',
        origin: Origin {
            path: path(rest.trim_ascii_start()),
            device: libc::makedev(number(major)?, number(minor)?),
            inode,
        },
    })
}

/// The name of a mapping as the tables of this module have it.
fn path(bytes: &[u8]) -> std::path::PathBuf {
    if bytes.is_empty() {
        return ANONYMOUS.into();
    }
    let mut name = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    // The kernel writes a line feed in a name as `\012` and leaves all else as it is.
    while let Some(at) = rest.windows(4).position(|window| window == b"\\012") {
        name.extend_from_slice(&rest[..at]);
        name.push(b'\n');
        rest = &rest[at + 4..];
    }
    name.extend_from_slice(rest);
    OsString::from_vec(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Line {
        let lines: Vec<Line> = parse(text.as_bytes()).collect();
        assert_eq!(lines.len(), 1, "{text}");
        lines.into_iter().next().unwrap()
    }

    #[test]
    fn a_file_is_read_with_all_its_fields() {
        let line = one("7f10a000-7f10b000 r-xs 00026000 fd:01 1310747   /usr/lib/x y/libc.so.6");
        assert_eq!((line.start, line.end, line.file_offset), (0x7f10_a000, 0x7f10_b000, 0x26000));
        assert_eq!(line.protection, Protection(Protection::READ | Protection::EXECUTE));
        assert!(line.shared);
        assert_eq!(line.origin.path.to_str(), Some("/usr/lib/x y/libc.so.6"));
        assert_eq!((line.origin.device, line.origin.inode), (libc::makedev(0xfd, 1), 1_310_747));
        assert_eq!(line.origin.name(), "libc.so.6");
    }

    #[test]
    fn memory_that_is_no_file_keeps_its_name() {
        assert_eq!(one("1000-2000 rw-p 0 00:00 0 ").origin.path.to_str(), Some("[anon]"));
        assert_eq!(one("1000-2000 rw-p 0 00:00 0").origin.path.to_str(), Some("[anon]"));
        let line = one("1000-2000 rw-p 00000000 00:00 0                          [heap]\n");
        assert_eq!(line.origin.path.to_str(), Some("[heap]"));
        assert!(!line.origin.is_file() && !line.shared);
    }

    #[test]
    fn the_highest_addresses_are_read() {
        let line = one("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]");
        assert_eq!(line.start, 0xffff_ffff_ff60_0000);
        assert!(line.protection.executable());
    }

    #[test]
    fn a_line_feed_in_a_name_is_restored() {
        assert_eq!(one("1-2 r--p 0 8:1 7 /a\\012b\\013").origin.path.to_str(), Some("/a\nb\\013"));
    }

    #[test]
    fn what_is_no_line_is_left_out() {
        for text in [
            "",
            "\n\n",
            "1000",
            "1000-2000",
            "1000-2000 rw",
            "1000-2000 rw- 0 0:0 0",
            "x-y rw-p 0 0:0 0 /a",
            "1000-2000 rw-p 0 0 0 /a",
            "1000-2000 rw-p 0 0:0 -1 /a",
            "11111111111111111-2 rw-p 0 0:0 0",
            "\u{fffd}",
        ] {
            assert_eq!(parse(text.as_bytes()).count(), 0, "{text:?}");
        }
        assert_eq!(parse(b"\xff-\xff \xff\n1-2 r--p 0 0:0 0 \xff\n").count(), 1);
    }

    #[test]
    fn this_process_has_code_and_a_stack() {
        let lines = read(std::process::id().cast_signed()).unwrap();
        let here = this_process_has_code_and_a_stack as fn() as usize as u64;
        let code = lines.iter().find(|line| (line.start..line.end).contains(&here)).unwrap();
        assert!(code.protection.executable() && code.origin.is_file());
        assert!(lines.iter().any(|line| line.origin.path.to_str() == Some("[stack]")));
    }
}
