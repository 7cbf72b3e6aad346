//! Changes of an inner node: it passes a change to a child, splits a child that is too wide, and
//! merges two neighbours that are both narrow.

use std::slice::SliceIndex;

use super::{Change, Child, Inner, MAX, MERGED, MIN, Node, Removed, split_off};
use crate::order::tree::Bound;
use crate::order::tree::change::replaced;

impl<K: Clone, V, B> Child<K, V, B> {
    /// Makes `low` the separator of this node, which becomes the first child of its parent, and of
    /// the first child on each level below.
    fn begin_at(&mut self, low: K) {
        if let Node::Inner(inner) = &mut self.node
            && let Some(first) = inner.children.first_mut()
        {
            first.begin_at(low.clone());
        }
        self.low = low;
    }
}

impl<K: Ord + Clone, V, B: Bound> Inner<K, V, B> {
    /// Returns the index of the child that contains `key`, or would contain it.
    pub(super) fn route(&self, key: &K) -> usize {
        self.children[1..].partition_point(|child| child.low <= *key)
    }

    pub(super) fn bounds(&self) -> impl Iterator<Item = &B> + Clone {
        self.children.iter().map(|child| &child.bound)
    }

    /// Returns the effect of the change of the child at `at` on the total.
    pub(super) fn lift(&self, change: Change<B>, total: &mut B, at: usize) -> Change<B> {
        change.lift(total, self.bounds(), &self.children[at].bound)
    }

    /// The number of entries below a range of children.
    pub(super) fn count(
        &self,
        range: impl SliceIndex<[Child<K, V, B>], Output = [Child<K, V, B>]>,
    ) -> usize {
        self.children[range].iter().map(|child| child.node.len()).sum()
    }

    pub(super) fn insert(&mut self, total: &mut B, key: K, value: V, bound: B) -> Change<B> {
        self.insert_at(self.route(&key), total, key, value, bound)
    }

    /// Does [`Self::insert`] below the child at `at`, where the key belongs.
    fn insert_at(&mut self, at: usize, total: &mut B, key: K, value: V, bound: B) -> Change<B> {
        let child = &mut self.children[at];
        let before = child.node.len();
        let change = child.node.insert(&mut child.bound, key, value, bound);
        self.len = self.len - before + child.node.len();
        let change = self.lift(change, total, at);
        if self.children[at].node.width() > MAX {
            self.split(at);
        }
        change
    }

    pub(super) fn remove(&mut self, total: &mut B, key: &K) -> Option<Removed<V, B>> {
        let at = self.route(key);
        let width = self.children.len();
        let removed = self.remove_at(at, total, key)?;
        if self.children.len() == width {
            self.rebalance(at);
        }
        Some(removed)
    }

    /// Does [`Self::remove`] below the child at `at`, where the key is. The child may be too narrow
    /// afterwards; an empty one is removed.
    fn remove_at(&mut self, at: usize, total: &mut B, key: &K) -> Option<Removed<V, B>> {
        let child = &mut self.children[at];
        let Removed { value, change } = child.node.remove(&mut child.bound, key)?;
        self.len -= 1;
        if child.node.width() > 0 {
            return Some(Removed { value, change: self.lift(change, total, at) });
        }
        let Child { low, bound, .. } = self.children.remove(at);
        if at == 0
            && let Some(first) = self.children.first_mut()
        {
            first.begin_at(low);
        }
        let gone = if let Change::Narrower(was) = change { was } else { bound };
        Some(Removed { value, change: replaced(total, self.bounds(), Some(&gone), None) })
    }

    pub(super) fn rekey(&mut self, total: &mut B, old: &K, new: K, bound: B) -> Option<Change<B>> {
        let (at, to) = (self.route(old), self.route(&new));
        if at != to {
            let width = self.children.len();
            let Removed { value, change } = self.remove_at(at, total, old)?;
            let is_gone = self.children.len() < width;
            let is_narrow = !is_gone && self.children[at].node.width() < MIN;
            let to = if is_gone && to > at { to - 1 } else { to };
            let change = change.then(self.insert_at(to, total, new, value, bound));
            if is_narrow {
                // The insertion may have split a child before it.
                self.rebalance(self.route(old));
            }
            return Some(change);
        }
        let child = &mut self.children[at];
        let before = child.node.len();
        let change = child.node.rekey(&mut child.bound, old, new, bound)?;
        self.len = self.len - before + child.node.len();
        let change = self.lift(change, total, at);
        self.rebalance(at);
        Some(change)
    }

    /// Appends the children of the right neighbour, and leaves that empty.
    pub(super) fn append(&mut self, right: &mut Self) {
        let seam = self.children.len();
        self.children.append(&mut right.children);
        self.len += std::mem::take(&mut right.len);
        // These two children were no neighbours before.
        self.rebalance(seam);
    }

    /// Keeps the first `width` children; returns a new right neighbour with the others.
    pub(super) fn split_off(&mut self, width: usize) -> Self {
        let children = split_off(&mut self.children, width);
        let mut right = Self { children, len: 0 };
        right.len = right.count(..);
        self.len -= right.len;
        right
    }

    /// Splits or merges the child at `at` if it is too wide or too narrow. The entries below stay
    /// the same, and so does this node's own total.
    pub(super) fn rebalance(&mut self, at: usize) {
        let width = self.children[at].node.width();
        if width > MAX {
            self.split(at);
        } else if width < MIN {
            // Two narrow children may still be narrow when merged.
            if self.merge(at) {
                self.rebalance(at);
            } else if at > 0 && self.merge(at - 1) {
                self.rebalance(at - 1);
            }
        }
    }

    /// Splits the child at `at` in two.
    fn split(&mut self, at: usize) {
        // The last child is split unevenly. Entries are often added at the end (nodes that fill up
        // one after another, arrivals in order of time), and halves would never be filled.
        let at_end = at + 1 == self.children.len();
        let width = if at_end { MAX - MIN } else { MAX / 2 };
        let left = &mut self.children[at];
        let node = left.node.split_off(width);
        let right = Child { low: node.low().clone(), bound: left.bound.clone(), node };
        self.children.insert(at + 1, right);
        self.rejoin(at);
        self.rejoin(at + 1);
    }

    /// Merges the child at `at` with the one after it, if there is one and both fit.
    fn merge(&mut self, at: usize) -> bool {
        let (left, right) = self.children.split_at_mut(at + 1);
        let (left, Some(right)) = (&mut left[at], right.first_mut()) else { return false };
        if left.node.width() + right.node.width() > MERGED {
            return false;
        }
        left.node.append(&mut right.node);
        left.bound.join(&right.bound);
        self.children.remove(at + 1);
        true
    }

    fn rejoin(&mut self, at: usize) {
        let child = &mut self.children[at];
        child.bound = child.node.total().expect("no child is empty");
    }
}
