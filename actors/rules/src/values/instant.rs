//! Points in time: as text for people, and shifted by a duration.
//!
//! Only one text format is needed, and only to write it: a crate for calendars would be more code
//! than it saves.
//!
//! ```
//! # use monoceros_rules::values::instant::rfc3339;
//! assert_eq!(rfc3339(1_792_324_800_250_000_000), "2026-10-18T12:00:00.25Z");
//! ```

use std::time::Duration;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 24 * 60 * 60;

/// Returns a time, in ns since the epoch, as RFC 3339 in UTC. Its fraction of a second has as many
/// digits as needed, and at least one.
pub fn rfc3339(ns: i64) -> String {
    let (seconds, fraction) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    let (year, month, day) = date(seconds.div_euclid(DAY_S));
    let of_day = seconds.rem_euclid(DAY_S);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let fraction = format!("{fraction:09}");
    let fraction = fraction.trim_end_matches('0');
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction}Z")
}

/// Returns a time as [`rfc3339`], in whole milliseconds, rounded down.
pub fn rfc3339_ms(ns: i64) -> String {
    rfc3339(ns.saturating_sub(ns.rem_euclid(1_000_000)))
}

/// Returns two times as [`rfc3339_ms`]; if both are in one millisecond, with all their digits.
pub fn rfc3339_apart(one_ns: i64, other_ns: i64) -> (String, String) {
    let is_apart = one_ns.div_euclid(1_000_000) != other_ns.div_euclid(1_000_000);
    let text = if is_apart { rfc3339_ms } else { rfc3339 };
    (text(one_ns), text(other_ns))
}

/// Returns the time that is `delay` after `ns`, in ns since the epoch.
pub fn after(ns: i64, delay: Duration) -> i64 {
    ns.saturating_add(i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX))
}

/// Returns year, month and day of month of a day, given in days since the epoch.
fn date(mut day: i64) -> (i64, i64, i64) {
    // Times of 64 bits end in 2262, so the loop over years is short.
    let mut year = 1970;
    while day < 0 {
        year -= 1;
        day += days_of(year);
    }
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    (year, month, day + 1)
}

fn days_of(year: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if is_leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc_with_the_digits_that_they_have() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00.0Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_782_400 * SECOND_NS, "2000-02-29T00:00:00.0Z"),
            (951_868_800 * SECOND_NS, "2000-03-01T00:00:00.0Z"),
            (1_709_251_199 * SECOND_NS + 5_000_000, "2024-02-29T23:59:59.005Z"),
            (4_107_542_400 * SECOND_NS, "2100-03-01T00:00:00.0Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
        ] {
            assert_eq!(rfc3339(ns), text);
        }
    }

    #[test]
    fn a_sentence_has_milliseconds_unless_two_times_differ_by_less() {
        assert_eq!(rfc3339_ms(SECOND_NS + 250_745_921), "1970-01-01T00:00:01.25Z");
        assert_eq!(rfc3339_ms(-1), "1969-12-31T23:59:59.999Z");
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        assert_eq!(
            rfc3339_apart(1_000_001, 2_000_001),
            pair("1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z")
        );
        assert_eq!(
            rfc3339_apart(1_000_001, 1_000_002),
            pair("1970-01-01T00:00:00.001000001Z", "1970-01-01T00:00:00.001000002Z")
        );
    }
}
