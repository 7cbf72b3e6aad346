//! What may be set for a client of the oldest dialect: in the service's settings for all, in the
//! `extraConfig` of its registration for one RM.
//!
//! These are the points that the oldest revision leaves open and its clients took for granted: what
//! `memory` counts, what the name of a priority class stands for. The scheduler cannot know;
//! somebody has to say.

use std::collections::BTreeMap;

use tracing::warn;

use super::memory::MemoryUnit;
use crate::settings::SessionSettings;

/// Key of `extraConfig` for the unit of `memory`.
const MEMORY_UNIT: &str = "legacy.memoryUnit";
/// Key of `extraConfig` for unknown numbers in enumerations.
const STRICT_ENUMS: &str = "session.strictEnums";
/// Keys of `extraConfig` for classes of priority begin so.
const PRIORITY_CLASS: &str = "priorityClasses.";

/// How the messages of one RM are to be read and written.
#[derive(Clone, Debug, Default)]
pub struct LegacyOptions {
    /// In what the RM counts `memory`.
    pub memory: MemoryUnit,
    /// Priorities by the names of their classes.
    pub priority_classes: BTreeMap<String, i32>,
    /// The RM is told what size its nodes should have, with each measurement of them.
    pub node_recommendations: bool,
    /// An item with an unknown number in an enumeration is ignored rather than taken for the
    /// mildest.
    pub strict_enums: bool,
}

impl LegacyOptions {
    /// What holds for an RM with this `extraConfig`, and how many of its values cannot be read:
    /// those leave the service's, and a warning in the log.
    pub fn new(
        settings: &SessionSettings,
        extra_config: &BTreeMap<String, String>,
    ) -> (Self, usize) {
        let mut n_unusable = 0;
        let mut options = Self {
            memory: settings.legacy_memory_unit,
            priority_classes: settings.priority_classes.clone(),
            node_recommendations: settings.legacy_node_recommendations,
            strict_enums: settings.strict_enums,
        };
        for (key, value) in extra_config {
            if !options.set(key, value) {
                // Not the value: what an RM keeps there is its own, and may be a secret.
                warn!(key, "value of `extraConfig` cannot be read, the default holds");
                n_unusable += 1;
            }
        }
        (options, n_unusable)
    }

    /// Whether the value can be read, or the key means nothing here.
    fn set(&mut self, key: &str, value: &str) -> bool {
        if let Some(name) = key.strip_prefix(PRIORITY_CLASS) {
            let priority = value.parse().ok();
            let known = priority.map(|value| self.priority_classes.insert(name.to_owned(), value));
            return known.is_some();
        }
        match key {
            MEMORY_UNIT => MemoryUnit::parse(value).map(|unit| self.memory = unit).is_some(),
            STRICT_ENUMS => value.parse().map(|strict| self.strict_enums = strict).is_ok(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Flags, Settings};

    #[test]
    fn an_rm_overrides_the_service_key_by_key_and_nonsense_changes_nothing() {
        let mut settings = Settings::load(None, &Flags::default()).unwrap().session;
        settings.priority_classes =
            [("low", -1), ("high", 1)].map(|(name, priority)| (name.to_owned(), priority)).into();
        let options = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            LegacyOptions::new(&settings, &pairs.collect())
        };
        let (own, n_unusable) = options(&[
            ("legacy.memoryUnit", "megabyte"),
            ("priorityClasses.high", "100"),
            ("priorityClasses.top", "200"),
            ("session.strictEnums", "true"),
            ("log.level", "whatever"),
        ]);
        assert_eq!(n_unusable, 0);
        assert_eq!(own.memory, MemoryUnit::Megabyte);
        assert!(own.strict_enums);
        let classes: Vec<_> =
            own.priority_classes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(classes, [("high", 100), ("low", -1), ("top", 200)]);

        let (unread, n_unusable) = options(&[
            ("legacy.memoryUnit", "kilobyte"),
            ("priorityClasses.high", "very"),
            ("session.strictEnums", "yes"),
        ]);
        assert_eq!(n_unusable, 3);
        assert_eq!(unread.memory, MemoryUnit::Raw);
        assert_eq!(unread.priority_classes["high"], 1);
        assert!(!unread.strict_enums);
    }
}
