//! Finds the rules that may match a pod, and the pods that a rule may match, without comparing all
//! of them.
//!
//! Both are found by namespace and one label. A rule that requires a label value is stored under
//! one such label, the one with the fewest entries. A pod finds the rules stored under any of its
//! labels. The other way round, a pod is stored under each of its labels, and a rule searches the
//! label with the fewest pods.
//!
//! A result may match; the caller checks whether it does.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::selectors::{Labels, PodTerm};

/// Numbers by label.
#[derive(Debug, Default)]
struct LabelIndex {
    by_label: FxHashMap<String, FxHashMap<String, BTreeSet<usize>>>,
    /// Numbers stored under no label.
    others: BTreeSet<usize>,
}

impl LabelIndex {
    fn under(&self, key: &str, value: &str) -> Option<&BTreeSet<usize>> {
        self.by_label.get(key)?.get(value)
    }

    fn count(&self, key: &str, values: &[String]) -> usize {
        values.iter().filter_map(|value| self.under(key, value)).map(BTreeSet::len).sum()
    }

    fn insert(&mut self, (key, value): (&str, &str), id: usize) {
        let of_key = match self.by_label.get_mut(key) {
            Some(of_key) => of_key,
            None => self.by_label.entry(key.to_owned()).or_default(),
        };
        match of_key.get_mut(value) {
            Some(ids) => drop(ids.insert(id)),
            None => drop(of_key.insert(value.to_owned(), BTreeSet::from([id]))),
        }
    }

    fn remove(&mut self, (key, value): (&str, &str), id: usize) {
        let Some(of_key) = self.by_label.get_mut(key) else { return };
        let Some(ids) = of_key.get_mut(value) else { return };
        ids.remove(&id);
        if ids.is_empty() {
            of_key.remove(value);
            if of_key.is_empty() {
                self.by_label.remove(key);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.others.is_empty()
    }
}

/// Rules by namespace and label.
#[derive(Debug, Default)]
pub(super) struct Rules {
    of_namespace: FxHashMap<String, LabelIndex>,
    /// Rules with a namespace selector.
    anywhere: LabelIndex,
    /// The label under which each rule is stored, with its values.
    stored: FxHashMap<usize, (String, Vec<String>)>,
}

impl Rules {
    /// Adds a rule about pods that match this term, and perhaps others.
    pub(super) fn insert(&mut self, id: usize, term: &PodTerm) {
        if term.selector.is_none() {
            return;
        }
        let first = term.namespaces.first().filter(|_| term.namespace_selector.is_none());
        let index = match first {
            Some(first) => self.of_namespace.get(first),
            None => Some(&self.anywhere),
        };
        let n_entries = |key: &str, values: &[String]| index.map_or(0, |it| it.count(key, values));
        let label = term.named().min_by_key(|(key, values)| n_entries(key, values));
        if let Some((key, values)) = label {
            self.stored.insert(id, (key.to_owned(), values.to_vec()));
        }
        self.set(id, term, true);
    }

    /// Removes a rule.
    pub(super) fn remove(&mut self, id: usize, term: &PodTerm) {
        self.set(id, term, false);
        self.stored.remove(&id);
    }

    fn set(&mut self, id: usize, term: &PodTerm, comes: bool) {
        let Self { of_namespace, anywhere, stored } = self;
        let stored = stored.get(&id);
        let store = |index: &mut LabelIndex| match stored {
            Some((key, values)) => {
                for value in values {
                    if comes {
                        index.insert((key, value), id);
                    } else {
                        index.remove((key, value), id);
                    }
                }
            }
            None if comes => drop(index.others.insert(id)),
            None => drop(index.others.remove(&id)),
        };
        if term.namespace_selector.is_some() {
            return store(anywhere);
        }
        for namespace in &term.namespaces {
            let index = of_namespace.entry(namespace.clone()).or_default();
            store(index);
            if index.is_empty() {
                of_namespace.remove(namespace);
            }
        }
    }

    /// Returns the rules that may match such a pod, sorted and without duplicates.
    pub(super) fn about(&self, namespace: &str, labels: &Labels) -> Vec<usize> {
        let indexes = self.of_namespace.get(namespace).into_iter().chain([&self.anywhere]);
        let found = indexes.flat_map(|index| {
            let under = labels.iter().filter_map(|(key, value)| index.under(key, value)).flatten();
            under.chain(&index.others).copied()
        });
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the rules with a namespace selector.
    pub(super) fn by_namespace_labels(&self) -> Vec<usize> {
        let LabelIndex { by_label, others } = &self.anywhere;
        let under = by_label.values().flat_map(FxHashMap::values).flatten();
        let mut found: Vec<_> = under.chain(others).copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Pods, or kinds of pods, by namespace and label.
#[derive(Debug, Default)]
pub(super) struct Pods {
    of_namespace: FxHashMap<String, LabelIndex>,
}

impl Pods {
    pub(super) fn insert(&mut self, id: usize, namespace: &str, labels: &Labels) {
        let index = self.of_namespace.entry(namespace.to_owned()).or_default();
        for (key, value) in labels {
            index.insert((key, value), id);
        }
        index.others.insert(id);
    }

    pub(super) fn remove(&mut self, id: usize, namespace: &str, labels: &Labels) {
        let Some(index) = self.of_namespace.get_mut(namespace) else { return };
        for (key, value) in labels {
            index.remove((key, value), id);
        }
        index.others.remove(&id);
        if index.others.is_empty() {
            self.of_namespace.remove(namespace);
        }
    }

    /// Returns all pods of a namespace.
    pub(super) fn of_namespace(&self, namespace: &str) -> Vec<usize> {
        let index = self.of_namespace.get(namespace);
        index.into_iter().flat_map(|index| index.others.iter().copied()).collect()
    }

    /// Returns the pods that may match the term, without duplicates.
    pub(super) fn matching(&self, term: &PodTerm) -> Vec<usize> {
        let mut found = Vec::new();
        if term.selector.is_none() {
            return found;
        }
        let is_anywhere = term.namespace_selector.is_some();
        let indexes = self.of_namespace.iter();
        let everywhere = indexes.filter(|_| is_anywhere).map(|(_, index)| index);
        let named = term.namespaces.iter().filter(|_| !is_anywhere);
        for index in everywhere.chain(named.filter_map(|name| self.of_namespace.get(name))) {
            match term.named().min_by_key(|(key, values)| index.count(key, values)) {
                Some((key, values)) => {
                    found.extend(
                        values.iter().filter_map(|value| index.under(key, value)).flatten(),
                    );
                }
                None => found.extend(&index.others),
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
