//! Limits on texts from outside: only the beginning of a long one is kept.

/// Returns the longest beginning of a text that has at most `bytes` bytes and ends between two
/// characters.
///
/// ```
/// use monoceros_rules::values::text::beginning;
/// assert_eq!(beginning("caf\u{e9}s", 4), "caf");
/// assert_eq!(beginning("caf\u{e9}s", 5), "caf\u{e9}");
/// assert_eq!(beginning("caf\u{e9}s", 9), "caf\u{e9}s");
/// ```
pub fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
