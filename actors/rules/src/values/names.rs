//! Valid names of queues, users and groups.
//!
//! All patterns of names are here, because configurations, placements of applications and reads
//! must follow the same ones. They are written by hand, because some are checked for every
//! application.
//!
//! ```
//! use monoceros_rules::values::names;
//!
//! assert!(names::is_queue_name("team:a/b") && !names::is_queue_name("a.b"));
//! assert!(names::is_user("ada@example.org") && !names::is_group("ada@example.org"));
//! ```

/// The queue of applications that already run and for which no other queue is found.
pub const RECOVERY: &str = "root.@recovery@";

/// The longest name of a queue, in bytes, all of which are ASCII.
const LONGEST_QUEUE: usize = 64;

/// The most levels of queues that are created for applications, root included: about as many as a
/// configuration can have, and few enough for all code that follows them.
pub const MOST_LEVELS: usize = 60;

/// Returns a text of unknown origin as messages show it: on one line, and cut if it is long.
pub fn shown(text: &str) -> String {
    const MOST: usize = 100;
    let start: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    match text.chars().count() {
        count if count > MOST => format!("{start}… ({count} characters)"),
        _ => start,
    }
}

/// Whether a queue can have this name: `^[a-zA-Z0-9_:#/@-]{1,64}$`.
pub fn is_queue_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_:#/@-".contains(&byte);
    (1..=LONGEST_QUEUE).contains(&name.len()) && name.bytes().all(allowed)
}

/// Whether every part of the path can be the name of a queue.
pub fn is_queue_path(path: &str) -> bool {
    path.split('.').all(is_queue_name)
}

/// Whether it is a whole path: it begins with `root.`, in any case, since names of queues ignore
/// case.
pub fn is_whole_path(path: &str) -> bool {
    path.get(..5).is_some_and(|root| root.eq_ignore_ascii_case("root."))
}

/// Whether it is the name of [`RECOVERY`], in any case.
pub fn is_reserved(name: &str) -> bool {
    RECOVERY.strip_prefix("root.").is_some_and(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// Whether a user can have this name: `^[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?$`.
pub fn is_user(name: &str) -> bool {
    begins_with_letter_and_has(name.strip_suffix('$').unwrap_or(name), b":#/_.@-")
}

/// Whether a group can have this name: `^[_a-zA-Z][a-zA-Z0-9:_.-]*$`.
pub fn is_group(name: &str) -> bool {
    begins_with_letter_and_has(name, b":_.-")
}

/// Whether an access list can name the user: `^[_a-zA-Z][a-zA-Z0-9_.@-]*[$]?$`, which is narrower
/// than elsewhere.
pub fn is_user_of_acl(name: &str) -> bool {
    begins_with_letter_and_has(name.strip_suffix('$').unwrap_or(name), b"_.@-")
}

/// Whether an access list can name the group: `^[_a-zA-Z][a-zA-Z0-9_-]*$`, which is narrower than
/// elsewhere.
pub fn is_group_of_acl(name: &str) -> bool {
    begins_with_letter_and_has(name, b"_-")
}

/// Whether a placement rule can have this name: `^[_a-zA-Z][a-zA-Z0-9_]*$`.
pub fn is_rule(name: &str) -> bool {
    begins_with_letter_and_has(name, b"_")
}

/// Whether the first character is a letter or `_`, and each later one a letter, `_`, a digit or one
/// of `others`.
fn begins_with_letter_and_has(name: &str, others: &[u8]) -> bool {
    name.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn what_is_shown_is_one_line_of_bearable_length() {
        assert_eq!(shown("ada"), "ada");
        assert_eq!(shown("a\nb\u{7}"), r"a\nb\u{7}");
        let long = shown(&"x".repeat(10_000));
        assert!(long.len() < 130 && long.ends_with("… (10000 characters)"), "{long}");
    }

    type Rule = (fn(&str) -> bool, &'static str);

    /// Each function with its pattern.
    const PATTERNS: [Rule; 6] = [
        (is_queue_name, "^[a-zA-Z0-9_:#/@-]{1,64}$"),
        (is_user, "^[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?$"),
        (is_group, "^[_a-zA-Z][a-zA-Z0-9:_.-]*$"),
        (is_user_of_acl, "^[_a-zA-Z][a-zA-Z0-9_.@-]*[$]?$"),
        (is_group_of_acl, "^[_a-zA-Z][a-zA-Z0-9_-]*$"),
        (is_rule, "^[_a-zA-Z][a-zA-Z0-9_]*$"),
    ];

    fn agree(name: &str) {
        for (is_name, pattern) in PATTERNS {
            let expected = Regex::new(pattern).unwrap().is_match(name);
            assert_eq!(is_name(name), expected, "{name:?} by `{pattern}`");
        }
    }

    #[test]
    fn names_follow_their_patterns() {
        for name in [
            "a", "_", "Z9", "a:b", "a#b", "c/d", "e.f", "@g", "g@h", "a-b", "-a", "svc$", "$",
            "a$b", "a$$", "", "1a", "a b", "a\n", "bad><+", "é", "aé", "a*", "a(b)", "a]",
            "root.a",
        ] {
            agree(name);
        }
        for length in [63, 64, 65] {
            agree(&"x".repeat(length));
        }
    }

    proptest! {
        #[test]
        fn any_name_is_judged_by_its_pattern(name in "[a-cA_:#/.@$ 0-9é-]{0,6}|\\PC{0,4}|a{60,70}") {
            agree(&name);
        }
    }

    #[test]
    fn the_recovery_queue_is_reserved_in_any_case() {
        assert!(is_reserved("@recovery@") && is_reserved("@Recovery@"));
        assert!(!is_reserved("recovery") && !is_reserved(RECOVERY));
    }

    #[test]
    fn parts_of_a_queue_path_are_names_of_queues() {
        for path in ["root", "ROOT.a_b-c", "root.a#b/c@d:e"] {
            assert!(is_queue_path(path), "{path}");
        }
        for path in ["", "root.", "root..a", "root.a!", "root.ä"] {
            assert!(!is_queue_path(path), "{path}");
        }
    }
}
