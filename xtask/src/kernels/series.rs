//! Which kernels are tested, and which Debian suites have them.

/// Kernel versions that begin alike.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    /// Whether the task fails when there is no such kernel to be had.
    pub(super) required: bool,
    /// Where to look, in this order; `None` stands for the suites of this machine's own apt sources.
    pub(super) suites: &'static [Option<&'static str>],
}

const DEFAULT: [Series<'static>; 4] = [
    Series { name: "6.1", required: true, suites: &[None, Some("bookworm"), Some("bookworm-security")] },
    Series { name: "6.12", required: true, suites: &[None, Some("bookworm-backports"), Some("trixie")] },
    // These come and go in Debian's archive.
    Series { name: "5.10", required: false, suites: &[Some("bullseye-security"), Some("bullseye")] },
    Series { name: "7", required: false, suites: &[Some("trixie-backports"), Some("sid")] },
];

const ANYWHERE: &[Option<&str>] = &[
    None,
    Some("trixie-backports"),
    Some("trixie"),
    Some("bookworm-backports"),
    Some("bookworm"),
    Some("bullseye-security"),
];

/// The series that are named, else the default list. One that is asked for by name is required.
pub(super) fn chosen(names: &[String]) -> Vec<Series<'_>> {
    if names.is_empty() {
        return DEFAULT.to_vec();
    }
    let known = |name: &str| DEFAULT.iter().find(|series| series.name == name);
    let suites = |name| known(name).map_or(ANYWHERE, |series| series.suites);
    names.iter().map(|name| Series { name, required: true, suites: suites(name) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_the_promised_kernels_are_required_and_the_others_are_not() {
        let required: Vec<_> = chosen(&[]).into_iter().map(|series| (series.name, series.required)).collect();
        assert_eq!(required, [("6.1", true), ("6.12", true), ("5.10", false), ("7", false)]);
    }

    #[test]
    fn a_kernel_that_is_asked_for_is_required_and_looked_for_everywhere() {
        let names = ["5.10".to_owned(), "6.16".to_owned()];
        let chosen = chosen(&names);
        assert!(chosen.iter().all(|series| series.required));
        assert_eq!(chosen[0].suites, DEFAULT[2].suites);
        assert_eq!(chosen[1].suites, ANYWHERE);
    }
}
