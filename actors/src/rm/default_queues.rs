//! The queue configurations of RMs that bring none: one for each policy group that has one, one for
//! everybody else, and behind them the embedded one (queues-and-config chapter, 2.2 and 9.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::config;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct DefaultQueues {
    /// Of RMs whose group has none; empty: the embedded one.
    others: Arc<str>,
    groups: BTreeMap<String, Arc<str>>,
}

/// Whose configuration one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DefaultsOf {
    Group(String),
    /// RMs whose group has none of its own.
    Others,
}

impl DefaultQueues {
    pub(crate) fn new(others: &str) -> Self {
        Self { others: others.into(), groups: BTreeMap::new() }
    }

    /// What stands for an RM of the group; never empty.
    pub(crate) fn of(&self, group: &str) -> Arc<str> {
        match self.groups.get(group) {
            Some(text) => Arc::clone(text),
            None => self.of_others(),
        }
    }

    /// What stands for an RM whose group has none.
    pub(crate) fn of_others(&self) -> Arc<str> {
        if self.others.is_empty() { config::DEFAULT.into() } else { Arc::clone(&self.others) }
    }

    /// From now on; empty: nothing of their own.
    pub(crate) fn set(&mut self, of: &DefaultsOf, text: &str) {
        match of {
            DefaultsOf::Others => self.others = text.into(),
            DefaultsOf::Group(group) if text.is_empty() => drop(self.groups.remove(group)),
            DefaultsOf::Group(group) => drop(self.groups.insert(group.clone(), text.into())),
        }
    }

    /// As [`Self::set`], unless the group has one.
    pub(crate) fn offer(&mut self, group: String, text: &str) {
        if !text.is_empty() {
            self.groups.entry(group).or_insert_with(|| text.into());
        }
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
        let mut queues = DefaultQueues::default();
        let both = |queues: &DefaultQueues| {
            [queues.of("etl"), queues.of("adhoc")].map(|text| text.to_string())
        };
        assert_eq!(both(&queues), [config::DEFAULT, config::DEFAULT]);
        queues.set(&DefaultsOf::Others, "others");
        assert_eq!(both(&queues), ["others", "others"]);
        queues.offer("etl".to_owned(), "first");
        queues.offer("etl".to_owned(), "second");
        assert_eq!(both(&queues), ["first", "others"], "only the first offer counts");
        assert!(!queues.concerns(&DefaultsOf::Others, "etl") && queues.concerns(&etl, "etl"));
        queues.set(&etl, "third");
        assert_eq!(both(&queues), ["third", "others"]);
        queues.set(&etl, "");
        queues.offer("etl".to_owned(), "");
        assert_eq!(both(&queues), ["others", "others"]);
        assert!(queues.concerns(&DefaultsOf::Others, "etl") && !queues.concerns(&etl, "adhoc"));
    }
}
