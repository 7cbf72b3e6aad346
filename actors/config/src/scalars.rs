//! Reads YAML scalars as null, boolean or number.
//!
//! The spellings are those of YAML 1.2 and, in addition, those of 1.1 as read by the Go library
//! that such configurations were written for. A text that loads there means the same here.

const NULLS: [&str; 5] = ["", "~", "null", "Null", "NULL"];

/// Whether a plain scalar is null.
pub(super) fn is_null(text: &str) -> bool {
    NULLS.contains(&text)
}

/// Reads a boolean.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
            Some(true)
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            Some(false)
        }
        _ => None,
    }
}

/// Reads a whole number of 0 or more: decimal, or after `0x`, `0o` or `0b` in another base; a
/// leading zero alone makes it octal too. `_` between digits is ignored, and a leading `+` is
/// allowed.
///
/// ```text
/// 1_000 = 1000    0x10 = 16    0o17 = 017 = 15    0b11 = 3
/// ```
pub(super) fn unsigned(text: &str) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let (base, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'o' | b'O', ..] => (8, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        [b'0', _, ..] => (8, &text[1..]),
        _ => (10, text),
    };
    let digits = digits.replace('_', "");
    // `from_str_radix` would accept a sign here.
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_digits { u64::from_str_radix(&digits, base).ok() } else { None }
}

/// Whether the text is a whole number, negative ones included.
pub(super) fn is_integer(text: &str) -> bool {
    unsigned(text.strip_prefix('-').filter(|rest| !rest.starts_with('+')).unwrap_or(text)).is_some()
}

/// Whether the text is a number.
pub(super) fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_special =
        matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN");
    let is_decimal = unsigned.starts_with(|first: char| first == '.' || first.is_ascii_digit())
        && unsigned.replace('_', "").parse::<f64>().is_ok();
    is_special || is_decimal || is_integer(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_the_spellings_of_both_versions() {
        for (text, expected) in [
            ("0", 0),
            ("00", 0),
            ("7", 7),
            ("+7", 7),
            ("1_000", 1_000),
            ("0x1F", 31),
            ("0X_1f", 31),
            ("0o17", 15),
            ("017", 15),
            ("0_17", 15),
            ("0b101", 5),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(unsigned(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "+",
            "_1",
            "-1",
            "++1",
            "0x",
            "0x+1",
            "0xg",
            "08",
            "0o8",
            "0b2",
            "1.0",
            "1e3",
            "1 ",
            "18446744073709551616",
            "٣",
            "0é",
        ] {
            assert_eq!(unsigned(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_distinguished_from_texts() {
        for text in ["-1", "-0x10", "0", "017"] {
            assert!(is_integer(text) && is_number(text), "{text}");
        }
        for text in ["1.5", "-.5", "1e3", "1_0.5", ".inf", "-.INF", ".nan", "08"] {
            assert!(!is_integer(text) && is_number(text), "{text}");
        }
        for text in ["", "-", "--1", "-+1", "inf", "nan", "-.nan", "1x", "e3", "."] {
            assert!(!is_number(text), "{text}");
        }
    }
}
