//! Which CPUs there are, which of them this process may use, and how many cores those are.

use std::collections::BTreeSet;

use super::{Environment, file, parse_cpu_list};

const CPU_DIRECTORY: &str = "/sys/devices/system/cpu";

pub(super) fn fill(environment: &mut Environment) {
    environment.cpus_online = environment.take("cpus_online", count("online"));
    environment.cpus_possible = environment.take("cpus_possible", count("possible"));
    environment.cpus_usable = environment.take("cpus_usable", usable()).unwrap_or_default();
    let cores = cores(&environment.cpus_usable, |cpu| {
        let topology = format!("{CPU_DIRECTORY}/cpu{cpu}/topology");
        file::text(format!("{topology}/core_cpus_list"))
            // The name before Linux 5.3.
            .or_else(|_| file::text(format!("{topology}/thread_siblings_list")))
    });
    environment.cores_usable = environment.take("cores_usable", cores);
    let smt = file::text(format!("{CPU_DIRECTORY}/smt/active")).map(|text| text == "1");
    environment.smt = environment.take("smt", smt);
}

fn count(list: &str) -> Result<usize, String> {
    let path = format!("{CPU_DIRECTORY}/{list}");
    let text = file::text(&path)?;
    parse_cpu_list(&text).map(|cpus| cpus.len()).map_err(|error| format!("{path}: {error}"))
}

/// The affinity of the calling thread. The mask grows until it holds all CPUs the kernel was built for.
fn usable() -> Result<Vec<usize>, String> {
    let mut words = vec![0_u64; 16];
    loop {
        let bytes = size_of_val(words.as_slice());
        // SAFETY: the kernel writes at most `bytes` bytes to `words`, which owns as many; 0 is this thread.
        let result = unsafe { libc::sched_getaffinity(0, bytes, words.as_mut_ptr().cast()) };
        if result == 0 {
            return Ok(set_bits(&words));
        }
        let error = std::io::Error::last_os_error();
        // EINVAL means that the mask is too short for this kernel.
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= 4096 {
            return Err(format!("sched_getaffinity: {error}"));
        }
        words = vec![0; words.len() * 2];
    }
}

fn set_bits(words: &[u64]) -> Vec<usize> {
    let bit = |index: usize| words[index / 64] >> (index % 64) & 1 == 1;
    (0..words.len() * 64).filter(|&index| bit(index)).collect()
}

/// Number of cores that `cpus` are on; `siblings` gives the list of CPUs that share a core with one CPU.
/// It is asked once for each core.
fn cores(cpus: &[usize], siblings: impl Fn(usize) -> Result<String, String>) -> Result<usize, String> {
    let mut seen = BTreeSet::new();
    let mut cores = 0;
    for &cpu in cpus {
        if !seen.contains(&cpu) {
            let list = siblings(cpu)?;
            seen.extend(parse_cpu_list(&list).map_err(|error| error.to_string())?);
            seen.insert(cpu);
            cores += 1;
        }
    }
    if cores == 0 { Err("the usable CPUs are not known".to_owned()) } else { Ok(cores) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_use_at_least_one_cpu() {
        let cpus = usable().unwrap();
        assert!(!cpus.is_empty() && cpus.is_sorted());
    }

    #[test]
    fn bits_at_the_border_of_a_word_keep_their_number() {
        assert_eq!(set_bits(&[1 << 63 | 1, 1]), [0, 63, 64]);
        assert_eq!(set_bits(&[0, 0]), [0_usize; 0]);
    }

    #[test]
    fn cpus_that_share_a_core_count_as_one_core() {
        let siblings = |cpu: usize| Ok(format!("{},{}", cpu % 2, cpu % 2 + 2));
        assert_eq!(cores(&[0, 1, 2, 3], siblings), Ok(2));
        assert_eq!(cores(&[0, 2], siblings), Ok(1));
        assert_eq!(cores(&[3], siblings), Ok(1));
    }

    #[test]
    fn without_topology_the_number_of_cores_is_unknown() {
        assert_eq!(cores(&[0], |_| Err("no topology".to_owned())), Err("no topology".to_owned()));
        assert!(cores(&[0], |_| Ok("garbage".to_owned())).is_err());
        assert!(cores(&[], |_| Ok("0".to_owned())).is_err());
    }
}
