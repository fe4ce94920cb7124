//! The files that were mapped: opened when first needed, kept open, and mapped into this process.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    ops::Deref,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use super::{elf::Layout, proc_maps, table::Origin};

/// Open files that are kept; naming may open each of them once more, and 1,024 are allowed by default.
const LIMIT_FILES: usize = 300;
/// A file that could not be opened for one process is tried again for others, so many times.
const LIMIT_TRIES: u32 = 4;
/// Larger files are no programs.
const LIMIT_BYTES: u64 = 16 << 30;

/// The content of a mapped file.
#[derive(Debug)]
pub(super) struct Image {
    /// A number of this image's own.
    pub(super) number: u32,
    /// The open file, unless it is code that the kernel provides.
    pub(super) file: Option<File>,
    content: Content,
    layout: OnceLock<Result<Layout, Arc<str>>>,
}

#[derive(Debug)]
enum Content {
    Mapped(memmap2::Mmap),
    Copied(Vec<u8>),
}

impl Deref for Image {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.content {
            Content::Mapped(map) => map,
            Content::Copied(bytes) => bytes,
        }
    }
}

impl Image {
    /// How the program or library is laid out; the reason if it is none.
    pub(super) fn layout(&self) -> Result<&Layout, Arc<str>> {
        self.layout.get_or_init(|| Layout::parse(self).map_err(Arc::from)).as_ref().map_err(Arc::clone)
    }
}

/// The files opened so far, and those that could not be.
#[derive(Debug, Default)]
pub(super) struct Files {
    by_origin: HashMap<Arc<Origin>, Slot>,
    opened: u32,
}

#[derive(Debug)]
enum Slot {
    Open(Arc<Image>),
    Refused { reason: Arc<str>, pid: i32, tries: u32 },
}

impl Files {
    /// The file behind a mapping of a process; the reason if there is none that could be used.
    pub(super) fn get(&mut self, pid: i32, origin: &Arc<Origin>) -> Result<Arc<Image>, Arc<str>> {
        let mut tries = 0;
        match self.by_origin.get(origin) {
            Some(Slot::Open(image)) => return Ok(Arc::clone(image)),
            Some(Slot::Refused { reason, pid: refused, tries: before })
                if *refused == pid || *before >= LIMIT_TRIES =>
            {
                return Err(Arc::clone(reason));
            }
            Some(Slot::Refused { tries: before, .. }) => tries = *before,
            None => (),
        }
        if self.opened as usize >= LIMIT_FILES {
            return Err(format!("not opened: {LIMIT_FILES} files are open already").into());
        }
        let slot = match open(pid, origin) {
            Ok((file, content)) => {
                self.opened += 1;
                Slot::Open(Arc::new(Image { number: self.opened, file, content, layout: OnceLock::new() }))
            }
            Err(reason) => Slot::Refused { reason: reason.into(), pid, tries: tries + 1 },
        };
        let result = match &slot {
            Slot::Open(image) => Ok(Arc::clone(image)),
            Slot::Refused { reason, .. } => Err(Arc::clone(reason)),
        };
        self.by_origin.insert(Arc::clone(origin), slot);
        result
    }
}

fn open(pid: i32, origin: &Origin) -> Result<(Option<File>, Content), String> {
    if origin.path == Path::new("[vdso]") {
        let bytes = vdso().map_err(|error| format!("the kernel's own code cannot be read: {error}"))?;
        return Ok((None, Content::Copied(bytes)));
    }
    if !origin.is_file() {
        return Err("it is no file".to_owned());
    }
    let file = open_file(pid, origin)?;
    // SAFETY: the mapping is private and read-only. A file that shrinks meanwhile would end this process
    // with SIGBUS as it would end the program that runs from it.
    let map =
        unsafe { memmap2::Mmap::map(&file) }.map_err(|error| format!("it cannot be mapped: {error}"))?;
    Ok((Some(file), Content::Mapped(map)))
}

fn open_file(pid: i32, origin: &Origin) -> Result<File, String> {
    let path = origin.path.strip_prefix("/");
    let mut reason = "it has no path".to_owned();
    if let Ok(relative) = path {
        // The first is right in every mount namespace, the second also when the process has ended.
        for path in [PathBuf::from(format!("/proc/{pid}/root")).join(relative), origin.path.clone()] {
            match open_same(&path, origin) {
                Ok(file) => return Ok(file),
                Err(error) => reason = error,
            }
        }
    }
    // The kernel's own link to a mapped file needs no name, and exists as long as the mapping does.
    for line in proc_maps::read(pid).unwrap_or_default() {
        if line.origin.inode == origin.inode && line.origin.device == origin.device {
            let link = format!("/proc/{pid}/map_files/{:x}-{:x}", line.start, line.end);
            if let Ok(file) = open_same(Path::new(&link), origin) {
                return Ok(file);
            }
        }
    }
    Err(reason)
}

/// Opens a file if it is the one that was mapped. Inodes are compared and devices not: some file systems
/// (btrfs, overlay) give another device to `stat(2)` than to the kernel's reports.
fn open_same(path: &Path, origin: &Origin) -> Result<File, String> {
    // Without O_NONBLOCK a named pipe that has taken the place of the file would keep this process waiting.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "it was deleted, or its process ended in another mount namespace".to_owned()
        }
        _ => format!("it cannot be opened: {error}"),
    })?;
    let metadata = file.metadata().map_err(|error| format!("it cannot be examined: {error}"))?;
    match () {
        () if !metadata.is_file() => Err("it is no regular file".to_owned()),
        () if metadata.ino() != origin.inode => Err("another file has taken its place".to_owned()),
        () if metadata.len() == 0 => Err("it is empty".to_owned()),
        () if metadata.len() > LIMIT_BYTES => Err("it is too large for a program".to_owned()),
        () => Ok(file),
    }
}

/// The code that the kernel maps into every process; that of this process is the same.
fn vdso() -> io::Result<Vec<u8>> {
    let lines = proc_maps::read(std::process::id().cast_signed())?;
    let line = lines.iter().find(|line| line.origin.path == Path::new("[vdso]"));
    let line = line.ok_or(io::ErrorKind::NotFound)?;
    let mut memory = File::open("/proc/self/mem")?;
    memory.seek(SeekFrom::Start(line.start))?;
    let mut bytes = Vec::new();
    memory.take(line.end.saturating_sub(line.start)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
