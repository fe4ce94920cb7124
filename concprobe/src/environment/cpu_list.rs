//! Lists of CPU numbers as the kernel and people write them: `0-3,8`.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

/// Highest CPU number that is accepted: no Linux port allows a larger `CONFIG_NR_CPUS` than 8192.
pub const HIGHEST_CPU: usize = 8191;

/// Reads a list of CPU numbers and ranges, such as `0-3,8`; sorted, each number once.
///
/// # Errors
/// An empty list or entry, something that is no number, a range that falls, or a number above
/// [`HIGHEST_CPU`], which keeps `0-4294967295` from filling the memory.
pub fn parse_cpu_list(text: &str) -> Result<Vec<usize>> {
    let text = text.trim();
    if text.is_empty() {
        bail!("an empty CPU list: give CPU numbers such as 0-3,8");
    }
    let mut cpus = BTreeSet::new();
    for entry in text.split(',').map(str::trim) {
        let (first, last) = match entry.split_once('-') {
            Some((first, last)) => (parse_cpu(first, text)?, parse_cpu(last, text)?),
            None => {
                let cpu = parse_cpu(entry, text)?;
                (cpu, cpu)
            }
        };
        if first > last {
            bail!("CPU list {text:?}: the range {entry} falls; write {last}-{first}");
        }
        cpus.extend(first..=last);
    }
    Ok(cpus.into_iter().collect())
}

fn parse_cpu(number: &str, list: &str) -> Result<usize> {
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        bail!("CPU list {list:?}: {number:?} is not a CPU number; write for example 0-3,8");
    }
    match number.parse() {
        Ok(cpu) if cpu <= HIGHEST_CPU => Ok(cpu),
        _ => bail!("CPU list {list:?}: {number} is above {HIGHEST_CPU}, the highest CPU number Linux has"),
    }
}

/// Writes a sorted list of CPU numbers in the kernel's way, `0-3,8`.
#[must_use]
pub fn format_cpu_list(cpus: &[usize]) -> String {
    cpus.chunk_by(|left, right| left.checked_add(1) == Some(*right))
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(ToString::to_string).collect(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them_are_read() {
        assert_eq!(parse_cpu_list("0\n").unwrap(), [0]);
        assert_eq!(parse_cpu_list("0-31").unwrap(), (0..32).collect::<Vec<_>>());
        assert_eq!(parse_cpu_list("0,2-3").unwrap(), [0, 2, 3]);
    }

    #[test]
    fn the_result_is_sorted_and_holds_each_cpu_once() {
        assert_eq!(parse_cpu_list("3,1,2-3,1, 0").unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", " ", ",", "0,", ",0", "0,,1", "a", "1-", "-1", "1-2-3", "+1", "0x1", "1.5", "٣"] {
            assert!(parse_cpu_list(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_falling_range_is_refused_with_the_right_order() {
        let message = parse_cpu_list("3-1").unwrap_err().to_string();
        assert_eq!(message, "CPU list \"3-1\": the range 3-1 falls; write 1-3");
    }

    #[test]
    fn a_range_above_the_highest_cpu_is_refused_before_it_is_expanded() {
        for text in ["0-4294967295", "8192", "0-18446744073709551616", "99999999999999999999999"] {
            assert!(parse_cpu_list(text).unwrap_err().to_string().contains("above 8191"), "{text}");
        }
        assert_eq!(parse_cpu_list("0-8191").unwrap().len(), 8192);
    }

    #[test]
    fn writing_a_list_and_reading_it_gives_the_same_cpus() {
        assert_eq!(format_cpu_list(&[]), "");
        assert_eq!(format_cpu_list(&[5]), "5");
        assert_eq!(format_cpu_list(&[0, 1, 2, 4, 6, 7]), "0-2,4,6-7");
        assert_eq!(parse_cpu_list("0-2,4,6-7").unwrap(), [0, 1, 2, 4, 6, 7]);
    }
}
