//! Makes text from outside safe for a log line and for a terminal.
//!
//! Names of applications, nodes and requests are chosen by others. A newline in one would forge a
//! line, an escape sequence would control the reader's terminal, and a bidirectional mark would
//! disguise one name as another. Such characters are replaced by their number: `\u{1b}`.
//!
//! # Invariants
//! * The output has no control character (C0, DEL, C1), no separator of lines or paragraphs
//!   (U+2028, U+2029) and no bidirectional control.
//! * Text without any of them is returned as it is, and not copied.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns `text` on one line.
///
/// ```
/// use monoceros::logging::clean;
/// assert_eq!(clean("job-1\nERROR \u{1b}[2J"), "job-1\\nERROR \\u{1b}[2J");
/// ```
pub fn clean(text: &str) -> Cow<'_, str> {
    replaced(text, is_unfit, |c, out| match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ => _ = write!(out, "{}", c.escape_unicode()),
    })
}

/// Cleans text but keeps newlines and tabs: for a text that this program has laid out, or whose
/// newlines and tabs cannot mislead a reader.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    replaced(text, is_unfit_in_lines, |c, out| _ = write!(out, "{}", c.escape_unicode()))
}

/// Escapes such characters in the texts of a JSON document, so that the document still means the
/// same.
pub fn clean_json(document: &str) -> Cow<'_, str> {
    replaced(document, is_unfit_in_lines, |c, out| {
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn is_unfit_in_lines(c: char) -> bool {
    is_unfit(c) && c != '\n' && c != '\t'
}

fn is_unfit(c: char) -> bool {
    // `is_control` is C0, DEL and C1.
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

fn replaced(
    text: &str,
    is_unfit: impl Fn(char) -> bool,
    replace: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    let Some(first) = text.find(&is_unfit) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if is_unfit(c) { replace(c, &mut out) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All characters that must not be in the output, by their numbers.
    fn unfit() -> impl Iterator<Item = char> {
        let ranges = [
            0..=0x1f,
            0x7f..=0x9f,
            0x61c..=0x61c,
            0x200e..=0x200f,
            0x2028..=0x202e,
            0x2066..=0x2069,
        ];
        ranges.into_iter().flatten().map(|number| char::from_u32(number).unwrap())
    }

    #[test]
    fn no_control_character_comes_out() {
        for c in unfit() {
            let text = format!("a{c}b");
            let cleaned = clean(&text);
            assert!(cleaned.starts_with("a\\") && cleaned.ends_with('b'), "{cleaned}");
            assert!(!cleaned.contains(c), "{c:?}");
            let lines = clean_lines(&text).into_owned();
            assert_eq!(lines.contains(c), matches!(c, '\n' | '\t'), "{c:?}");
        }
    }

    #[test]
    fn other_text_stays_and_is_not_copied() {
        for text in ["", "root.a", "größe 大小 \u{1f984} a\\nb", "non\u{a0}breaking"] {
            assert!(matches!(clean(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_document_means_the_same_afterwards() {
        let text: String = unfit().collect();
        let document = serde_json::to_string_pretty(&serde_json::json!({ "name": text })).unwrap();
        let cleaned = clean_json(&document);
        assert!(unfit().filter(|c| *c != '\n').all(|c| !cleaned.contains(c)), "{cleaned}");
        let read: serde_json::Value = serde_json::from_str(&cleaned).unwrap();
        assert_eq!(read["name"], text);
    }
}
