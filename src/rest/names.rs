//! Values in a path: the second decoding, and which names there can be (1.2 and 1.6).

use percent_encoding::percent_decode_str;

/// An escape that is none; the text is the offending one.
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

/// Whether every part of the path could be the name of a queue.
pub(super) fn is_queue_path(path: &str) -> bool {
    path.split('.').all(|part| {
        let fits = |c: u8| c.is_ascii_alphanumeric() || b"_:#/@-".contains(&c);
        (1..=64).contains(&part.len()) && part.bytes().all(fits)
    })
}

/// Whether a user can have this name.
pub(super) fn is_user_name(name: &str) -> bool {
    let name = name.strip_suffix('$').unwrap_or(name);
    is_name(name, b":#/_.@-")
}

/// Whether a group can have this name.
pub(super) fn is_group_name(name: &str) -> bool {
    is_name(name, b":_.-")
}

fn is_name(name: &str, also: &[u8]) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || also.contains(&c))
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

    #[test]
    fn users_and_groups_begin_with_a_letter_or_an_underscore() {
        for name in ["a", "_a", "a:b", "Ann.Doe", "a_1-b"] {
            assert!(is_user_name(name) && is_group_name(name), "{name}");
        }
        for name in ["svc$", "a@b", "a#b", "a/b"] {
            assert!(is_user_name(name) && !is_group_name(name), "{name}");
        }
        for name in ["", "$", "1abc", "-a", "*", "a b", "a$b", "a$$", "ä"] {
            assert!(!is_user_name(name) && !is_group_name(name), "{name}");
        }
    }

    #[test]
    fn parts_of_a_queue_path_have_one_to_64_of_the_allowed_characters() {
        let longest = format!("root.{}", "x".repeat(64));
        for path in ["root", "ROOT.a_b-c", "root.a#b/c@d:e", longest.as_str()] {
            assert!(is_queue_path(path), "{path}");
        }
        let too_long = format!("{longest}x");
        for path in ["", "root.", "root..a", "root.a!", "root.a b", "root.ä", too_long.as_str()] {
            assert!(!is_queue_path(path), "{path}");
        }
    }
}
