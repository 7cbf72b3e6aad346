//! Texts of errors, each in one line of bounded length.

use std::error::Error;
use std::fmt::Display;

/// Longest line, in characters.
const MAX_LINE: usize = 300;

/// Returns the text as one line. White space and control characters become single blanks, and a
/// line that is too long ends with `…`.
pub(crate) fn one_line(text: impl Display) -> String {
    let text = text.to_string();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_LINE) {
        None => line,
        Some(_) => line.chars().take(MAX_LINE - 1).chain(['…']).collect(),
    }
}

/// Returns the texts of the error and its causes in one line, the outermost error first. A cause
/// whose text the line already contains is left out.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    one_line(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_line_of_bounded_length() {
        assert_eq!(one_line(" a\n\tb\u{1b}[0m c\r\n"), "a b [0m c");
        let long = one_line("ä".repeat(301));
        assert_eq!(long.chars().count(), 300);
        assert!(long.ends_with("ä…"));
        assert_eq!(one_line("x".repeat(300)), "x".repeat(300));
    }
}
