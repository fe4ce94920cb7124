//! Whether this process sees its own numbering of processes (PID namespace) or rights (user namespace).

use super::{Environment, file};

/// Inode of the machine's first PID namespace, `PROC_PID_INIT_INO` in the kernel's `include/linux/proc_ns.h`.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// Inode of the machine's first user namespace, `PROC_USER_INIT_INO` in the same place.
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

pub(super) fn fill(environment: &mut Environment) {
    let status = file::text("/proc/self/status").unwrap_or_default();
    let nested = is_nested(&status, inode("pid"));
    environment.pid_namespace = environment.take("pid_namespace", nested);
}

/// `/proc` of an outer namespace shows one number for each level; `/proc` of our own shows one, and then
/// only the namespace's inode tells.
fn is_nested(status: &str, inode: Result<u64, String>) -> Result<bool, String> {
    let levels = file::field(status, "NSpid").map_or(0, |numbers| numbers.split_whitespace().count());
    if levels > 1 { Ok(true) } else { Ok(inode? != FIRST_PID_NAMESPACE) }
}

/// Whether our rights are those of a user namespace, which do not reach the BPF system call.
pub(crate) fn in_user_namespace() -> bool {
    // A kernel without user namespaces has no such file.
    inode("user").is_ok_and(|inode| inode != FIRST_USER_NAMESPACE)
}

fn inode(kind: &str) -> Result<u64, String> {
    let path = format!("/proc/self/ns/{kind}");
    let link = std::fs::read_link(&path).map_err(|error| format!("{path}: {error}"))?;
    let link = link.to_string_lossy();
    parse_inode(&link).ok_or_else(|| format!("{path}: unexpected content {link:?}"))
}

/// The number in `pid:[4026531836]`.
fn parse_inode(link: &str) -> Option<u64> {
    link.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_namespace_is_not_nested() {
        assert_eq!(is_nested("NSpid:\t6218\n", Ok(4_026_531_836)), Ok(false));
    }

    #[test]
    fn several_numbers_or_another_inode_mean_a_nested_namespace() {
        assert_eq!(is_nested("NSpid:\t6218\t1\n", Ok(4_026_531_836)), Ok(true));
        assert_eq!(is_nested("NSpid:\t1\n", Ok(4_026_532_198)), Ok(true));
        assert_eq!(is_nested("NSpid:\t6218\t1\n", Err("hidden".to_owned())), Ok(true));
    }

    #[test]
    fn without_the_inode_one_number_decides_nothing() {
        assert_eq!(is_nested("NSpid:\t1\n", Err("hidden".to_owned())), Err("hidden".to_owned()));
        assert_eq!(is_nested("", Err("hidden".to_owned())), Err("hidden".to_owned()));
    }

    #[test]
    fn the_inode_is_the_number_in_brackets() {
        assert_eq!(parse_inode("pid:[4026531836]"), Some(4_026_531_836));
        for garbage in ["", "pid:", "pid:[]", "pid:[x]", "pid:[1"] {
            assert_eq!(parse_inode(garbage), None, "{garbage:?}");
        }
    }
}
