//! Checksum of a configuration text. An update whose checksum equals that of the configuration in
//! force is skipped.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Text in front of a checksum entry.
const MARKER: &str = "checksum: ";

/// Number of hex digits of a SHA-256 sum.
const DIGITS: usize = 64;

/// SHA-256 of the text without any checksum entry, in upper-case hex digits.
pub(super) fn of(text: &str) -> String {
    let mut hash = Sha256::new();
    let mut rest = text.as_bytes();
    if let Some(entry) = entry(text) {
        while let Some(at) = rest.windows(entry.len()).position(|window| window == entry) {
            hash.update(&rest[..at]);
            rest = &rest[at + entry.len()..];
        }
    }
    hash.update(rest);
    hash.finalize().iter().fold(String::with_capacity(DIGITS), |mut digits, byte| {
        write!(digits, "{byte:02X}").expect("a string takes what is written");
        digits
    })
}

/// Whether the text has an entry with exactly this checksum.
pub fn carries_checksum(text: &str, checksum: &str) -> bool {
    entry(text).is_some_and(|entry| entry[MARKER.len()..] == *checksum.as_bytes())
}

/// Finds the checksum entry: the marker and its value, which ends at the next marker or at the end
/// of the text, has no trailing newlines, and is at most as long as a checksum. The entry is bytes,
/// because the cut may fall inside a character.
fn entry(text: &str) -> Option<&[u8]> {
    let start = text.find(MARKER)?;
    let value = &text[start + MARKER.len()..];
    let value = value.split_once(MARKER).map_or(value, |(value, _)| value);
    let length = MARKER.len() + value.trim_end_matches('\n').len().min(DIGITS);
    Some(&text.as_bytes()[start..start + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "partitions:\n  - name: default\n    queues: []\n";

    #[test]
    fn a_checksum_is_sha_256_in_upper_case_hex() {
        assert_eq!(of("abc"), "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD");
    }

    #[test]
    fn a_checksum_entry_does_not_change_the_checksum() {
        let entry = format!("checksum: {}", of("anything"));
        assert_eq!(of(&format!("{TEXT}{entry}")), of(TEXT));
        assert_eq!(of(&format!("{entry}{TEXT}")), of(TEXT));
        assert_eq!(of(&format!("{entry}{TEXT}{entry}")), of(TEXT));
        assert_eq!(of(&format!("{TEXT}checksum: ")), of(TEXT));
    }

    #[test]
    fn a_text_carries_the_checksum_of_its_entry() {
        let own = of(TEXT);
        assert!(carries_checksum(&format!("{TEXT}checksum: {own}\n"), &own));
        assert!(carries_checksum(&format!("checksum: {own}\n{TEXT}"), &own));
        for text in [TEXT, "", "checksum: ", &format!("checksum: {}", of("anything"))] {
            assert!(!carries_checksum(text, &own), "{text}");
        }
    }

    #[test]
    fn anything_else_changes_the_checksum() {
        assert_ne!(of(&format!("{TEXT}\n")), of(TEXT));
        assert_ne!(of(&format!("# why\n{TEXT}")), of(TEXT));
    }

    #[test]
    fn a_checksum_may_be_cut_inside_a_character() {
        assert_eq!(of(&format!("checksum: {}é", "0".repeat(63))).len(), DIGITS);
    }
}
