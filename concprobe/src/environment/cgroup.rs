//! Finds the control groups that limit this process: its own and every one above it that is visible.
//! Both versions, also mixed, with the mount points and roots that `/proc/self/mountinfo` names.

use std::path::{Component, Path, PathBuf};

/// One control group directory that may hold a limit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level {
    pub(super) directory: PathBuf,
    /// Whether the files are those of version 2.
    pub(super) unified: bool,
}

/// The directories for `controller` (`cpu`, `pids`), each hierarchy from our own group upwards, given
/// `/proc/self/cgroup` and `/proc/self/mountinfo` (formats: cgroups(7), `proc_pid_mountinfo(5)`).
pub(super) fn levels(cgroups: &str, mountinfo: &str, controller: &str) -> Vec<Level> {
    let mut levels = Vec::new();
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let unified = hierarchy == "0" && controllers.is_empty();
        if !unified && !controllers.split(',').any(|name| name == controller) {
            continue;
        }
        let mount = mountinfo.lines().filter_map(Mount::parse).find(|mount| {
            if unified { mount.kind == "cgroup2" } else { mount.kind == "cgroup" && mount.has(controller) }
        });
        if let Some(mount) = mount {
            levels.extend(mount.upwards(group).map(|directory| Level { directory, unified }));
        }
    }
    levels
}

struct Mount<'a> {
    root: String,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (unescape(left.next()?), PathBuf::from(unescape(left.next()?)));
        let mut right = right.split(' ');
        let (kind, _source, options) = (right.next()?, right.next()?, right.next()?);
        Some(Self { root, point, kind, options })
    }

    fn has(&self, controller: &str) -> bool {
        self.options.split(',').any(|option| option == controller)
    }

    /// The directory of `group` and those above it, up to the mount point. A group outside of what is
    /// mounted (another namespace's view) leaves the mount point alone.
    fn upwards(&self, group: &str) -> impl Iterator<Item = PathBuf> {
        let inside = Path::new(group)
            .strip_prefix(&self.root)
            .ok()
            .filter(|path| path.components().all(|part| matches!(part, Component::Normal(_))))
            .unwrap_or(Path::new(""));
        let directory =
            if inside.as_os_str().is_empty() { self.point.clone() } else { self.point.join(inside) };
        let depth = inside.components().count() + 1;
        std::iter::successors(Some(directory), |path| path.parent().map(Path::to_path_buf)).take(depth)
    }
}

/// Undoes the octal escapes of the mount tables (`\040` is a space).
pub(super) fn unescape(field: &str) -> String {
    let mut text = field.to_owned();
    for (escape, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        text = text.replace(escape, plain);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 23 0:28 /docker/ab /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids";

    fn directories(cgroups: &str, mountinfo: &str, controller: &str) -> Vec<String> {
        levels(cgroups, mountinfo, controller)
            .into_iter()
            .map(|level| level.directory.display().to_string())
            .collect()
    }

    #[test]
    fn version_2_goes_from_our_group_to_the_root() {
        assert_eq!(
            directories("0::/user.slice/my app.scope\n", V2, "cpu"),
            ["/sys/fs/cgroup/user.slice/my app.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]
        );
        assert_eq!(directories("0::/", V2, "pids"), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn version_1_is_found_by_controller() {
        let cgroups = "4:pids:/docker/ab/job\n2:cpu,cpuacct:/batch\n1:name=systemd:/\n";
        assert_eq!(
            directories(cgroups, V1, "cpu"),
            ["/sys/fs/cgroup/cpu,cpuacct/batch", "/sys/fs/cgroup/cpu,cpuacct"]
        );
        assert_eq!(directories(cgroups, V1, "pids"), ["/sys/fs/cgroup/pids/job", "/sys/fs/cgroup/pids"]);
        assert_eq!(directories("3:cpuset:/batch", V1, "cpu"), [""; 0]);
    }

    #[test]
    fn both_versions_side_by_side_are_both_walked() {
        let all = levels("1:cpu:/\n0::/\n", &format!("{V1}\n{V2}"), "cpu");
        assert_eq!(all.iter().map(|level| level.unified).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_group_outside_of_the_mounted_part_leaves_the_mount_point() {
        assert_eq!(directories("0::/../other", V2, "cpu"), ["/sys/fs/cgroup"]);
        assert_eq!(directories("4:pids:/elsewhere", V1, "pids"), ["/sys/fs/cgroup/pids"]);
    }

    #[test]
    fn garbage_gives_no_level() {
        assert_eq!(directories("", "", "cpu"), [""; 0]);
        assert_eq!(directories("nonsense\n0::", "a - b\n - \n", "cpu"), [""; 0]);
    }
}
