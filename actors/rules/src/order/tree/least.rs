//! The entry with the least score, by a best-first search with the bounds of subtrees.
//!
//! # Why
//! [`OrderedTree::first`] searches in order of the keys. Some questions need another order, and are
//! too rare to keep a tree for it: which node lacks least of what an ask requests, which node an
//! ask would fill best. A subtree is opened only if its bound allows a score that is no greater
//! than that of the best entry found before.
//!
//! # What a caller may rely on
//! `of_bound` must be a *lower bound*: it returns at most the least score of the entries that the
//! bound covers, and `None` only if none of them has a score. Then the answer is that of a scan:
//! the entry with the least score, and of equal ones the first in order. If `of_bound` is lower
//! than necessary, the search takes longer and the answer is the same.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::node::Node;
use super::{Bound, OrderedTree};

/// A subtree that may contain the answer.
struct Subtree<'a, S, K, V, B> {
    /// A lower bound of the scores below.
    score: S,
    /// The number of entries before it.
    position: usize,
    node: &'a Node<K, V, B>,
}

impl<K: Ord + Clone, V, B: Bound> OrderedTree<K, V, B> {
    /// Returns the entry with the least score, of several the first, with its score; `None` if no
    /// entry has a score. The head of the module says what `of_bound` must fulfil.
    ///
    /// ```
    /// use monoceros_rules::order::tree::{Bound, OrderedTree};
    ///
    /// #[derive(Clone, PartialEq)]
    /// struct MostFree(u32);
    /// impl Bound for MostFree {
    ///     fn join(&mut self, other: &Self) {
    ///         self.0 = self.0.max(other.0);
    ///     }
    /// }
    ///
    /// let mut nodes = OrderedTree::new();
    /// nodes.insert(10, "n1", MostFree(1));
    /// nodes.insert(20, "n2", MostFree(4));
    /// nodes.insert(30, "n3", MostFree(4));
    /// let lacks = |free: &MostFree| Some(6 - free.0.min(6));
    /// let least = nodes.least(lacks, |_, _, free| lacks(free));
    /// assert_eq!(least.map(|(score, _, name, _)| (score, *name)), Some((2, "n2")));
    /// ```
    pub fn least<S: Ord>(
        &self,
        of_bound: impl Fn(&B) -> Option<S>,
        of_entry: impl Fn(&K, &V, &B) -> Option<S>,
    ) -> Option<(S, &K, &V, &B)> {
        let score = of_bound(self.bound.as_ref()?)?;
        let mut subtrees = BinaryHeap::new();
        subtrees.push(Reverse(Subtree { score, position: 0, node: &self.root }));
        let mut best: Option<(S, usize, (&K, &V, &B))> = None;
        while let Some(Reverse(subtree)) = subtrees.pop() {
            if !is_before(&subtree.score, subtree.position, best.as_ref()) {
                break;
            }
            let mut position = subtree.position;
            for (key, value, bound) in subtree.node.entries() {
                if let Some(score) = of_entry(key, value, bound)
                    && is_before(&score, position, best.as_ref())
                {
                    best = Some((score, position, (key, value, bound)));
                }
                position += 1;
            }
            for (bound, node) in subtree.node.children() {
                if let Some(score) = of_bound(bound)
                    && is_before(&score, position, best.as_ref())
                {
                    subtrees.push(Reverse(Subtree { score, position, node }));
                }
                position += node.len();
            }
        }
        best.map(|(score, _, (key, value, bound))| (score, key, value, bound))
    }
}

/// Whether this score at this position comes before the best entry found before.
fn is_before<S: Ord, E>(score: &S, position: usize, best: Option<&(S, usize, E)>) -> bool {
    best.is_none_or(|(least, at, _)| (score, position) < (least, *at))
}

impl<S: Ord, K, V, B> Ord for Subtree<'_, S, K, V, B> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.cmp(&other.score).then(self.position.cmp(&other.position))
    }
}

impl<S: Ord, K, V, B> PartialOrd for Subtree<'_, S, K, V, B> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<S: Ord, K, V, B> PartialEq for Subtree<'_, S, K, V, B> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<S: Ord, K, V, B> Eq for Subtree<'_, S, K, V, B> {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// The maximum of each of two quantities, like free cores and free memory of nodes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Most(u8, u8);

    impl Bound for Most {
        fn join(&mut self, other: &Self) {
            self.0 = self.0.max(other.0);
            self.1 = self.1.max(other.1);
        }
    }

    /// Returns the larger of the two shortages; `None` if there is nothing of the second quantity.
    fn short(of: Most, wanted: (u8, u8)) -> Option<u8> {
        (of.1 > 0).then(|| wanted.0.saturating_sub(of.0).max(wanted.1.saturating_sub(of.1)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_least_is_the_one_that_a_scan_finds_first(
            entries in prop::collection::btree_map(0..5_000_u16, (0..9_u8, 0..9_u8), 0..900),
            asks in prop::collection::vec((0..12_u8, 0..12_u8), 1..20),
        ) {
            let mut tree = OrderedTree::new();
            for (key, (a, b)) in &entries {
                tree.insert(*key, (), Most(*a, *b));
            }
            for wanted in asks {
                let scores = entries.iter().filter_map(|(key, (a, b))| {
                    Some((short(Most(*a, *b), wanted)?, *key))
                });
                let found = tree.least(|most| short(*most, wanted), |_, (), most| short(*most, wanted));
                prop_assert_eq!(found.map(|(score, key, ..)| (score, *key)), scores.min());
            }
        }
    }

    #[test]
    fn only_subtrees_that_may_hold_the_least_are_opened() {
        let mut tree = OrderedTree::new();
        for key in 0..20_000_u32 {
            tree.insert(key, (), Most(u8::try_from(key / 100).unwrap(), 9));
        }
        let looked_at = Cell::new(0);
        let found = tree.least(
            |most| short(*most, (250, 0)),
            |_, (), most| {
                looked_at.set(looked_at.get() + 1);
                short(*most, (250, 0))
            },
        );
        assert_eq!(found.map(|(score, key, ..)| (score, *key)), Some((51, 19_900)));
        assert!(looked_at.get() <= 64, "looked at {}", looked_at.get());
    }

    #[test]
    fn an_empty_tree_and_one_without_scores_have_no_least() {
        let mut tree: OrderedTree<u8, (), Most> = OrderedTree::new();
        assert!(tree.least(|_| Some(1), |_, (), _| Some(1)).is_none());
        tree.insert(1, (), Most(1, 0));
        assert!(tree.least(|_| Some(1), |_, (), most| short(*most, (1, 1))).is_none());
    }
}
