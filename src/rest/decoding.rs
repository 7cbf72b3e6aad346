//! The second decoding of a value in a path. The router does the first.
//!
//! Clients encode names twice, so that a `/` passes servers that decode before they route. A name
//! that was encoded once stays the same in the second decoding, unless it contains `%` or `+`.

use percent_encoding::percent_decode_str;

/// A `%` that two hexadecimal digits do not follow, with the following characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URL escape {0:?}")]
pub(super) struct BadEscape(String);

/// Decodes a value that the router has decoded once. As in forms, `+` is a space.
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
    fn the_second_decoding_is_that_of_forms() {
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
