//! Default queue configurations, for RMs that register without one: one for each policy group that has
//! its own, one for all other RMs, and the embedded one as the last resort.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config as config;
use monoceros_config::ConfigErrors;

use super::document::Document;

/// The default configurations.
#[derive(Debug)]
pub(crate) struct DefaultQueues<T: ?Sized = Document> {
    embedded: Arc<T>,
    /// The configuration of RMs whose group has none of its own.
    others: Option<Arc<T>>,
    groups: BTreeMap<String, Arc<T>>,
}

/// The RMs that a default configuration is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DefaultsOf {
    Group(String),
    /// RMs whose group has no default of its own.
    Others,
}

/// Not derived, because `T` need not be `Clone`.
impl<T: ?Sized> Clone for DefaultQueues<T> {
    fn clone(&self) -> Self {
        let (embedded, others) = (Arc::clone(&self.embedded), self.others.clone());
        Self { embedded, others, groups: self.groups.clone() }
    }
}

impl DefaultQueues {
    /// Reads the default of all RMs (empty: the embedded one). No group has one of its own yet.
    pub(crate) fn read(others: &str) -> Result<Self, ConfigErrors> {
        let read = |text: &str| Document::read(text.to_owned());
        let others = if others.is_empty() { None } else { Some(read(others)?) };
        Ok(Self { embedded: read(config::DEFAULT)?, others, groups: BTreeMap::new() })
    }
}

impl<T: ?Sized> DefaultQueues<T> {
    /// The default of an RM of this group.
    pub(crate) fn of(&self, group: &str) -> Arc<T> {
        match self.groups.get(group) {
            Some(own) => Arc::clone(own),
            None => self.of_others(),
        }
    }

    /// The default of an RM whose group has none of its own.
    pub(crate) fn of_others(&self) -> Arc<T> {
        Arc::clone(self.others.as_ref().unwrap_or(&self.embedded))
    }

    /// Sets a default; `None` removes it.
    pub(crate) fn set(&mut self, of: &DefaultsOf, own: Option<Arc<T>>) {
        match (of, own) {
            (DefaultsOf::Others, own) => self.others = own,
            (DefaultsOf::Group(group), None) => drop(self.groups.remove(group)),
            (DefaultsOf::Group(group), Some(own)) => drop(self.groups.insert(group.clone(), own)),
        }
    }

    /// Sets the default of a group, unless the group has one.
    pub(crate) fn offer(&mut self, group: String, own: Arc<T>) {
        self.groups.entry(group).or_insert(own);
    }

    /// Whether the default that is set for `of` applies to an RM of the group.
    pub(crate) fn concerns(&self, of: &DefaultsOf, group: &str) -> bool {
        match of {
            DefaultsOf::Others => !self.groups.contains_key(group),
            DefaultsOf::Group(changed) => changed == group,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_default_overrides_the_others_and_the_embedded_one() {
        let etl = DefaultsOf::Group("etl".to_owned());
        let embedded = Arc::from("embedded");
        let mut queues = DefaultQueues::<str> { embedded, others: None, groups: BTreeMap::new() };
        let both = |queues: &DefaultQueues<str>| {
            [queues.of("etl"), queues.of("adhoc")].map(|text| text.to_string())
        };
        assert_eq!(both(&queues), ["embedded", "embedded"]);
        queues.set(&DefaultsOf::Others, Some("others".into()));
        assert_eq!(both(&queues), ["others", "others"]);
        queues.offer("etl".to_owned(), "first".into());
        queues.offer("etl".to_owned(), "second".into());
        assert_eq!(both(&queues), ["first", "others"], "only the first offer counts");
        assert!(!queues.concerns(&DefaultsOf::Others, "etl") && queues.concerns(&etl, "etl"));
        queues.set(&etl, Some("third".into()));
        assert_eq!(both(&queues), ["third", "others"]);
        queues.set(&etl, None);
        assert_eq!(both(&queues), ["others", "others"]);
        assert!(queues.concerns(&DefaultsOf::Others, "etl") && !queues.concerns(&etl, "adhoc"));
    }
}
