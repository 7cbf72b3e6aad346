//! The nodes of the tree, and every change on its way down and up again.
//!
//! A node does not hold the bound of all that is below it: its parent does, next to those of its
//! siblings, so that a search reads one array. Every change therefore gets the *total* of the node
//! it works on handed in, brings it up to date, and says by a [`Change`] what that did to it; a
//! total that stayed as it was ends the work for all levels above.
//!
//! A change may leave a node one entry too wide or too narrow; whoever called it (the parent, or
//! the tree for its root) puts that right with `settle` before it returns itself.

use super::Bound;

/// The widest a node gets.
const MAX: usize = 32;
/// The narrowest a node gets, but for the root. A quarter, so that an entry that goes to and fro
/// between two leaves does not split and merge them each time.
const MIN: usize = MAX / 4;
/// Two neighbours become one when both fit with room to spare; else they share evenly.
const MERGED: usize = MAX * 3 / 4;

/// A subtree.
#[derive(Clone, Debug)]
pub(super) enum Node<K, V, B> {
    Leaf(Leaf<K, V, B>),
    Inner(Inner<K, V, B>),
}

/// Entries: three columns of equal length, in order of the keys.
#[derive(Clone, Debug)]
pub(super) struct Leaf<K, V, B> {
    keys: Vec<K>,
    values: Vec<V>,
    bounds: Vec<B>,
}

/// Subtrees: three columns of equal length. `lows[i]` is at most every key of `children[i]` and
/// above every key before. `lows[0]` is the separator that the levels above have for this node (on
/// the left edge of the tree, where there is none, it says nothing): it is not searched, and goes
/// along when children move to a neighbour.
#[derive(Clone, Debug)]
pub(super) struct Inner<K, V, B> {
    lows: Vec<K>,
    bounds: Vec<B>,
    children: Vec<Node<K, V, B>>,
    /// The number of entries below.
    len: usize,
}

/// What a change did to the total of a node.
pub(super) enum Change<B> {
    None,
    /// It covers what it was, and more.
    Wider,
    /// It does not cover what it was, which is given here.
    Narrower(B),
}

/// An entry that was taken out.
pub(super) struct Removed<V, B> {
    pub(super) value: V,
    pub(super) bound: B,
    change: Change<B>,
}

impl<B: Bound> Change<B> {
    /// The change of the parent's `total` where this is the change of `bounds[at]` in it.
    fn lift(self, total: &mut B, bounds: &[B], at: usize) -> Self {
        match self {
            Self::None => Self::None,
            Self::Wider => replaced(total, bounds, None, Some(&bounds[at])),
            Self::Narrower(was) => replaced(total, bounds, Some(&was), Some(&bounds[at])),
        }
    }

    /// This change followed by a second of the same total.
    fn then(self, second: Self) -> Self {
        match (self, second) {
            (first, Self::None) | (first @ Self::Narrower(_), _) => first,
            (_, second) => second,
        }
    }
}

/// Brings `total` up to date after one of `bounds` changed from `old` to `new`; none where it was
/// not, or is no longer, among them.
fn replaced<B: Bound>(total: &mut B, bounds: &[B], old: Option<&B>, new: Option<&B>) -> Change<B> {
    let wider = new.filter(|new| !total.covers(new));
    let may_shrink =
        old.is_some_and(|old| total.rests_on(old) && !new.is_some_and(|new| new.covers(old)));
    if !may_shrink {
        let Some(wider) = wider else { return Change::None };
        total.join(wider);
        return Change::Wider;
    }
    let before = wider.map(|wider| {
        let before = total.clone();
        total.join(wider);
        before
    });
    match (narrower(bounds, total), before) {
        (Some(exact), before) => {
            let wide = std::mem::replace(total, exact);
            Change::Narrower(before.unwrap_or(wide))
        }
        (None, Some(_)) => Change::Wider,
        (None, None) => Change::None,
    }
}

/// The join of `bounds` where it differs from `most`, which covers each of them: as soon as they
/// add up to it the rest need not be looked at.
fn narrower<B: Bound>(bounds: &[B], most: &B) -> Option<B> {
    let (first, rest) = bounds.split_first()?;
    let mut joined = first.clone();
    for bound in rest {
        if joined == *most {
            return None;
        }
        joined.join(bound);
    }
    (joined != *most).then_some(joined)
}

fn join_all<B: Bound>(bounds: &[B]) -> Option<B> {
    let (first, rest) = bounds.split_first()?;
    let mut joined = first.clone();
    for bound in rest {
        joined.join(bound);
    }
    Some(joined)
}

/// Moves items over the border between two neighbours so that `left` has `width`.
fn share<T>(left: &mut Vec<T>, right: &mut Vec<T>, width: usize) {
    if left.len() > width {
        right.splice(0..0, left.drain(width..));
    } else {
        let missing = width - left.len();
        left.extend(right.drain(..missing));
    }
}

/// A column that is never allocated again while its node lives.
fn column<T>() -> Vec<T> {
    Vec::with_capacity(MAX + 1)
}

impl<K: Ord + Clone, V, B: Bound> Node<K, V, B> {
    pub(super) fn empty() -> Self {
        // No room yet: most queues and applications never have a second child or class.
        Self::Leaf(Leaf { keys: Vec::new(), values: Vec::new(), bounds: Vec::new() })
    }

    /// The number of entries below.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.keys.len(),
            Self::Inner(inner) => inner.len,
        }
    }

    /// Puts the very first entry of a tree in.
    pub(super) fn start(&mut self, key: K, value: V, bound: B) {
        *self = Self::Leaf(Leaf { keys: vec![key], values: vec![value], bounds: vec![bound] });
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
                let at = leaf.keys.binary_search(key).ok()?;
                Some(leaf.set_bound_at(total, at, bound))
            }
            Self::Inner(inner) => {
                let at = inner.route(key);
                let change = inner.children[at].set_bound(&mut inner.bounds[at], key, bound)?;
                Some(change.lift(total, &inner.bounds, at))
            }
        }
    }

    /// None, and nothing changed, where there is no `old`.
    pub(super) fn rekey(&mut self, total: &mut B, old: &K, new: K, bound: B) -> Option<Change<B>> {
        match self {
            Self::Leaf(leaf) => leaf.rekey(total, old, new, bound),
            Self::Inner(inner) => inner.rekey(total, old, new, bound),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<(&V, &B)> {
        match self {
            Self::Leaf(leaf) => {
                let at = leaf.keys.binary_search(key).ok()?;
                Some((&leaf.values[at], &leaf.bounds[at]))
            }
            Self::Inner(inner) => inner.children[inner.route(key)].get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            Self::Leaf(leaf) => {
                let at = leaf.keys.binary_search(key).ok()?;
                Some(&mut leaf.values[at])
            }
            Self::Inner(inner) => {
                let at = inner.route(key);
                inner.children[at].get_mut(key)
            }
        }
    }

    /// The first entry that passes, of all or of those strictly after a key.
    pub(super) fn first<P: Fn(&B) -> bool>(
        &self,
        after: Option<&K>,
        passes: &P,
    ) -> Option<(&K, &V, &B)> {
        match self {
            Self::Leaf(leaf) => {
                let from = after.map_or(0, |after| leaf.keys.partition_point(|key| key <= after));
                let at = from + leaf.bounds[from..].iter().position(passes)?;
                Some((&leaf.keys[at], &leaf.values[at], &leaf.bounds[at]))
            }
            Self::Inner(inner) => {
                let from = after.map_or(0, |after| inner.route(after));
                for (at, bound) in inner.bounds.iter().enumerate().skip(from) {
                    if !passes(bound) {
                        continue;
                    }
                    let after = after.filter(|_| at == from);
                    if let Some(found) = inner.children[at].first(after, passes) {
                        return Some(found);
                    }
                }
                None
            }
        }
    }

    pub(super) fn rank(&self, key: &K) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.keys.partition_point(|other| other < key),
            Self::Inner(inner) => {
                let at = inner.route(key);
                let before: usize = inner.children[..at].iter().map(Node::len).sum();
                before + inner.children[at].rank(key)
            }
        }
    }

    /// Grows or shrinks the tree by a level where its root is too wide or has a single child.
    pub(super) fn settle_root(&mut self) {
        match self {
            Self::Inner(inner) if inner.children.len() == 1 => {
                let only = inner.children.pop().expect("it has one child");
                *self = only;
            }
            _ if self.width() > MAX => {
                let bound = join_all(self.bounds()).expect("a wide node is not empty");
                let low = self.low().clone();
                let len = self.len();
                let old = std::mem::replace(self, Self::empty());
                let mut root = Inner { lows: column(), bounds: column(), children: column(), len };
                root.lows.push(low);
                root.bounds.push(bound);
                root.children.push(old);
                root.split(0);
                *self = Self::Inner(root);
            }
            _ => {}
        }
    }

    /// The number of entries or children of this node itself.
    fn width(&self) -> usize {
        self.bounds().len()
    }

    fn bounds(&self) -> &[B] {
        match self {
            Self::Leaf(leaf) => &leaf.bounds,
            Self::Inner(inner) => &inner.bounds,
        }
    }

    /// What separates this node from its left neighbour.
    fn low(&self) -> &K {
        match self {
            Self::Leaf(leaf) => &leaf.keys[0],
            Self::Inner(inner) => &inner.lows[0],
        }
    }

    /// An empty node of the same level.
    fn empty_twin(&self) -> Self {
        match self {
            Self::Leaf(_) => {
                Self::Leaf(Leaf { keys: column(), values: column(), bounds: column() })
            }
            Self::Inner(_) => {
                Self::Inner(Inner { lows: column(), bounds: column(), children: column(), len: 0 })
            }
        }
    }

    /// Moves the border to the right neighbour so that this node has `width`.
    fn share_with(&mut self, right: &mut Self, width: usize) {
        match (self, right) {
            (Self::Leaf(left), Self::Leaf(right)) => {
                share(&mut left.keys, &mut right.keys, width);
                share(&mut left.values, &mut right.values, width);
                share(&mut left.bounds, &mut right.bounds, width);
            }
            (Self::Inner(left), Self::Inner(right)) => {
                let len = left.len + right.len;
                share(&mut left.lows, &mut right.lows, width);
                share(&mut left.bounds, &mut right.bounds, width);
                share(&mut left.children, &mut right.children, width);
                left.len = left.children.iter().map(Node::len).sum();
                right.len = len - left.len;
            }
            _ => unreachable!("neighbours are of one level"),
        }
    }

    /// Panics unless the subtree is sound; returns its total.
    #[cfg(test)]
    pub(super) fn check(&self, low: Option<&K>, high: Option<&K>, root: bool) -> Option<B>
    where
        K: std::fmt::Debug,
    {
        let within = |key: &K| low.is_none_or(|low| low <= key) && high.is_none_or(|h| key < h);
        assert!(self.width() <= MAX && (root || self.width() >= MIN), "width {}", self.width());
        match self {
            Self::Leaf(leaf) => {
                assert_eq!(leaf.keys.len(), leaf.values.len());
                assert_eq!(leaf.keys.len(), leaf.bounds.len());
                assert!(leaf.keys.is_sorted_by(|a, b| a < b), "keys ascend: {:?}", leaf.keys);
                assert!(leaf.keys.iter().all(within), "keys are where separators lead");
            }
            Self::Inner(inner) => {
                assert!(inner.children.len() > 1, "an inner node has a choice");
                assert_eq!(inner.lows.len(), inner.children.len());
                assert_eq!(inner.bounds.len(), inner.children.len());
                assert!(inner.lows[1..].iter().all(within), "separators are within their parent");
                assert!(low.is_none_or(|low| *low == inner.lows[0]), "the first is the parent's");
                let mut len = 0;
                for (at, child) in inner.children.iter().enumerate() {
                    let low = if at == 0 { low } else { Some(&inner.lows[at]) };
                    let total = child.check(low, inner.lows.get(at + 1).or(high), false);
                    assert!(total.as_ref() == Some(&inner.bounds[at]), "bounds are exact");
                    assert_eq!(child.depth(), inner.children[0].depth());
                    len += child.len();
                }
                assert_eq!(len, inner.len);
            }
        }
        join_all(self.bounds())
    }

    #[cfg(test)]
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::Inner(inner) => 1 + inner.children[0].depth(),
        }
    }
}

impl<K: Ord + Clone, V, B: Bound> Leaf<K, V, B> {
    fn insert(&mut self, total: &mut B, key: K, value: V, bound: B) -> Change<B> {
        match self.keys.binary_search(&key) {
            Ok(at) => {
                debug_assert!(false, "keys are unique");
                self.values[at] = value;
                self.set_bound_at(total, at, bound)
            }
            Err(at) => {
                self.keys.insert(at, key);
                self.values.insert(at, value);
                self.bounds.insert(at, bound);
                replaced(total, &self.bounds, None, Some(&self.bounds[at]))
            }
        }
    }

    fn remove(&mut self, total: &mut B, key: &K) -> Option<Removed<V, B>> {
        let at = self.keys.binary_search(key).ok()?;
        self.keys.remove(at);
        let value = self.values.remove(at);
        let bound = self.bounds.remove(at);
        let change = replaced(total, &self.bounds, Some(&bound), None);
        Some(Removed { value, bound, change })
    }

    fn rekey(&mut self, total: &mut B, old: &K, new: K, bound: B) -> Option<Change<B>> {
        let from = self.keys.binary_search(old).ok()?;
        let to = match self.keys.binary_search(&new) {
            Ok(same) if same == from => from,
            Ok(_) => {
                let Removed { value, change, .. } = self.remove(total, old)?;
                return Some(change.then(self.insert(total, new, value, bound)));
            }
            Err(before) if before > from => before - 1,
            Err(before) => before,
        };
        if from < to {
            self.keys[from..=to].rotate_left(1);
            self.values[from..=to].rotate_left(1);
            self.bounds[from..=to].rotate_left(1);
        } else {
            self.keys[to..=from].rotate_right(1);
            self.values[to..=from].rotate_right(1);
            self.bounds[to..=from].rotate_right(1);
        }
        self.keys[to] = new;
        Some(self.set_bound_at(total, to, bound))
    }

    fn set_bound_at(&mut self, total: &mut B, at: usize, bound: B) -> Change<B> {
        let old = std::mem::replace(&mut self.bounds[at], bound);
        replaced(total, &self.bounds, Some(&old), Some(&self.bounds[at]))
    }
}

impl<K: Ord + Clone, V, B: Bound> Inner<K, V, B> {
    /// The child where `key` is, or would be.
    fn route(&self, key: &K) -> usize {
        self.lows[1..].partition_point(|low| low <= key)
    }

    fn insert(&mut self, total: &mut B, key: K, value: V, bound: B) -> Change<B> {
        let at = self.route(&key);
        let before = self.children[at].len();
        let change = self.children[at].insert(&mut self.bounds[at], key, value, bound);
        self.len = self.len - before + self.children[at].len();
        let change = change.lift(total, &self.bounds, at);
        self.settle(at);
        change
    }

    fn remove(&mut self, total: &mut B, key: &K) -> Option<Removed<V, B>> {
        let at = self.route(key);
        let mut removed = self.children[at].remove(&mut self.bounds[at], key)?;
        self.len -= 1;
        removed.change = removed.change.lift(total, &self.bounds, at);
        self.settle(at);
        Some(removed)
    }

    fn rekey(&mut self, total: &mut B, old: &K, new: K, bound: B) -> Option<Change<B>> {
        let at = self.route(old);
        if at != self.route(&new) {
            let Removed { value, change, .. } = self.remove(total, old)?;
            return Some(change.then(self.insert(total, new, value, bound)));
        }
        let before = self.children[at].len();
        let change = self.children[at].rekey(&mut self.bounds[at], old, new, bound)?;
        self.len = self.len - before + self.children[at].len();
        let change = change.lift(total, &self.bounds, at);
        self.settle(at);
        Some(change)
    }

    /// Puts right a child that has become too wide or too narrow. What is below stays the same,
    /// so this node's own total does too.
    fn settle(&mut self, at: usize) {
        let width = self.children[at].width();
        if width > MAX {
            self.split(at);
        } else if width < MIN && self.children.len() > 1 {
            self.level(at.min(self.children.len() - 2));
        }
    }

    /// Splits the child at `at` in two.
    fn split(&mut self, at: usize) {
        // Growth at the end (nodes that fill up one after another, arrivals in order of time)
        // would leave half-full nodes behind for good.
        let at_end = at + 1 == self.children.len();
        let width = if at_end { MAX - MIN } else { MAX / 2 };
        let mut right = self.children[at].empty_twin();
        self.children[at].share_with(&mut right, width);
        self.lows.insert(at + 1, right.low().clone());
        self.bounds.insert(at + 1, self.bounds[at].clone());
        self.children.insert(at + 1, right);
        self.rejoin(at);
        self.rejoin(at + 1);
    }

    /// Merges the child at `at` with the one after it, or lets them share what they have.
    fn level(&mut self, at: usize) {
        let (left, right) = self.children.split_at_mut(at + 1);
        let (left, right) = (&mut left[at], &mut right[0]);
        let both = left.width() + right.width();
        if both <= MERGED {
            left.share_with(right, both);
            self.children.remove(at + 1);
            self.lows.remove(at + 1);
            let other = self.bounds.remove(at + 1);
            self.bounds[at].join(&other);
        } else {
            left.share_with(right, both / 2);
            self.lows[at + 1] = right.low().clone();
            self.rejoin(at);
            self.rejoin(at + 1);
        }
    }

    fn rejoin(&mut self, at: usize) {
        self.bounds[at] = join_all(self.children[at].bounds()).expect("no child is empty");
    }
}

/// All entries of a tree in order: where the walk stands on each level.
pub(super) struct Walk<'a, K, V, B> {
    above: Vec<std::slice::Iter<'a, Node<K, V, B>>>,
    leaf: Option<(&'a Leaf<K, V, B>, usize)>,
}

impl<'a, K, V, B> Walk<'a, K, V, B> {
    pub(super) fn new(root: &'a Node<K, V, B>) -> Self {
        let mut walk = Self { above: Vec::new(), leaf: None };
        walk.descend(root);
        walk
    }

    fn descend(&mut self, mut node: &'a Node<K, V, B>) {
        loop {
            match node {
                Node::Leaf(leaf) => {
                    self.leaf = Some((leaf, 0));
                    return;
                }
                Node::Inner(inner) => {
                    let mut children = inner.children.iter();
                    node = children.next().expect("an inner node has children");
                    self.above.push(children);
                }
            }
        }
    }
}

impl<'a, K, V, B> Iterator for Walk<'a, K, V, B> {
    type Item = (&'a K, &'a V, &'a B);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (leaf, at) = self.leaf?;
            if at < leaf.keys.len() {
                self.leaf = Some((leaf, at + 1));
                return Some((&leaf.keys[at], &leaf.values[at], &leaf.bounds[at]));
            }
            let next = loop {
                let Some(children) = self.above.last_mut() else {
                    self.leaf = None;
                    return None;
                };
                match children.next() {
                    Some(next) => break next,
                    None => self.above.pop(),
                };
            };
            self.descend(next);
        }
    }
}
