//! Names of code made at run time, from the file `perf-PID.map` that language runtimes write for perf.

use std::{
    fs::{self, OpenOptions},
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    time::SystemTime,
};

/// More of such a file is not read.
const LIMIT_BYTES: u64 = 64 << 20;

/// The functions that a process made, at the time when the file was last read.
#[derive(Debug, Default)]
pub(super) struct Jit {
    functions: Vec<Function>,
    changed: Option<(u64, SystemTime)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    size: u64,
    name: Box<str>,
}

impl Jit {
    /// The name of the function at an address, and the distance from its start.
    pub(super) fn find(&mut self, pid: i32, address: u64) -> Option<(&str, u64)> {
        if self.at(address).is_none() {
            self.read(pid);
        }
        self.at(address)
    }

    fn at(&self, address: u64) -> Option<(&str, u64)> {
        let count = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(count.checked_sub(1)?)?;
        let distance = address - function.start;
        (distance < function.size).then_some((&*function.name, distance))
    }

    /// Reads the file if it has changed.
    fn read(&mut self, pid: i32) {
        // The process counts in its own namespace; after its end only the name by our count is left.
        let inner = inner_pid(pid).unwrap_or(pid);
        let paths = [format!("/proc/{pid}/root/tmp/perf-{inner}.map"), format!("/tmp/perf-{pid}.map")];
        // The directory is everyone's: neither a link nor a named pipe may be followed.
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
        let open = |path| OpenOptions::new().read(true).custom_flags(flags).open(path).ok();
        let Some(file) = paths.iter().find_map(open) else { return };
        let Some(metadata) = file.metadata().ok().filter(fs::Metadata::is_file) else { return };
        let changed = metadata.modified().ok().map(|time| (metadata.len(), time));
        if changed.is_some() && changed == self.changed {
            return;
        }
        let mut bytes = Vec::new();
        if file.take(LIMIT_BYTES).read_to_end(&mut bytes).is_ok() {
            *self = Self { functions: parse(&bytes), changed };
        }
    }
}

fn inner_pid(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// Lines of `START SIZE NAME`, both numbers hexadecimal (the kernel's `jit-interface.txt`); of two with
/// one start the later holds.
fn parse(bytes: &[u8]) -> Vec<Function> {
    let mut functions: Vec<Function> = bytes.split(|byte| *byte == b'\n').filter_map(line).collect();
    functions.reverse();
    functions.sort_by_key(|function| function.start);
    functions.dedup_by_key(|function| function.start);
    functions
}

fn line(bytes: &[u8]) -> Option<Function> {
    let text = String::from_utf8_lossy(bytes);
    let mut fields = text.trim().splitn(3, ' ');
    let mut number = || {
        let field = fields.next()?;
        u64::from_str_radix(field.strip_prefix("0x").unwrap_or(field), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = fields.next().filter(|name| !name.is_empty())?;
    Some(Function { start, size, name: name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_inside_and_not_behind() {
        let functions = parse(b"1000 10 old\n2000 8 LazyCompile:~a b.js:1\n0x1000 20 new\nx y z\n3 4\n\n");
        let jit = Jit { functions, changed: None };
        assert_eq!(jit.functions.len(), 2);
        assert_eq!(jit.at(0x101f), Some(("new", 0x1f)));
        assert_eq!(jit.at(0x1020), None);
        assert_eq!(jit.at(0xfff), None);
        assert_eq!(jit.at(0x2000), Some(("LazyCompile:~a b.js:1", 0)));
    }

    #[test]
    fn garbage_gives_no_function() {
        assert!(parse(b"\xff\xfe \0 \n- - -\nffffffffffffffffff 1 a\n").is_empty());
        let jit = Jit { functions: parse(b"ffffffffffffffff ffffffffffffffff end\n"), changed: None };
        assert_eq!(jit.at(u64::MAX), Some(("end", 0)));
    }
}
