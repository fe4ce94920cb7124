//! Where tracefs can really be read: at a mount the system names, or at one of the two usual places.
//! That a directory exists says nothing: `/sys/kernel/tracing` is there, and empty, without a mount.

use std::path::{Path, PathBuf};

use super::cgroup::unescape;
use super::file;

/// The file whose content proves that events can be read.
const PROOF: &str = "events/sched/sched_switch/id";

/// The first place at which `events/sched/sched_switch/id` can be read.
#[must_use]
pub fn find() -> Option<PathBuf> {
    find_in(&file::text("/proc/mounts").unwrap_or_default(), |root| proof(root).is_ok())
}

/// The first candidate of the `/proc/mounts` text that `is_usable`.
pub fn find_in(mounts: &str, is_usable: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    candidates(mounts).into_iter().find(|root| is_usable(root))
}

/// Reads the number of the event `sched_switch` under `root`.
///
/// # Errors
/// The file and what the system said, or what else it contained.
pub fn proof(root: &Path) -> Result<u32, String> {
    file::value(root.join(PROOF))
}

/// Where tracefs may be: its mounts, then `tracing` in the mounts of debugfs (where the kernel mounts it on the
/// first access), then the usual paths. Each once.
#[must_use]
pub fn candidates(mounts: &str) -> Vec<PathBuf> {
    let of_kind = |wanted: &'static str| {
        mounts.lines().filter_map(move |line| {
            let mut fields = line.split(' ').skip(1);
            let (point, kind) = (fields.next()?, fields.next()?);
            (kind == wanted).then(|| PathBuf::from(unescape(point)))
        })
    };
    let usual = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let mut paths = Vec::new();
    for path in
        of_kind("tracefs").chain(of_kind("debugfs").map(|debugfs| debugfs.join("tracing"))).chain(usual)
    {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\ntracefs /mnt/my\\040trace tracefs rw 0 0\n\
                          none /dbg debugfs rw 0 0\n";

    #[test]
    fn mounts_that_the_system_names_come_before_the_usual_places() {
        let paths = ["/mnt/my trace", "/dbg/tracing", "/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        assert_eq!(candidates(MOUNTS), paths.map(PathBuf::from));
    }

    #[test]
    fn a_usual_place_is_named_once() {
        let mounts = "tracefs /sys/kernel/tracing tracefs rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0";
        assert_eq!(candidates(mounts).len(), 2);
    }

    #[test]
    fn an_empty_directory_does_not_hide_the_mount_under_debugfs() {
        let found = find_in("", |path| path == Path::new("/sys/kernel/debug/tracing"));
        assert_eq!(found, Some(PathBuf::from("/sys/kernel/debug/tracing")));
    }

    #[test]
    fn nothing_readable_is_none() {
        assert_eq!(find_in(MOUNTS, |_| false), None);
        assert_eq!(find_in("garbage\n\n  \n", |_| false), None);
        assert!(proof(Path::new("/no/such/place")).unwrap_err().contains("/no/such/place/events"));
    }
}
