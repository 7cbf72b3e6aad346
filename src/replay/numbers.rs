//! Numbers as a replay's reports have them: rounded for programs, with a unit for people.

const GIB: f64 = (1u64 << 30) as f64;

/// Converts milliseconds to seconds.
pub(crate) fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}

/// Rounds to six decimals.
pub(crate) fn rounded(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

/// Formats a share of 1 in per cent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Formats seconds in the two largest units: `45.2 s`, `3 min 20 s`, `5 h 12 min`, `149 d 8 h`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        let digits = usize::from(seconds.fract() != 0.0);
        return format!("{seconds:.digits$} s");
    }
    // Far below 2^53, so only the fraction is lost.
    #[allow(clippy::cast_possible_truncation, reason = "a duration of a replay")]
    let whole = seconds.round() as i64;
    let (large, size, small, part) = match whole {
        86_400.. => ("d", 86_400, "h", 3600),
        3600.. => ("h", 3600, "min", 60),
        _ => ("min", 60, "s", 1),
    };
    format!("{} {large} {} {small}", whole / size, whole % size / part)
}

/// Returns the name of a resource for people.
pub(crate) fn title(resource: &str) -> &str {
    match resource {
        "vcore" => "CPU",
        "memory" => "Memory",
        "nvidia.com/gpu-milli" => "GPU",
        other => other,
    }
}

/// Formats an amount of a resource × seconds in a unit that people use: core hours, GiB hours, GPU
/// hours. A resource without one is counted in pieces.
pub(crate) fn amount_seconds(resource: &str, value: f64) -> String {
    let (whole, unit) = match resource {
        "vcore" => (1000.0, "core"),
        "nvidia.com/gpu-milli" => (1000.0, "GPU"),
        "memory" | "ephemeral-storage" => (GIB, "GiB"),
        name if name.starts_with("hugepages") => (GIB, "GiB"),
        other => (1.0, other),
    };
    format!("{:.2} {unit} h", value / whole / 3600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_shows_its_two_largest_units() {
        let cases = [
            (0.0, "0 s"),
            (4.25, "4.2 s"),
            (200.0, "3 min 20 s"),
            (18_720.0, "5 h 12 min"),
            (12_902_960.0, "149 d 8 h"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected);
        }
    }
}
