//! Amounts in the units that people read: cores, bytes with a prefix, pieces.
//!
//! # Why beside `quantity`
//! [`quantity::written`](super::quantity::written) is exact, so that a configuration can be read
//! again: it writes 2 GiB and 1 byte as `2147483649`. This module writes bytes with at most two
//! decimals, rounded up.
//!
//! ```
//! use monoceros_rules::values::readable::{amounts, of_most};
//! use monoceros_rules::values::resources::Resources;
//!
//! let ask = Resources::of(&[("memory", 3 << 29), ("vcore", 1000), ("nvidia.com/gpu", 2)]);
//! assert_eq!(amounts(&ask), "1 core, 1.5 GiB of memory and 2 nvidia.com/gpu");
//! assert_eq!(of_most("memory", 39 << 30, 40 << 30), "39 of 40 GiB");
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::resources::Resources;

const CORES: &str = "vcore";
const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Returns the name of the type in a sentence.
pub fn title(name: &str) -> &str {
    if name == CORES { "cores" } else { name }
}

/// Words every amount of a value, cores and memory first: `1 core and 1.5 GiB of memory`. An amount
/// that has to be rounded is rounded up.
pub fn amounts(resources: &Resources) -> String {
    let named = by_weight(resources);
    let texts = named.iter().map(|(name, quantity)| amount(name, *quantity));
    enumeration(&texts.collect::<Vec<_>>())
}

/// Words one amount of a type: `1.5 GiB of memory`.
pub fn amount(name: &str, quantity: i64) -> String {
    match kind(name) {
        Kind::Cores => cores(quantity),
        Kind::Bytes => format!("{} of {name}", bytes(quantity)),
        // Kubernetes uses this name for the number of pods.
        Kind::Pieces if (name, quantity) == ("pods", 1) => "1 pod".to_owned(),
        Kind::Pieces => format!("{quantity} {name}"),
    }
}

/// Words usage and maximum of one type, with the unit once if both have the same: `39 of 40 GiB`,
/// `16 GiB of 1 TiB`.
pub fn of_most(name: &str, used: i64, most: i64) -> String {
    match kind(name) {
        Kind::Cores => format!("{} of {}", decimal(used, 1_000), decimal(most, 1_000)),
        Kind::Pieces => format!("{used} of {most}"),
        Kind::Bytes => {
            let (of_used, of_most) = (unit_of(used), unit_of(most));
            let of_used = if used == 0 { of_most } else { of_used };
            let of_most = if most == 0 { of_used } else { of_most };
            let first = if of_used == of_most { String::new() } else { format!(" {}", of_used.1) };
            let (used, most) = (decimal(used, of_used.0), decimal(most, of_most.0));
            format!("{used}{first} of {most} {}", of_most.1)
        }
    }
}

/// Words one amount without the name of its type and without a space, for a cell of a table:
/// `1.5GiB`.
pub fn short(name: &str, quantity: i64) -> String {
    match kind(name) {
        Kind::Cores => decimal(quantity, 1_000),
        Kind::Pieces => quantity.to_string(),
        Kind::Bytes => {
            let (scale, unit) = unit_of(quantity);
            format!("{}{unit}", decimal(quantity, scale))
        }
    }
}

/// Words usage and maximum without a space: `39/40GiB`, `16GiB/1TiB`.
pub fn short_of(name: &str, used: i64, most: i64) -> String {
    of_most(name, used, most).replace(" of ", "/").replace(' ', "")
}

/// Words a duration in its two largest units: `2 min 27 s`.
pub fn span(duration: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = duration.as_secs();
    if seconds == 0 {
        return format!("{} ms", duration.subsec_millis());
    }
    let largest = UNITS.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(UNITS.len() - 1);
    let (unit, name) = UNITS[largest];
    let rest = UNITS.get(largest + 1).map(|(small, name)| (seconds % unit / small, name));
    match rest.filter(|(rest, _)| *rest > 0) {
        Some((rest, small)) => format!("{} {name} {rest} {small}", seconds / unit),
        None => format!("{} {name}", seconds / unit),
    }
}

/// Joins texts into a list as in a sentence: `a, b and c`.
pub fn enumeration(texts: &[String]) -> String {
    match texts {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the entries of a value in the order in which people read them: cores, memory, the others
/// by name.
pub fn by_weight(resources: &Resources) -> Vec<(Arc<str>, i64)> {
    let mut named = resources.sorted();
    // A stable sort: the others stay in order of their names.
    named.sort_by_key(|(name, _)| match &**name {
        CORES => 0,
        "memory" => 1,
        _ => 2,
    });
    named
}

enum Kind {
    Cores,
    Bytes,
    Pieces,
}

fn kind(name: &str) -> Kind {
    match name {
        CORES => Kind::Cores,
        "memory" | "ephemeral-storage" => Kind::Bytes,
        name if name.starts_with("hugepages") => Kind::Bytes,
        _ => Kind::Pieces,
    }
}

fn cores(thousandths: i64) -> String {
    let number = decimal(thousandths, 1_000);
    let noun = if number == "1" { "core" } else { "cores" };
    format!("{number} {noun}")
}

fn bytes(quantity: i64) -> String {
    let (scale, unit) = unit_of(quantity);
    format!("{} {unit}", decimal(quantity, scale))
}

/// The size and the name of the largest unit of which there is at least one.
fn unit_of(quantity: i64) -> (i64, &'static str) {
    let (mut scale, mut unit) = (1_i64, UNITS[0]);
    for larger in &UNITS[1..] {
        if quantity.unsigned_abs() < scale.unsigned_abs() * 1024 {
            break;
        }
        (scale, unit) = (scale * 1024, larger);
    }
    (scale, unit)
}

/// Words a fraction: exactly in thousandths if `scale` is 1,000, else with at most two decimals,
/// rounded away from zero.
fn decimal(quantity: i64, scale: i64) -> String {
    let (parts, digits) = if scale == 1_000 { (1_000, 3) } else { (100, 2) };
    let scale = i128::from(scale);
    let rounded = (i128::from(quantity.unsigned_abs()) * parts + scale - 1) / scale;
    let sign = if quantity < 0 { "-" } else { "" };
    let (whole, rest) = (rounded / parts, rounded % parts);
    let rest = format!("{rest:0digits$}");
    match rest.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        rest => format!("{sign}{whole}.{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_its_two_largest_units() {
        let shown = [0, 59, 60, 147, 3_600, 90_061].map(|s| span(Duration::from_secs(s)));
        assert_eq!(shown, ["0 ms", "59 s", "1 min", "2 min 27 s", "1 h", "1 d 1 h"]);
        assert_eq!(span(Duration::from_millis(250)), "250 ms");
    }

    #[test]
    fn amounts_have_the_units_that_a_person_reads() {
        for (name, quantity, text) in [
            ("vcore", 1_000, "1 core"),
            ("vcore", 2_500, "2.5 cores"),
            ("vcore", 1, "0.001 cores"),
            ("vcore", 1_250, "1.25 cores"),
            ("vcore", -3_000, "-3 cores"),
            ("memory", 512, "512 B of memory"),
            ("memory", 2 << 30, "2 GiB of memory"),
            ("memory", (2 << 30) + 1, "2.01 GiB of memory"),
            ("memory", 1023, "1023 B of memory"),
            ("memory", i64::MAX, "8192 PiB of memory"),
            ("hugepages-2Mi", 4 << 20, "4 MiB of hugepages-2Mi"),
            ("ephemeral-storage", 3 << 40, "3 TiB of ephemeral-storage"),
            ("nvidia.com/gpu", 3, "3 nvidia.com/gpu"),
            ("pods", 1, "1 pod"),
            ("pods", i64::MIN, "-9223372036854775808 pods"),
        ] {
            assert_eq!(amounts(&Resources::of(&[(name, quantity)])), text);
        }
    }

    #[test]
    fn cores_and_memory_come_first() {
        let all = Resources::of(&[("a", 1), ("memory", 1 << 20), ("vcore", 4_000), ("z", 2)]);
        assert_eq!(amounts(&all), "4 cores, 1 MiB of memory, 1 a and 2 z");
        assert_eq!(amounts(&Resources::new()), "nothing");
    }

    #[test]
    fn used_and_most_have_the_unit_once_if_it_is_the_same() {
        assert_eq!(of_most("memory", 39 << 30, 40 << 30), "39 of 40 GiB");
        assert_eq!(of_most("memory", 512 << 20, 4 << 30), "512 MiB of 4 GiB");
        assert_eq!(of_most("memory", 16 << 30, 1 << 40), "16 GiB of 1 TiB");
        assert_eq!(of_most("memory", 3 << 39, 900 << 30), "1.5 TiB of 900 GiB");
        assert_eq!(of_most("memory", 0, 4 << 30), "0 of 4 GiB");
        assert_eq!(of_most("memory", 4 << 30, 0), "4 of 0 GiB");
        assert_eq!(of_most("vcore", 20_000, 20_000), "20 of 20");
        assert_eq!(of_most("pods", 3, 5), "3 of 5");
    }

    #[test]
    fn a_cell_of_a_table_has_no_space() {
        for (name, quantity, text) in
            [("vcore", 1_500, "1.5"), ("memory", 3 << 29, "1.5GiB"), ("pods", 7, "7")]
        {
            assert_eq!(short(name, quantity), text);
        }
        assert_eq!(short_of("memory", 512 << 20, 4 << 30), "512MiB/4GiB");
        assert_eq!(short_of("vcore", 500, 20_000), "0.5/20");
    }
}
