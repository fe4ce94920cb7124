//! The two ways to attach: BTF tracepoints need the kernel's type information, classic tracepoints need the
//! formats in tracefs. One is enough.

use std::path::Path;

use super::{Check, State};
use crate::environment::{file, tracefs as place};

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// First bytes of BTF data in the byte order of the machine (linux/btf.h).
const BTF_MAGIC: u16 = 0xEB9F;

pub(super) fn btf() -> Check {
    judge_btf(read_btf(Path::new(BTF)))
}

/// The size in bytes of readable type information.
fn read_btf(path: &Path) -> Result<u64, String> {
    let reason = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = [0; 2];
    let mut file = std::fs::File::open(path).map_err(reason)?;
    std::io::Read::read_exact(&mut file, &mut bytes).map_err(reason)?;
    if u16::from_ne_bytes(bytes) != BTF_MAGIC {
        return Err(format!("{}: is not BTF", path.display()));
    }
    Ok(file.metadata().map_err(reason)?.len())
}

fn judge_btf(size: Result<u64, String>) -> Check {
    match size {
        Ok(bytes) => {
            Check::optional("kernel BTF", State::Met, format!("{BTF} is readable, {} KiB", bytes / 1024))
        }
        Err(reason) => Check::optional("kernel BTF", State::Unmet, reason)
            .advise("use a kernel with CONFIG_DEBUG_INFO_BTF=y, and make /sys visible in a container"),
    }
}

pub(super) fn tracefs() -> Check {
    let mounts = file::text("/proc/mounts").unwrap_or_default();
    let tried = place::candidates(&mounts).into_iter().map(|root| {
        let proof = place::proof(&root);
        (root.display().to_string(), proof.map(drop))
    });
    judge_tracefs(tried)
}

/// Judges the places in order: the first readable one decides, else the reasons of all.
fn judge_tracefs(tried: impl Iterator<Item = (String, Result<(), String>)>) -> Check {
    let mut reasons = Vec::new();
    for (root, proof) in tried {
        match proof {
            Ok(()) => return Check::optional("tracefs", State::Met, format!("readable at {root}")),
            Err(reason) => reasons.push(reason),
        }
    }
    let refused = reasons.iter().any(|reason| reason.contains("Permission denied"));
    let found = reasons.join("; ");
    if refused {
        Check::optional("tracefs", State::Limited, found).advise(
            "only root or CAP_DAC_READ_SEARCH may read it; not needed as long as kernel BTF is readable",
        )
    } else {
        Check::optional("tracefs", State::Unmet, found)
            .advise("mount it with `sudo mount -t tracefs tracefs /sys/kernel/tracing`")
    }
}

/// Which way would be used.
pub(super) fn attachment(btf: State, tracefs: State) -> Check {
    let name = "attachment";
    match (btf, tracefs) {
        (State::Met, _) => Check::required(name, State::Met, "BTF tracepoints"),
        (_, State::Met) => {
            Check::required(name, State::Limited, "classic tracepoints, since there is no BTF")
                .advise("a kernel with CONFIG_DEBUG_INFO_BTF=y makes looking cheaper")
        }
        (_, State::Limited) => {
            Check::required(name, State::Unmet, "there is no kernel BTF, and tracefs may not be read")
                .advise("run as root, or with CAP_DAC_READ_SEARCH too")
        }
        _ => Check::required(name, State::Unmet, "there is neither kernel BTF nor tracefs").advise(
            "mount tracefs with `sudo mount -t tracefs tracefs /sys/kernel/tracing`, or use a kernel with \
             CONFIG_DEBUG_INFO_BTF=y",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_to_attach_is_enough() {
        assert_eq!(attachment(State::Met, State::Unmet).found, "BTF tracepoints");
        assert_eq!(attachment(State::Unmet, State::Met).state, State::Limited);
        let refused = attachment(State::Unmet, State::Limited);
        assert!(refused.state == State::Unmet && refused.advice.unwrap().starts_with("run as root"));
        let none = attachment(State::Unmet, State::Unmet);
        assert!(none.required && none.state == State::Unmet);
        assert!(none.advice.unwrap().contains("mount -t tracefs tracefs /sys/kernel/tracing"));
    }

    #[test]
    fn the_first_readable_place_is_shown() {
        let tried = [("/a".to_owned(), Err("/a: empty".to_owned())), ("/b".to_owned(), Ok(()))];
        assert_eq!(judge_tracefs(tried.into_iter()).found, "readable at /b");
    }

    #[test]
    fn a_place_that_is_refused_is_not_called_unmounted() {
        let tried = [
            ("/a".to_owned(), Err("/a/id: Permission denied (os error 13)".to_owned())),
            ("/b".to_owned(), Err("/b/id: No such file or directory (os error 2)".to_owned())),
        ];
        let refused = judge_tracefs(tried.clone().into_iter());
        assert_eq!(refused.state, State::Limited);
        let absent = judge_tracefs(tried.into_iter().skip(1));
        assert_eq!(absent.state, State::Unmet);
        assert!(absent.advice.unwrap().contains("mount -t tracefs"));
    }

    #[test]
    fn a_file_that_is_not_btf_is_refused() {
        assert!(read_btf(Path::new("/proc/version")).unwrap_err().ends_with("is not BTF"));
        let absent = judge_btf(read_btf(Path::new("/no/such/file")));
        assert_eq!(absent.state, State::Unmet);
        assert!(absent.advice.unwrap().contains("CONFIG_DEBUG_INFO_BTF"));
    }
}
