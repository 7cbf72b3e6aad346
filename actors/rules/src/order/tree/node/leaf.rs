//! Changes of a leaf: its entries, in order of their keys.

use super::{Change, Entry, Leaf, Removed};
use crate::order::tree::Bound;
use crate::order::tree::change::replaced;

impl<K: Ord + Clone, V, B: Bound> Leaf<K, V, B> {
    pub(super) fn find(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.key.cmp(key))
    }

    /// Returns the number of leading keys for which `before` is true.
    pub(super) fn before(&self, before: impl Fn(&K) -> bool) -> usize {
        self.entries.partition_point(|entry| before(&entry.key))
    }

    pub(super) fn bounds(&self) -> impl Iterator<Item = &B> + Clone {
        self.entries.iter().map(|entry| &entry.bound)
    }

    pub(super) fn insert(&mut self, total: &mut B, key: K, value: V, bound: B) -> Change<B> {
        match self.find(&key) {
            Ok(at) => {
                debug_assert!(false, "keys are unique");
                self.entries[at].value = value;
                self.set_bound_at(total, at, bound)
            }
            Err(at) => {
                self.entries.insert(at, Entry { key, bound, value });
                replaced(total, self.bounds(), None, Some(&self.entries[at].bound))
            }
        }
    }

    pub(super) fn remove(&mut self, total: &mut B, key: &K) -> Option<Removed<V, B>> {
        let at = self.find(key).ok()?;
        let Entry { bound, value, .. } = self.entries.remove(at);
        let change = replaced(total, self.bounds(), Some(&bound), None);
        Some(Removed { value, change })
    }

    pub(super) fn rekey(&mut self, total: &mut B, old: &K, new: K, bound: B) -> Option<Change<B>> {
        let from = self.find(old).ok()?;
        let to = match self.find(&new) {
            Ok(same) if same == from => from,
            Ok(_) => {
                let Removed { value, change } = self.remove(total, old)?;
                return Some(change.then(self.insert(total, new, value, bound)));
            }
            Err(before) if before > from => before - 1,
            Err(before) => before,
        };
        if from < to {
            self.entries[from..=to].rotate_left(1);
        } else {
            self.entries[to..=from].rotate_right(1);
        }
        self.entries[to].key = new;
        Some(self.set_bound_at(total, to, bound))
    }

    pub(super) fn set_bound_at(&mut self, total: &mut B, at: usize, bound: B) -> Change<B> {
        if self.entries[at].bound == bound {
            return Change::None;
        }
        let old = std::mem::replace(&mut self.entries[at].bound, bound);
        replaced(total, self.bounds(), Some(&old), Some(&self.entries[at].bound))
    }
}
