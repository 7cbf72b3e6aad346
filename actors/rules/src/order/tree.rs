//! The one ordered structure of the scheduler: a B-tree in order of a key, whose inner nodes carry
//! a *bound* of all entries below them.
//!
//! # Why
//! Nodes, the children of a queue and the ask classes of an application all answer the same
//! question: "which is the first, in order, that may fit?". The bound of an entry shows whether it
//! may fit (of a node: its free capacity; of queues and classes: the least pending amount). A bound
//! that covers a whole subtree lets the search skip that subtree, so that ten thousand full nodes
//! in front of the first free one cost a few comparisons, and nothing is ever sorted per attempt.
//!
//! # What a caller may rely on
//! A test that is passed to [`OrderedTree::first`] must be *monotonic*: if it passes a bound, it
//! passes every bound that covers it. Then the answer is the one that a scan of all entries would
//! give. The test may pass the bound of a subtree in which no single entry passes (one node has the
//! memory, another the cores). Such a subtree is searched without result, which costs time but
//! changes no answer.
//!
//! # Invariants
//! * Keys ascend strictly, and every key lies where the separators above it lead.
//! * Every bound of a subtree equals the join of the bounds of its entries: it is never stale, and
//!   never wider than necessary.
//! * All leaves are equally deep, no node except the root is empty, and of two neighbours at least
//!   one is a quarter full: the depth is logarithmic whatever was removed.
//!
//! ```
//! use monoceros_rules::order::tree::{Bound, OrderedTree};
//!
//! #[derive(Clone, PartialEq)]
//! struct MostFree(u32);
//! impl Bound for MostFree {
//!     fn join(&mut self, other: &Self) {
//!         self.0 = self.0.max(other.0);
//!     }
//! }
//!
//! let mut nodes = OrderedTree::new();
//! nodes.insert(10, "n1", MostFree(1));
//! nodes.insert(20, "n2", MostFree(4));
//! nodes.insert(30, "n3", MostFree(8));
//! assert_eq!(nodes.first(|free| free.0 >= 2).map(|(_, name, _)| *name), Some("n2"));
//! assert!(nodes.rekey(&20, 40, MostFree(3)));
//! assert_eq!(nodes.first(|free| free.0 >= 2).map(|(_, name, _)| *name), Some("n3"));
//! assert_eq!(nodes.rank(&40), 2);
//! ```

mod bound;
mod change;
mod least;
mod node;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

pub use bound::{Between, Bound};
use node::{Node, Walk};

/// Values with their bounds, in order of a unique key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrderedTree<K, V, B> {
    root: Node<K, V, B>,
    /// The join of the bounds of all entries; `None` if there are none.
    bound: Option<B>,
}

impl<K: Ord + Clone, V, B: Bound> OrderedTree<K, V, B> {
    /// A tree without entries.
    pub fn new() -> Self {
        Self { root: Node::empty(), bound: None }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.root.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.bound.is_none()
    }

    /// Drops every entry.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Adds an entry. Keys are unique: a key that exists already is a mistake of the caller, which
    /// debug builds assert. In release builds the new entry replaces the old one.
    pub fn insert(&mut self, key: K, value: V, bound: B) {
        match &mut self.bound {
            None => {
                self.bound = Some(bound.clone());
                self.root.start(key, value, bound);
            }
            Some(total) => {
                self.root.insert(total, key, value, bound);
                self.root.rebalance_root();
            }
        }
    }

    /// Removes the entry of `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.root.remove(self.bound.as_mut()?, key)?;
        self.root.rebalance_root();
        if self.root.len() == 0 {
            self.bound = None;
        }
        Some(removed.value)
    }

    /// Returns the value and the bound of `key`.
    pub fn get(&self, key: &K) -> Option<(&V, &B)> {
        self.root.get(key)
    }

    /// Returns the value of `key`, to be changed in place.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.root.get_mut(key)
    }

    /// Changes the bound of the entry of `key`; `false` if there is none.
    pub fn set_bound(&mut self, key: &K, bound: B) -> bool {
        let Some(total) = &mut self.bound else { return false };
        self.root.set_bound(total, key, bound).is_some()
    }

    /// Moves the entry of `old` to `new`, with another bound and the same value. If there is no
    /// `old`, changes nothing and returns `false`. As for [`Self::insert`], `new` must be free (or
    /// equal to `old`).
    ///
    /// Levels above the lowest node that both keys share are searched once, and a key that stays in
    /// its leaf is moved within it.
    pub fn rekey(&mut self, old: &K, new: K, bound: B) -> bool {
        let Some(total) = &mut self.bound else { return false };
        let moved = self.root.rekey(total, old, new, bound).is_some();
        self.root.rebalance_root();
        moved
    }

    /// The join of the bounds of all entries.
    pub fn bound(&self) -> Option<&B> {
        self.bound.as_ref()
    }

    /// Returns the first entry, in order, whose bound passes. The head of the module says what the
    /// test must fulfil.
    pub fn first(&self, passes: impl Fn(&B) -> bool) -> Option<(&K, &V, &B)> {
        self.bound.as_ref().filter(|total| passes(total))?;
        self.root.first(None, &passes)
    }

    /// Returns the first entry that passes, and the next one that passes.
    pub fn first_two(&self, passes: impl Fn(&B) -> bool) -> [Option<(&K, &V, &B)>; 2] {
        let mut found = [None, None];
        if self.bound.as_ref().is_some_and(&passes) {
            let _ = self.root.each(&passes, &mut |entry| match &mut found {
                [first @ None, _] => {
                    *first = Some(entry);
                    ControlFlow::Continue(())
                }
                [_, second] => {
                    *second = Some(entry);
                    ControlFlow::Break(())
                }
            });
        }
        found
    }

    /// Returns the first entry strictly after `key` (which need not exist) whose bound passes.
    pub fn first_after(&self, key: &K, passes: impl Fn(&B) -> bool) -> Option<(&K, &V, &B)> {
        self.bound.as_ref().filter(|total| passes(total))?;
        self.root.first(Some(key), &passes)
    }

    /// Returns the last entry whose bound passes, of all entries or of those strictly before a key,
    /// which need not exist.
    pub fn last(&self, before: Option<&K>, passes: impl Fn(&B) -> bool) -> Option<(&K, &V, &B)> {
        self.bound.as_ref().filter(|total| passes(total))?;
        self.root.last(before, &passes)
    }

    /// Visits the entries strictly between two keys, which need not exist; without `after`, from
    /// the first entry on. Entries in subtrees that contain neither key are only counted, so that a
    /// walk over any number of entries costs as much as a search.
    pub fn between<'a>(
        &'a self,
        after: Option<&K>,
        before: &K,
        mut met: impl FnMut(Between<'a, V, B>),
    ) {
        if after.is_none_or(|after| after < before) {
            self.root.between(after, before, &mut met);
        }
    }

    /// Counts the entries before `key`, which need not exist.
    pub fn rank(&self, key: &K) -> usize {
        self.root.rank(key)
    }

    /// Returns all entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V, &B)> {
        Walk::new(&self.root)
    }

    /// Returns all entries in order, without the first `entries`, which are skipped without a walk.
    pub fn iter_behind(&self, entries: usize) -> impl Iterator<Item = (&K, &V, &B)> {
        Walk::behind(&self.root, entries)
    }

    /// Panics unless every invariant of the module holds.
    #[cfg(test)]
    pub(crate) fn check(&self)
    where
        K: std::fmt::Debug,
    {
        let total = self.root.check(None, None, true);
        assert!(total == self.bound, "the bound of all entries is their join");
        assert_eq!(self.iter().count(), self.len());
    }
}

impl<K: Ord + Clone, V, B: Bound> Default for OrderedTree<K, V, B> {
    fn default() -> Self {
        Self::new()
    }
}
