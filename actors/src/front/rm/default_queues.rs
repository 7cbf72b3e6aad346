//! The queue configurations of RMs that bring none: one for each policy group that has one, one for
//! everybody else, and behind them the embedded one (queues-and-config chapter, 2.2 and 9.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config as config;
use monoceros_config::ConfigErrors;

use super::Document;

/// See the module.
#[derive(Debug)]
pub(crate) struct DefaultQueues<T: ?Sized = Document> {
    embedded: Arc<T>,
    /// Of RMs whose group has none.
    others: Option<Arc<T>>,
    groups: BTreeMap<String, Arc<T>>,
}

/// Whose configuration one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DefaultsOf {
    Group(String),
    /// RMs whose group has none of its own.
    Others,
}

/// Not derived, because what is shared need not be `Clone` itself.
impl<T: ?Sized> Clone for DefaultQueues<T> {
    fn clone(&self) -> Self {
        let (embedded, others) = (Arc::clone(&self.embedded), self.others.clone());
        Self { embedded, others, groups: self.groups.clone() }
    }
}

impl DefaultQueues {
    /// Without any of a group; empty: the embedded one.
    pub(crate) fn read(others: &str) -> Result<Self, ConfigErrors> {
        let read = |text: &str| Document::read(text.to_owned());
        let others = if others.is_empty() { None } else { Some(read(others)?) };
        Ok(Self { embedded: read(config::DEFAULT)?, others, groups: BTreeMap::new() })
    }
}

impl<T: ?Sized> DefaultQueues<T> {
    /// What stands for an RM of the group.
    pub(crate) fn of(&self, group: &str) -> Arc<T> {
        match self.groups.get(group) {
            Some(own) => Arc::clone(own),
            None => self.of_others(),
        }
    }

    /// What stands for an RM whose group has none.
    pub(crate) fn of_others(&self) -> Arc<T> {
        Arc::clone(self.others.as_ref().unwrap_or(&self.embedded))
    }

    /// From now on; `None`: nothing of their own.
    pub(crate) fn set(&mut self, of: &DefaultsOf, own: Option<Arc<T>>) {
        match (of, own) {
            (DefaultsOf::Others, own) => self.others = own,
            (DefaultsOf::Group(group), None) => drop(self.groups.remove(group)),
            (DefaultsOf::Group(group), Some(own)) => drop(self.groups.insert(group.clone(), own)),
        }
    }

    /// As [`Self::set`], unless the group has one.
    pub(crate) fn offer(&mut self, group: String, own: Arc<T>) {
        self.groups.entry(group).or_insert(own);
    }

    /// Whether an RM of the group goes by what is set there.
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
    fn s9_1_the_text_of_the_group_stands_before_that_of_the_others_and_the_embedded_one() {
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
