//! The settings that a resource manager makes for itself: the keys of its `extraConfig` that the
//! edges read.
//!
//! # Why one reader
//! Sessions, the oldest dialect and callback streams each have keys of their own, and pass a
//! function that parses a value. Unusable values are handled here, in the same way for all.
//!
//! # Invariants
//! * An unusable value changes nothing: the setting of the service applies. It is logged as a
//!   warning and counted.
//! * A warning never shows a value, because a resource manager may keep secrets there.

use std::collections::BTreeMap;

use tracing::warn;

/// Keys of this section may also be spelled as in the settings: `session.attach_timeout`.
const ANY_SPELLING: &str = "session.";

/// The `extraConfig` of one resource manager while it is read.
#[derive(Debug)]
pub struct ExtraConfig<'e> {
    rm_id: &'e str,
    entries: &'e BTreeMap<String, String>,
    n_unusable: usize,
}

impl<'e> ExtraConfig<'e> {
    /// The `extraConfig` of `rm_id`.
    pub fn new(rm_id: &'e str, entries: &'e BTreeMap<String, String>) -> Self {
        Self { rm_id, entries, n_unusable: 0 }
    }

    /// The resource manager that it belongs to.
    pub fn rm_id(&self) -> &'e str {
        self.rm_id
    }

    /// Returns the text under `key`, without a warning if the caller cannot use it.
    pub fn get(&self, key: &str) -> Option<&'e str> {
        self.entries.get(key).map(String::as_str)
    }

    /// Sets `place` to the value under `key`, if there is a value that `read` accepts.
    pub fn set<T>(&mut self, key: &str, place: &mut T, read: impl Fn(&str) -> Result<T, String>) {
        for (given, text) in self.entries.iter().filter(|(given, _)| is_spelling_of(given, key)) {
            match read(text) {
                Ok(value) => *place = value,
                Err(reason) => self.warn_unusable(given, text, &reason),
            }
        }
    }

    /// Passes each key that begins with `prefix`, with the prefix cut off, and its text to `take`.
    /// An `Err` is the reason why the value is unusable.
    pub fn each(&mut self, prefix: &str, mut take: impl FnMut(&str, &str) -> Result<(), String>) {
        for (key, text) in self.entries {
            if let Some(name) = key.strip_prefix(prefix)
                && let Err(reason) = take(name, text)
            {
                self.warn_unusable(key, text, &reason);
            }
        }
    }

    /// Returns the number of values that could not be used.
    pub fn n_unusable(&self) -> usize {
        self.n_unusable
    }

    fn warn_unusable(&mut self, key: &str, text: &str, reason: &str) {
        let reason = reason.replace(&format!("`{text}`"), "the value");
        warn!(rm = self.rm_id, key, reason, "unusable value of the extra configuration ignored");
        self.n_unusable += 1;
    }
}

/// Whether the key `given` is a spelling of `key`.
fn is_spelling_of(given: &str, key: &str) -> bool {
    let plain = |key: &str| key.replace('_', "").to_lowercase();
    given == key || key.starts_with(ANY_SPELLING) && plain(given) == plain(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| format!("`{text}` is not a number"))
    }

    #[test]
    fn unusable_values_are_counted_and_others_untouched() {
        let entries = [("a.one", "1"), ("a.two", "many"), ("b.three", "3")];
        let entries = entries.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
        let mut extra = ExtraConfig::new("rm", &entries);
        let (mut one, mut two, mut four) = (0, 2, 4);
        extra.set("a.one", &mut one, number);
        extra.set("a.two", &mut two, number);
        extra.set("a.four", &mut four, number);
        assert_eq!((one, two, four, extra.n_unusable()), (1, 2, 4, 1));
    }

    #[test]
    fn only_keys_of_sessions_have_a_second_spelling() {
        assert!(is_spelling_of("session.attach_timeout", "session.attachTimeout"));
        assert!(is_spelling_of("session.attachTimeout", "session.attachTimeout"));
        assert!(!is_spelling_of("callback.idle_timeout", "callback.idleTimeout"));
        assert!(!is_spelling_of("session.pauseTimeout", "session.attachTimeout"));
    }

    #[test]
    fn a_section_is_read_key_by_key() {
        let entries = [("c.high", "10"), ("c.low", "none"), ("d.high", "1")];
        let entries = entries.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
        let mut extra = ExtraConfig::new("rm", &entries);
        let mut read = Vec::new();
        extra.each("c.", |name, text| {
            read.push((name.to_owned(), number(text)?));
            Ok(())
        });
        assert_eq!((read, extra.n_unusable()), (vec![("high".to_owned(), 10)], 1));
    }
}
