//! The options of the legacy dialect: settings of the service, overridden for one RM by the
//! `extraConfig` of its registration.
//!
//! They cover points that the oldest revision leaves open and its clients took for granted, such as
//! the unit of `memory` and the values of priority classes.

use std::collections::BTreeMap;

use super::memory::MemoryUnit;
use crate::extra_config::ExtraConfig;
use crate::settings::SessionSettings;

/// How the messages of one RM are read and written.
#[derive(Clone, Debug, Default)]
pub struct LegacyOptions {
    /// The unit in which the RM counts `memory`.
    pub memory: MemoryUnit,
    /// Priorities by class name.
    pub priority_classes: BTreeMap<String, i32>,
    /// Whether each utilization report is answered with recommended node sizes.
    pub node_recommendations: bool,
    /// Whether an item with an unknown enum value is ignored. Otherwise the mildest value is used.
    pub strict_enums: bool,
}

impl LegacyOptions {
    /// The options of an RM with this extra configuration.
    pub fn new(settings: &SessionSettings, extra: &mut ExtraConfig<'_>) -> Self {
        let mut options = Self {
            memory: settings.legacy_memory_unit,
            priority_classes: settings.priority_classes.clone(),
            node_recommendations: settings.legacy_node_recommendations,
            strict_enums: settings.strict_enums,
        };
        extra.set("legacy.memoryUnit", &mut options.memory, |text| {
            MemoryUnit::parse(text).ok_or_else(|| format!("`{text}` is no unit of memory"))
        });
        extra.set("session.strictEnums", &mut options.strict_enums, |text| {
            text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
        });
        extra.each("priorityClasses.", |name, text| {
            let priority = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
            options.priority_classes.insert(name.to_owned(), priority);
            Ok(())
        });
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Flags, Settings};

    #[test]
    fn registration_overrides_options_by_key() {
        let mut settings = Settings::load(None, &Flags::default()).unwrap().session;
        settings.priority_classes =
            [("low", -1), ("high", 1)].map(|(name, priority)| (name.to_owned(), priority)).into();
        let options = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let entries = pairs.collect();
            let mut extra = ExtraConfig::new("rm", &entries);
            (LegacyOptions::new(&settings, &mut extra), extra.n_unusable())
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
