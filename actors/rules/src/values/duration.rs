//! Durations as queue properties write them, `1h30m` or `250ms`, and as REST shows them, `15m0s`.
//!
//! Resource managers and their operators write durations as Go does. No maintained crate both reads
//! and writes that form; hence these few lines.
//!
//! ```
//! use std::time::Duration;
//! use monoceros_rules::values::duration::{self, Shown};
//! assert_eq!(duration::parse("1.5h"), Ok(Duration::from_secs(5400)));
//! assert_eq!(Shown(Duration::from_secs(5400)).to_string(), "1h30m0s");
//! ```

use std::fmt;
use std::time::Duration;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a sequence of numbers, each with its unit.
    #[error("`{0}` is not a duration: write numbers with units, such as `30s` or `1h30m`")]
    Invalid(String),
    /// A negative duration.
    #[error("the duration `{0}` is below zero")]
    Negative(String),
    /// More than 2^63 − 1 nanoseconds, some 292 years.
    #[error("the duration `{0}` is longer than 292 years")]
    TooLong(String),
}

/// Reads a sign and one or more decimal numbers, each followed by `ns`, `us`, `µs`, `ms`, `s`, `m`
/// or `h`; a bare `0` needs no unit. Parts of a nanosecond are dropped.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let too_long = || DurationError::TooLong(text.to_owned());

    let (is_negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if unsigned == "0" {
        return Ok(Duration::ZERO);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let mut nanos: u64 = 0;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (whole, after) = leading_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => leading_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_length = after.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, after) = after.split_at(unit_length.unwrap_or(after.len()));
        let unit = nanos_of(unit).ok_or_else(invalid)?;
        nanos = scaled(whole, fraction, unit)
            .and_then(|part| nanos.checked_add(part))
            .filter(|sum| i64::try_from(*sum).is_ok())
            .ok_or_else(too_long)?;
        rest = after;
    }
    if is_negative && nanos > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    Ok(Duration::from_nanos(nanos))
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn nanos_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // U+00B5 micro sign and U+03BC Greek mu look the same.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Returns `whole.fraction` units in nanoseconds; `None` if that is too long.
fn scaled(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // An hour has less than 10^13 ns: digits beyond the 18th add less than a nanosecond.
    let fraction = &fraction[..fraction.len().min(18)];
    let mut part: u128 = 0;
    let mut divisor: u128 = 1;
    for digit in fraction.bytes() {
        part = part * 10 + u128::from(digit - b'0');
        divisor *= 10;
    }
    let part = u64::try_from(part * u128::from(unit) / divisor).ok()?;
    whole.checked_mul(unit)?.checked_add(part)
}

/// Writes a duration in the canonical form: `0s`, `250ms`, `1.5s`, `15m0s`, `1h0m0s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown(pub Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => return write!(f, "{nanos}ns"),
            1_000..1_000_000 => return write_decimal(f, nanos, 1_000, "\u{b5}s"),
            1_000_000..NANOS_PER_SECOND => return write_decimal(f, nanos, 1_000_000, "ms"),
            _ => {}
        }
        let minutes = nanos / (60 * NANOS_PER_SECOND);
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        write_decimal(f, nanos % (60 * NANOS_PER_SECOND), NANOS_PER_SECOND, "s")
    }
}

/// `nanos` in units of `unit` nanoseconds, without trailing zeros after the point.
fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: u128, unit: u128, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    if !nanos.is_multiple_of(unit) {
        let width = unit.ilog10() as usize;
        let digits = format!("{:0width$}", nanos % unit);
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_exactly() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+0s", 0),
            ("30s", 30_000_000_000),
            ("+30s", 30_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("300ms", 300_000_000),
            ("2us", 2_000),
            ("2\u{b5}s", 2_000),
            ("2\u{3bc}s", 2_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1s1s", 2_000_000_000),
            ("0.0000000001h", 360),
            ("0.9ns", 0),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "`{text}`");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "-", "10", "xxxx", "1 s", "s", ".s", "1.2.3s", "1d", "--1s", "1sm", "1e3s"]
        {
            assert_eq!(parse(text), Err(DurationError::Invalid(text.to_owned())), "`{text}`");
        }
        assert!(matches!(parse("-1s"), Err(DurationError::Negative(_))));
        for text in ["9223372036854775808ns", "2562048h", "99999999999999999999s"] {
            assert_eq!(parse(text), Err(DurationError::TooLong(text.to_owned())), "`{text}`");
        }
    }

    #[test]
    fn durations_are_shown_in_canonical_form() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5\u{b5}s"),
            (250_000_000, "250ms"),
            (1_500_000_000, "1.5s"),
            (30_000_000_000, "30s"),
            (60_000_000_000, "1m0s"),
            (900_000_000_000, "15m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_000_000_001, "25h1m1.000000001s"),
        ] {
            assert_eq!(Shown(Duration::from_nanos(nanos)).to_string(), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_is_shown_reads_back(nanos in 0..=i64::MAX.unsigned_abs()) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&Shown(duration).to_string()), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.nuµmsh]{0,16}") {
            let _ = parse(&text);
        }
    }
}
