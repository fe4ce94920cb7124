//! In what the two sides differ: a comparison tells about one variable only where one differs.

use std::collections::BTreeMap;

use crate::environment::{Environment, format_cpu_list};

/// The parameters in which two sides differ, each with both values. What only one side has belongs to its
/// workload, which differs already.
pub(super) fn of_parameters(
    left: &BTreeMap<String, String>,
    right: &BTreeMap<String, String>,
) -> Vec<String> {
    left.iter()
        .filter_map(|(name, value)| {
            let other = right.get(name)?;
            (other != value).then(|| format!("{name} ({value} / {other})"))
        })
        .collect()
}

/// What differs between the machines, as far as it decides what things cost.
pub(super) fn of_machines(left: &Environment, right: &Environment) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    [
        ("concprobe", left.concprobe_version.clone(), right.concprobe_version.clone()),
        ("kernel", text(&left.kernel_release), text(&right.kernel_release)),
        ("libc", text(&left.libc_version), text(&right.libc_version)),
        ("CPU", text(&left.cpu_model), text(&right.cpu_model)),
        ("usable CPUs", format_cpu_list(&left.cpus_usable), format_cpu_list(&right.cpus_usable)),
        ("governor", text(&left.governor), text(&right.governor)),
        ("virtualisation", text(&left.virtualisation), text(&right.virtualisation)),
        ("clock source", text(&left.clock_source), text(&right.clock_source)),
    ]
    .into_iter()
    .filter(|(_, left, right)| left != right)
    .map(|(name, left, right)| format!("{name} ({left} / {right})"))
    .collect()
}

/// The places in which two commands differ, by word.
pub(super) fn of_commands(left: &str, right: &str) -> Vec<String> {
    let left: Vec<&str> = left.split_whitespace().collect();
    let right: Vec<&str> = right.split_whitespace().collect();
    let common = common_words(&left, &right);
    let mut found = Vec::new();
    let (mut from_left, mut from_right) = (0, 0);
    for (to_left, to_right) in common.into_iter().chain([(left.len(), right.len())]) {
        let (one, other) = (&left[from_left..to_left], &right[from_right..to_right]);
        if one.len() == other.len() {
            // Word against word: each is a variable of its own.
            found.extend(one.iter().zip(other).map(|(one, other)| format!("{one} / {other}")));
        } else {
            let words =
                |words: &[&str]| if words.is_empty() { "nothing".to_owned() } else { words.join(" ") };
            found.push(format!("{} / {}", words(one), words(other)));
        }
        (from_left, from_right) = (to_left + 1, to_right + 1);
    }
    found
}

/// Positions of a longest common subsequence.
fn common_words(left: &[&str], right: &[&str]) -> Vec<(usize, usize)> {
    let mut longest = vec![vec![0_u32; right.len() + 1]; left.len() + 1];
    for (row, one) in left.iter().enumerate().rev() {
        for (column, other) in right.iter().enumerate().rev() {
            longest[row][column] = if one == other {
                longest[row + 1][column + 1] + 1
            } else {
                longest[row + 1][column].max(longest[row][column + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut common = Vec::new();
    while row < left.len() && column < right.len() {
        if left[row] == right[column] {
            common.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if longest[row + 1][column] >= longest[row][column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_differ_are_named() {
        for (left, right, expected) in [
            ("sort a", "sort a", vec![]),
            ("gzip -1 file", "gzip -9 file", vec!["-1 / -9"]),
            ("gzip -1 file", "xz -9 file", vec!["gzip / xz", "-1 / -9"]),
            ("make -j 4 all", "make all", vec!["-j 4 / nothing"]),
            ("a x b y c", "a z b w c", vec!["x / z", "y / w"]),
            ("old", "LD_PRELOAD=x.so old", vec!["nothing / LD_PRELOAD=x.so"]),
        ] {
            assert_eq!(of_commands(left, right), expected, "{left} | {right}");
        }
    }

    #[test]
    fn only_parameters_that_both_have_can_differ() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let (left, right) =
            (map(&[("threads", "2"), ("workers", "1")]), map(&[("threads", "4"), ("delay", "1s")]));
        assert_eq!(of_parameters(&left, &right), ["threads (2 / 4)"]);
    }
}
