//! Quantities as people write them in the queue configuration.
//!
//! A quantity is digits and an optional suffix: `25`, `4G`, `512 Mi`. Memory is counted in bytes
//! and processor time in thousandths of a core, so that `vcore: 2` means 2000 and `vcore: 500m`
//! means 500. There are no signs, fractions or exponents: what can be written can be held exactly.
//!
//! ```
//! use monoceros_rules::values::quantity;
//! assert_eq!(quantity::parse("memory", "4Ki"), Ok(4096));
//! assert_eq!(quantity::parse("vcore", "2"), Ok(2000));
//! assert!(quantity::parse("vcore", "0.5").is_err(), "500m is the spelling");
//! ```

use std::fmt;
use std::sync::Arc;

/// The name whose quantities are counted in thousandths.
const CPU: &str = "vcore";
/// The number from which [`written`] uses suffixes.
const LONG: u64 = 100_000;

/// Why a text is not a quantity. Shown with the resource type, the text as written, a hint how to
/// write it, and the code in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// Not digits with an optional suffix.
    Invalid {
        /// The resource type it was written for.
        resource: String,
        /// The text as written.
        text: String,
    },
    /// A suffix that does not exist, or not for this resource type.
    Suffix {
        /// The resource type it was written for.
        resource: String,
        /// The text as written.
        text: String,
        /// The suffix alone.
        suffix: String,
    },
    /// More than a signed 64-bit number holds, once the suffix is applied.
    Overflow {
        /// The resource type it was written for.
        resource: String,
        /// The text as written.
        text: String,
    },
}

impl QuantityError {
    /// The symbolic code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "E_QTY_INVALID",
            Self::Suffix { .. } => "E_QTY_SUFFIX",
            Self::Overflow { .. } => "E_QTY_OVERFLOW",
        }
    }

    /// The error without its code.
    pub fn message(&self) -> String {
        match self {
            Self::Invalid { resource, text } => {
                let instead = match text.strip_suffix('B') {
                    Some(without) if parse(resource, without).is_ok() => {
                        format!("write `{without}`, without the `B`")
                    }
                    _ => format!(
                        "write digits and at most one suffix, such as {}",
                        if resource == CPU { "`2` or `500m`" } else { "`10` or `4G`" }
                    ),
                };
                format!("`{text}` is not a quantity of `{resource}`: {instead}")
            }
            Self::Suffix { resource, text, suffix } => {
                format!("`{text}` for `{resource}`: {}", suffix_hint(suffix))
            }
            Self::Overflow { resource, text } => {
                let unit = if resource == CPU { " thousandths of a core" } else { "" };
                format!("`{text}` for `{resource}` is more than {}{unit}", i64::MAX)
            }
        }
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message(), self.code())
    }
}

impl std::error::Error for QuantityError {}

/// Reads a quantity of the type `resource`, in its base unit: thousandths of a core for `vcore`,
/// bytes for memory, pieces for every other type.
pub fn parse(resource: &str, text: &str) -> Result<i64, QuantityError> {
    let invalid =
        || QuantityError::Invalid { resource: resource.to_owned(), text: text.to_owned() };
    let overflow =
        || QuantityError::Overflow { resource: resource.to_owned(), text: text.to_owned() };

    let trimmed = text.trim();
    let n_digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = trimmed.split_at(n_digits);
    let suffix = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
    if digits.is_empty() || !looks_like_a_suffix(suffix) {
        return Err(invalid());
    }
    let is_cpu = resource == CPU;
    let Some(multiplier) = multiplier(suffix, is_cpu) else {
        return Err(QuantityError::Suffix {
            resource: resource.to_owned(),
            text: text.to_owned(),
            suffix: suffix.to_owned(),
        });
    };
    // The digits without the suffix have to fit as well.
    let value: i64 = digits.parse().map_err(|_| overflow())?;
    i128::from(value)
        .checked_mul(multiplier)
        .and_then(|scaled| i64::try_from(scaled).ok())
        .ok_or_else(overflow)
}

/// Writes a quantity as people do: as text that [`parse`] reads as `value`, with the largest suffix
/// that expresses it exactly. A negative quantity, which no configuration has, gets a sign.
///
/// ```
/// use monoceros_rules::values::quantity::written;
/// assert_eq!(written("vcore", 2500), "2500m");
/// assert_eq!(written("vcore", 2000), "2");
/// assert_eq!(written("memory", 4 << 30), "4Gi");
/// ```
pub fn written(resource: &str, value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = value.unsigned_abs();
    if resource == CPU {
        return match digits % 1_000 {
            0 => format!("{sign}{}", digits / 1_000),
            _ => format!("{sign}{digits}m"),
        };
    }
    let suffixes = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki", "E", "P", "T", "G", "M", "k"];
    let fitting = suffixes.into_iter().find_map(|suffix| {
        let scale = u64::try_from(multiplier(suffix, false)?).ok()?;
        // Small numbers are read more easily without a suffix.
        (digits >= LONG && digits.is_multiple_of(scale))
            .then(|| format!("{sign}{}{suffix}", digits / scale))
    });
    fitting.unwrap_or_else(|| format!("{sign}{digits}"))
}

/// Writes amounts as a configuration does, for messages about a configuration: `{memory: 8Gi,
/// vcore: 4}`.
///
/// ```
/// use monoceros_rules::values::quantity::all_written;
/// use monoceros_rules::values::resources::Resources;
/// let amounts = Resources::of(&[("vcore", 500), ("memory", 80)]);
/// assert_eq!(all_written(&amounts.sorted()), "{memory: 80, vcore: 500m}");
/// ```
pub fn all_written(amounts: &[(Arc<str>, i64)]) -> String {
    let amount = |(name, value): &(Arc<str>, i64)| format!("{name}: {}", written(name, *value));
    let amounts: Vec<_> = amounts.iter().map(amount).collect();
    format!("{{{}}}", amounts.join(", "))
}

/// Whether the text has the form of a suffix, known or not. A text of any other form is no
/// quantity.
fn looks_like_a_suffix(suffix: &str) -> bool {
    let letter = suffix.strip_suffix('i').unwrap_or(suffix);
    suffix.is_empty() || matches!(letter, "m" | "k" | "K" | "M" | "G" | "T" | "P" | "E")
}

/// Returns the factor of a suffix; `None` if it is not supported.
fn multiplier(suffix: &str, is_cpu: bool) -> Option<i128> {
    let scale: i128 = match suffix {
        "m" => return is_cpu.then_some(1), // already thousandths
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        "Ei" => 1 << 60,
        _ => return None,
    };
    Some(if is_cpu { scale * 1_000 } else { scale })
}

fn suffix_hint(suffix: &str) -> &'static str {
    match suffix {
        "m" => "the suffix `m`, thousandths, is for `vcore` alone",
        "K" => "there is no suffix `K`; write `k` for 1000 or `Ki` for 1024",
        "ki" => "there is no suffix `ki`; write `Ki` for 1024",
        "mi" => "there is no suffix `mi`; write `Mi` for 1048576",
        _ => "the suffixes are k, M, G, T, P, E and Ki, Mi, Gi, Ti, Pi, Ei",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(resource: &str, text: &str) -> &'static str {
        match parse(resource, text) {
            Ok(value) => panic!("`{text}` of {resource} reads as {value}"),
            Err(error) => error.code(),
        }
    }

    #[test]
    fn a_quantity_is_digits_and_a_suffix() {
        for (resource, text, expected) in [
            ("memory", " 25  k ", 25_000),
            ("memory", "9223372036854775807", i64::MAX),
            ("memory", "010", 10),
            ("memory", "0", 0),
            ("memory", "1Ei", 1 << 60),
            ("memory", "9E", 9_000_000_000_000_000_000),
            ("pods", "3\tMi", 3 << 20),
            ("vcore", "10", 10_000),
            ("vcore", "500m", 500),
            ("vcore", "2Ki", 2_048_000),
            ("vcore", "2k", 2_000_000),
            ("vcore", "9223372036854775", 9_223_372_036_854_775_000),
            ("vcore", "9223372036854775807m", i64::MAX),
            ("vcores", "10", 10),
            ("cpu", "10", 10),
            ("Vcore", "10", 10),
        ] {
            assert_eq!(parse(resource, text), Ok(expected), "{resource}: `{text}`");
        }
    }

    #[test]
    fn a_text_that_is_no_quantity_says_why() {
        for (resource, text, expected) in [
            ("memory", "9223372036854775808", "E_QTY_OVERFLOW"),
            ("memory", "1000E", "E_QTY_OVERFLOW"),
            ("memory", "8Ei", "E_QTY_OVERFLOW"),
            ("memory", "500m", "E_QTY_SUFFIX"),
            ("vcores", "500m", "E_QTY_SUFFIX"),
            ("memory", "5X", "E_QTY_INVALID"),
            ("memory", "-1", "E_QTY_INVALID"),
            ("memory", "+1", "E_QTY_INVALID"),
            ("memory", "1.5", "E_QTY_INVALID"),
            ("memory", "1e3", "E_QTY_INVALID"),
            ("memory", "0x10", "E_QTY_INVALID"),
            ("memory", "", "E_QTY_INVALID"),
            ("memory", "  ", "E_QTY_INVALID"),
            ("memory", "k", "E_QTY_INVALID"),
            ("memory", "5 i", "E_QTY_INVALID"),
            ("memory", "5 k i", "E_QTY_INVALID"),
            ("memory", "5kk", "E_QTY_INVALID"),
            ("memory", "٣", "E_QTY_INVALID"),
            ("memory", "4K", "E_QTY_SUFFIX"),
            ("memory", "4ki", "E_QTY_SUFFIX"),
            ("vcore", "4mi", "E_QTY_SUFFIX"),
            ("vcore", "0.5", "E_QTY_INVALID"),
            ("vcore", "9223372036854776", "E_QTY_OVERFLOW"),
            ("vcore", "7E", "E_QTY_OVERFLOW"),
            // The product exceeds even 128 bits, so the multiplication itself has to be checked.
            ("vcore", "9223372036854775807Ei", "E_QTY_OVERFLOW"),
        ] {
            assert_eq!(code(resource, text), expected, "{resource}: `{text}`");
        }
    }

    #[test]
    fn an_error_names_the_type_the_text_and_the_code() {
        let shown = parse("memory", "4K").unwrap_err().to_string();
        assert_eq!(
            shown,
            "`4K` for `memory`: there is no suffix `K`; write `k` for 1000 or `Ki` for 1024 \
             [E_QTY_SUFFIX]"
        );
        for text in ["x", "1m", "9999999999999999999"] {
            let error = parse("memory", text).unwrap_err();
            let shown = error.to_string();
            assert!(shown.contains("`memory`") && shown.contains(text), "{shown}");
            assert!(shown.ends_with(&format!("[{}]", error.code())), "{shown}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_text_is_read_or_refused_and_never_below_zero(text in "\\PC{0,12}") {
            for resource in ["memory", "vcore"] {
                if let Ok(value) = parse(resource, &text) {
                    prop_assert!(value >= 0);
                }
            }
        }

        #[test]
        fn what_is_shown_is_read_as_the_same(value in 0..=i64::MAX, shift in 0..63_u32) {
            for (value, resource) in [(value, "memory"), (value >> shift << shift, "memory"), (value, "vcore")] {
                prop_assert_eq!(parse(resource, &written(resource, value)), Ok(value));
            }
        }

        #[test]
        fn plain_digits_mean_themselves(value in 0..=i64::MAX) {
            prop_assert_eq!(parse("memory", &value.to_string()), Ok(value));
            let millicores = format!("{value}m");
            prop_assert_eq!(parse("vcore", &millicores), Ok(value));
        }
    }
}
