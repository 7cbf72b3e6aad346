//! Durations in settings: a number of seconds, or a text with units.
//!
//! Older configurations have numbers, and people read `1m30s` more easily than 90.

use std::fmt;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Parses `90`, `1.5`, `90s`, `1m30s`, `200ms` or `2h`.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let letters = &rest[digits..];
        let end = letters.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(letters.len());
        let unit = match &letters[..end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        sum = sum.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
        rest = &letters[end..];
    }
    (!text.is_empty()).then_some(sum)
}

/// Parses like [`parse`], with the reason as `Err`.
pub fn read(text: &str) -> Result<Duration, String> {
    parse(text).ok_or_else(|| not_a_span(&text))
}

/// Deserializes a duration, for `deserialize_with`.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(Seconds)
}

struct Seconds;

impl Visitor<'_> for Seconds {
    type Value = Duration;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number of seconds or a text such as `200ms`, `90s`, `2m` or `1h`")
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Duration, E> {
        Ok(Duration::from_secs(seconds))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
        let seconds = u64::try_from(seconds).map_err(|_| wrong(&seconds))?;
        Ok(Duration::from_secs(seconds))
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
        Duration::try_from_secs_f64(seconds).map_err(|_| wrong(&seconds))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).ok_or_else(|| wrong(&text))
    }
}

fn wrong<E: Error>(value: &dyn fmt::Display) -> E {
    E::custom(not_a_span(value))
}

fn not_a_span(value: &dyn fmt::Display) -> String {
    format!("`{value}` is not a span of time (a number of seconds, `200ms`, `90s`, `2m` or `1h`)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds_or_have_units() {
        for (text, ms) in [
            ("90", 90_000),
            ("0.2", 200),
            ("200ms", 200),
            ("2m", 120_000),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "-1", "soon", "5 minutes", "1d", "s", "1e400", "nan"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
