//! Values in a path are decoded twice: once by the router, once here.
//!
//! Clients encode names twice, to get a `/` past servers that decode before they route. A name that
//! was encoded once reads the same after both, unless it has a `%` or a `+` in it.

use percent_encoding::percent_decode_str;

/// A `%` without two hexadecimal digits behind it, and what is there instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URL escape {0:?}")]
pub(super) struct BadEscape(String);

/// Decodes a value that the router decoded once already: clients encode queue, user and group
/// names twice, to get a `/` past servers that decode before they route. As in forms, `+` is a
/// space.
pub(super) fn decoded_again(value: &str) -> Result<String, BadEscape> {
    let mut rest = value;
    while let Some(at) = rest.find('%') {
        let escape: String = rest[at..].chars().take(3).collect();
        if escape.len() != 3 || !escape[1..].bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(BadEscape(escape));
        }
        rest = &rest[at + 3..];
    }
    let spaced = value.replace('+', " ");
    Ok(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_decoding_is_like_that_of_a_form() {
        for (value, decoded) in [
            ("root.a%2Fb", "root.a/b"),
            ("root.a/b", "root.a/b"),
            ("a+b%2B", "a b+"),
            ("%C3%A4ä", "ää"),
            ("", ""),
        ] {
            assert_eq!(decoded_again(value).as_deref(), Ok(decoded));
        }
    }

    #[test]
    fn a_bad_escape_is_quoted() {
        for (value, message) in [
            ("a%Ztb", r#"invalid URL escape "%Zt""#),
            ("a%2", r#"invalid URL escape "%2""#),
            ("%", r#"invalid URL escape "%""#),
            ("%41%4ä", r#"invalid URL escape "%4ä""#),
        ] {
            assert_eq!(decoded_again(value).unwrap_err().to_string(), message);
        }
    }
}
