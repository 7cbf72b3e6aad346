//! The nodes of the tree, and the recursion of every change down to a leaf and up again. Changes of
//! a [leaf](Leaf) and of an [inner node](Inner) are in a file each.
//!
//! A node does not hold the bound of all entries below it: its parent does, next to the bounds of
//! its siblings, so that a search reads one array. So every change gets the *total* of the node
//! that it changes, updates it, and returns a [`Change`]. A total that stays the same ends the work
//! for all levels above.
//!
//! A change may leave a node one entry too wide, too narrow, or empty. The caller (the parent, or
//! the tree for its root) corrects that before it returns.
//!
//! A narrow node between wide ones stays until it is empty, and takes no entries from them. Else,
//! if the first entry of an order is always moved away (the emptiest node gets an allocation), the
//! first leaf would be filled from its neighbour again and again.

mod inner;
mod leaf;
mod walk;

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

pub(super) use walk::Walk;

use super::bound::{Between, Bound};
use super::change::{Change, join_all};

/// The largest width of a node. To re-key one of 100,000 entries took 1.3 us with 16, 1.1 with 24,
/// and 1.0 with 32; 48 is no quicker.
const MAX: usize = 32;
/// The least width of a node: a narrower one is merged with a neighbour. A quarter of [`MAX`], so
/// that an entry that moves to and fro between two leaves does not split and merge them each time.
const MIN: usize = MAX / 4;
/// The most entries or children of two neighbours together that are merged: room is left for more.
const MERGED: usize = MAX * 3 / 4;

/// A subtree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Node<K, V, B> {
    Leaf(Leaf<K, V, B>),
    Inner(Inner<K, V, B>),
}

/// Entries in order of their keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Leaf<K, V, B> {
    entries: Vec<Entry<K, V, B>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry<K, V, B> {
    key: K,
    bound: B,
    value: V,
}

/// Subtrees in order of their keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Inner<K, V, B> {
    children: Vec<Child<K, V, B>>,
    /// The number of entries below.
    len: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Child<K, V, B> {
    /// The separator: at most every key below, and above every key before. The separator of a first
    /// child equals that of its parent on the level above (on the left edge of the tree it has no
    /// meaning). It is not searched, and is needed when children move to a neighbour.
    low: K,
    bound: B,
    node: Node<K, V, B>,
}

/// The value of an entry that was removed.
pub(super) struct Removed<V, B> {
    pub(super) value: V,
    change: Change<B>,
}

/// Returns memory for the entries of a node, which suffices as long as the node lives.
fn room<T>() -> Vec<T> {
    Vec::with_capacity(MAX + 1)
}

/// Splits off the entries after the first `width`, into memory by [`room`].
fn split_off<T>(all: &mut Vec<T>, width: usize) -> Vec<T> {
    let mut others = room();
    others.extend(all.drain(width..));
    others
}

impl<K, V, B> Node<K, V, B> {
    /// The number of entries below.
    fn count(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.entries.len(),
            Self::Inner(inner) => inner.len,
        }
    }
}

impl<K: Ord + Clone, V, B: Bound> Node<K, V, B> {
    pub(super) fn empty() -> Self {
        // No memory yet: most queues and applications never have a second child or class.
        Self::Leaf(Leaf { entries: Vec::new() })
    }

    /// The number of entries below.
    pub(super) fn len(&self) -> usize {
        self.count()
    }

    /// Inserts the first entry of a tree that is empty, or became empty. A tree that has an entry
    /// only at times, such as the row of a queue in which a request sometimes waits, keeps its
    /// memory.
    pub(super) fn start(&mut self, key: K, value: V, bound: B) {
        let entry = Entry { key, bound, value };
        match self {
            Self::Leaf(leaf) if leaf.entries.capacity() > 0 => {
                debug_assert!(leaf.entries.is_empty(), "a tree starts without entries");
                leaf.entries.clear();
                leaf.entries.push(entry);
            }
            _ => *self = Self::Leaf(Leaf { entries: vec![entry] }),
        }
    }

    pub(super) fn insert(&mut self, total: &mut B, key: K, value: V, bound: B) -> Change<B> {
        match self {
            Self::Leaf(leaf) => leaf.insert(total, key, value, bound),
            Self::Inner(inner) => inner.insert(total, key, value, bound),
        }
    }

    pub(super) fn remove(&mut self, total: &mut B, key: &K) -> Option<Removed<V, B>> {
        match self {
            Self::Leaf(leaf) => leaf.remove(total, key),
            Self::Inner(inner) => inner.remove(total, key),
        }
    }

    pub(super) fn set_bound(&mut self, total: &mut B, key: &K, bound: B) -> Option<Change<B>> {
        match self {
            Self::Leaf(leaf) => {
                let at = leaf.find(key).ok()?;
                Some(leaf.set_bound_at(total, at, bound))
            }
            Self::Inner(inner) => {
                let at = inner.route(key);
                let child = &mut inner.children[at];
                let change = child.node.set_bound(&mut child.bound, key, bound)?;
                Some(inner.lift(change, total, at))
            }
        }
    }

    /// `None`, without a change, if there is no `old`.
    pub(super) fn rekey(&mut self, total: &mut B, old: &K, new: K, bound: B) -> Option<Change<B>> {
        match self {
            Self::Leaf(leaf) => leaf.rekey(total, old, new, bound),
            Self::Inner(inner) => inner.rekey(total, old, new, bound),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<(&V, &B)> {
        match self {
            Self::Leaf(leaf) => {
                let entry = &leaf.entries[leaf.find(key).ok()?];
                Some((&entry.value, &entry.bound))
            }
            Self::Inner(inner) => inner.children[inner.route(key)].node.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            Self::Leaf(leaf) => {
                let at = leaf.find(key).ok()?;
                Some(&mut leaf.entries[at].value)
            }
            Self::Inner(inner) => {
                let at = inner.route(key);
                inner.children[at].node.get_mut(key)
            }
        }
    }

    /// Returns the first entry that passes, of all or of those strictly after a key.
    pub(super) fn first<P: Fn(&B) -> bool>(
        &self,
        after: Option<&K>,
        passes: &P,
    ) -> Option<(&K, &V, &B)> {
        match self {
            Self::Leaf(leaf) => {
                let from = after.map_or(0, |after| leaf.before(|key| key <= after));
                leaf.entries[from..].iter().find(|entry| passes(&entry.bound)).map(Entry::parts)
            }
            Self::Inner(inner) => {
                let from = after.map_or(0, |after| inner.route(after));
                for (at, child) in inner.children.iter().enumerate().skip(from) {
                    if !passes(&child.bound) {
                        continue;
                    }
                    let after = after.filter(|_| at == from);
                    if let Some(found) = child.node.first(after, passes) {
                        return Some(found);
                    }
                }
                None
            }
        }
    }

    /// Visits the entries that pass, in order, until `met` breaks.
    pub(super) fn each<'a, P: Fn(&B) -> bool>(
        &'a self,
        passes: &P,
        met: &mut impl FnMut((&'a K, &'a V, &'a B)) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Self::Leaf(leaf) => {
                let mut passing = leaf.entries.iter().filter(|entry| passes(&entry.bound));
                passing.try_for_each(|entry| met(entry.parts()))
            }
            Self::Inner(inner) => {
                let mut passing = inner.children.iter().filter(|child| passes(&child.bound));
                passing.try_for_each(|child| child.node.each(passes, met))
            }
        }
    }

    /// Returns the last entry that passes, of all or of those strictly before a key.
    pub(super) fn last<P: Fn(&B) -> bool>(
        &self,
        before: Option<&K>,
        passes: &P,
    ) -> Option<(&K, &V, &B)> {
        match self {
            Self::Leaf(leaf) => {
                let end =
                    before.map_or(leaf.entries.len(), |before| leaf.before(|key| key < before));
                leaf.entries[..end].iter().rfind(|entry| passes(&entry.bound)).map(Entry::parts)
            }
            Self::Inner(inner) => {
                let end = before.map_or(inner.children.len() - 1, |before| inner.route(before));
                for (at, child) in inner.children.iter().enumerate().take(end + 1).rev() {
                    if !passes(&child.bound) {
                        continue;
                    }
                    let before = before.filter(|_| at == end);
                    if let Some(found) = child.node.last(before, passes) {
                        return Some(found);
                    }
                }
                None
            }
        }
    }

    /// Visits the entries strictly between two keys, of which the first may be missing: one by one
    /// in the leaves of the keys, and as a number for whole subtrees between them.
    pub(super) fn between<'a>(
        &'a self,
        after: Option<&K>,
        before: &K,
        met: &mut impl FnMut(Between<'a, V, B>),
    ) {
        match self {
            Self::Leaf(leaf) => {
                let from = after.map_or(0, |after| leaf.before(|key| key <= after));
                let end = leaf.before(|key| key < before);
                for entry in leaf.entries.get(from..end).unwrap_or_default() {
                    met(Between::One(&entry.value, &entry.bound));
                }
            }
            Self::Inner(inner) => {
                let from = after.map(|after| inner.route(after));
                let end = inner.route(before);
                if from == Some(end) {
                    return inner.children[end].node.between(after, before, met);
                }
                if let (Some(at), Some(after)) = (from, after) {
                    inner.children[at].node.behind(after, met);
                }
                let many = inner.count(from.map_or(0, |from| from + 1)..end);
                if many > 0 {
                    met(Between::Many(many));
                }
                inner.children[end].node.between(None, before, met);
            }
        }
    }

    /// Visits the entries after a key as [`Self::between`] does, to the end.
    fn behind<'a>(&'a self, after: &K, met: &mut impl FnMut(Between<'a, V, B>)) {
        match self {
            Self::Leaf(leaf) => {
                let from = leaf.before(|key| key <= after);
                for entry in &leaf.entries[from..] {
                    met(Between::One(&entry.value, &entry.bound));
                }
            }
            Self::Inner(inner) => {
                let from = inner.route(after);
                inner.children[from].node.behind(after, met);
                let many = inner.count(from + 1..inner.children.len());
                if many > 0 {
                    met(Between::Many(many));
                }
            }
        }
    }

    /// Returns the entries of this node itself, in order; an inner node has none.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&K, &V, &B)> {
        let entries = match self {
            Self::Leaf(leaf) => leaf.entries.as_slice(),
            Self::Inner(_) => &[],
        };
        entries.iter().map(Entry::parts)
    }

    /// Returns the subtrees below this node, in order, each with its bound; a leaf has none.
    pub(super) fn children(&self) -> impl Iterator<Item = (&B, &Self)> {
        let children = match self {
            Self::Leaf(_) => &[],
            Self::Inner(inner) => inner.children.as_slice(),
        };
        children.iter().map(|child| (&child.bound, &child.node))
    }

    pub(super) fn rank(&self, key: &K) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.before(|other| other < key),
            Self::Inner(inner) => {
                let at = inner.route(key);
                inner.count(..at) + inner.children[at].node.rank(key)
            }
        }
    }

    /// Adds or removes a level if the root is too wide or has a single child.
    pub(super) fn rebalance_root(&mut self) {
        while let Self::Inner(inner) = self
            && inner.children.len() == 1
            && let Some(only) = inner.children.pop()
        {
            *self = only.node;
        }
        if self.width() > MAX {
            let bound = self.total().expect("a wide node is not empty");
            let (low, len) = (self.low().clone(), self.len());
            let node = std::mem::replace(self, Self::empty());
            let mut root = Inner { children: room(), len };
            root.children.push(Child { low, bound, node });
            root.rebalance(0);
            *self = Self::Inner(root);
        }
    }

    /// The number of entries or children of this node itself, not below.
    fn width(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.entries.len(),
            Self::Inner(inner) => inner.children.len(),
        }
    }

    /// Returns the join of the bounds of all entries or children.
    fn total(&self) -> Option<B> {
        match self {
            Self::Leaf(leaf) => join_all(leaf.bounds()),
            Self::Inner(inner) => join_all(inner.bounds()),
        }
    }

    /// Returns the separator of this node from its left neighbour.
    fn low(&self) -> &K {
        match self {
            Self::Leaf(leaf) => &leaf.entries[0].key,
            Self::Inner(inner) => &inner.children[0].low,
        }
    }

    /// Appends the entries or children of the right neighbour, and leaves that empty.
    fn append(&mut self, right: &mut Self) {
        match (self, right) {
            (Self::Leaf(left), Self::Leaf(right)) => left.entries.append(&mut right.entries),
            (Self::Inner(left), Self::Inner(right)) => left.append(right),
            _ => unreachable!("neighbours are of one level"),
        }
    }

    /// Keeps the first `width` entries or children; returns a new right neighbour with the others.
    fn split_off(&mut self, width: usize) -> Self {
        match self {
            Self::Leaf(left) => Self::Leaf(Leaf { entries: split_off(&mut left.entries, width) }),
            Self::Inner(left) => Self::Inner(left.split_off(width)),
        }
    }

    /// Panics unless the subtree is sound; returns its total.
    #[cfg(test)]
    pub(super) fn check(&self, low: Option<&K>, high: Option<&K>, root: bool) -> Option<B>
    where
        K: std::fmt::Debug,
    {
        let within = |key: &K| low.is_none_or(|low| low <= key) && high.is_none_or(|h| key < h);
        assert!(self.width() <= MAX && (root || self.width() > 0), "width {}", self.width());
        match self {
            Self::Leaf(leaf) => {
                assert!(leaf.entries.is_sorted_by(|a, b| a.key < b.key), "keys ascend");
                assert!(leaf.entries.iter().all(|e| within(&e.key)), "separators lead to keys");
            }
            Self::Inner(inner) => {
                let children = &inner.children;
                assert!(children.len() > usize::from(root), "a root has a choice");
                let is_narrow = |child: &Child<K, V, B>| child.node.width() < MIN;
                let both_are = |pair: &[Child<K, V, B>]| pair.iter().all(is_narrow);
                assert!(!children.windows(2).any(both_are), "one of two neighbours is not narrow");
                assert!(children[1..].iter().all(|child| within(&child.low)));
                assert!(low.is_none_or(|low| *low == children[0].low), "the first is the parent's");
                for (at, child) in children.iter().enumerate() {
                    let low = if at == 0 { low } else { Some(&child.low) };
                    let high = children.get(at + 1).map(|next| &next.low).or(high);
                    let total = child.node.check(low, high, false);
                    assert!(total.as_ref() == Some(&child.bound), "bounds are exact");
                    assert_eq!(child.node.depth(), children[0].node.depth());
                }
                assert_eq!(inner.count(..), inner.len);
            }
        }
        self.total()
    }

    #[cfg(test)]
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::Inner(inner) => 1 + inner.children[0].node.depth(),
        }
    }
}

impl<K, V, B> Entry<K, V, B> {
    fn parts(&self) -> (&K, &V, &B) {
        (&self.key, &self.value, &self.bound)
    }
}
