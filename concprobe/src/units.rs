//! Figures as people read them.

/// With thousands separated: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits and the unit that fits: `29.3 ns`, `8.70 µs`, `1.02 s`.
pub fn duration_ns(ns: u64) -> String {
    picoseconds(ns as f64 * 1e3)
}

/// The same, from picoseconds.
pub fn per_op_ps(ps: u64) -> String {
    picoseconds(ps as f64)
}

fn picoseconds(ps: f64) -> String {
    let (value, unit) = match ps {
        _ if ps == 0.0 => return "0 ns".to_owned(),
        _ if ps < 1e6 => (ps / 1e3, "ns"),
        _ if ps < 1e9 => (ps / 1e6, "µs"),
        _ if ps < 1e12 => (ps / 1e9, "ms"),
        _ => (ps / 1e12, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// A part of one as a percentage: `99.98 %`; never `100 %` or `0 %` for what is not quite that.
pub fn share(part: f64) -> String {
    let percent = part * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent < 0.01 {
        "<0.01 %".to_owned()
    } else if percent > 99.99 && percent < 100.0 {
        ">99.99 %".to_owned()
    } else if (0.05..=99.95).contains(&percent) {
        format!("{percent:.1} %")
    } else if percent == 100.0 {
        "100 %".to_owned()
    } else {
        format!("{percent:.2} %")
    }
}

/// Bytes in MiB: `12.3 MiB`.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (10_000_000, "10,000,000")] {
            assert_eq!(count(value), text);
        }
    }

    #[test]
    fn durations_have_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (1, "1.00 ns"),
            (29, "29.0 ns"),
            (8_695, "8.70 µs"),
            (57_000_000, "57.0 ms"),
            (1_020_000_000, "1.02 s"),
        ] {
            assert_eq!(duration_ns(ns), text);
        }
        assert_eq!(per_op_ps(1_800), "1.80 ns");
    }

    #[test]
    fn a_share_is_not_rounded_to_all_or_nothing() {
        for (part, text) in [
            (0.0, "0 %"),
            (1.0, "100 %"),
            (0.999_99, ">99.99 %"),
            (0.000_001, "<0.01 %"),
            (0.5, "50.0 %"),
            (0.9998, "99.98 %"),
        ] {
            assert_eq!(share(part), text, "{part}");
        }
    }
}
