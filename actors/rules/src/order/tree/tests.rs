use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::values::again::written_and_read;

/// The maximum of each of two quantities, like free cores and free memory of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Most(u8, u8);

impl Bound for Most {
    fn join(&mut self, other: &Self) {
        self.0 = self.0.max(other.0);
        self.1 = self.1.max(other.1);
    }

    fn without<'a>(
        &self,
        gone: &Self,
        parts: impl Iterator<Item = &'a Self> + Clone,
    ) -> Option<Self> {
        if gone.0 < self.0 && gone.1 < self.1 {
            return None;
        }
        let most = |of: fn(&Self) -> u8| parts.clone().map(of).max();
        let left = Self(most(|part| part.0)?, most(|part| part.1)?);
        (left != *self).then_some(left)
    }
}

/// The minimum, like the least ask of applications; uses the default of `without`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Least(u8);

impl Bound for Least {
    fn join(&mut self, other: &Self) {
        self.0 = self.0.min(other.0);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, Most),
    Remove(u16),
    /// Moves the entry of this rank (modulo the number of entries) by so many keys up or down.
    Move(u16, i16, Most),
    SetBound(u16, Most),
    First(Most),
    FirstAfter(u16, Most),
    Between(u16, u16),
    WriteAndRead,
}

const KEYS: u16 = 6_000;

fn most() -> impl Strategy<Value = Most> {
    // Few distinct values, so that equal bounds are side by side and totals depend on one entry.
    prop_oneof![
        8 => (0..4_u8, 0..4_u8),
        1 => (0..=255_u8, 0..=255_u8),
    ]
    .prop_map(|(a, b)| Most(a, b))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..KEYS, most()).prop_map(|(key, bound)| Step::Insert(key, bound)),
        3 => (0..KEYS).prop_map(Step::Remove),
        2 => (0..KEYS, -40..40_i16, most()).prop_map(|(at, by, b)| Step::Move(at, by, b)),
        2 => (0..KEYS, any::<i16>(), most()).prop_map(|(at, by, b)| Step::Move(at, by, b)),
        2 => (0..KEYS, most()).prop_map(|(key, bound)| Step::SetBound(key, bound)),
        1 => most().prop_map(Step::First),
        1 => (0..KEYS, most()).prop_map(|(key, bound)| Step::FirstAfter(key, bound)),
        1 => (0..KEYS, 0..KEYS).prop_map(|(after, before)| Step::Between(after, before)),
        1 => Just(Step::WriteAndRead),
    ]
}

type Naive = BTreeMap<u16, (u32, Most)>;

fn holds(ask: Most) -> impl Fn(&Most) -> bool {
    move |bound| bound.0 >= ask.0 && bound.1 >= ask.1
}

fn take(tree: &mut OrderedTree<u16, u32, Most>, naive: &mut Naive, step: &Step) {
    let key_of = |naive: &Naive, at: u16| {
        let at = usize::from(at) % naive.len().max(1);
        naive.keys().nth(at).copied()
    };
    match *step {
        Step::Insert(key, bound) => {
            if let Entry::Vacant(free) = naive.entry(key) {
                free.insert((u32::from(key), bound));
                tree.insert(key, u32::from(key), bound);
            }
        }
        Step::Remove(key) => {
            assert_eq!(tree.remove(&key), naive.remove(&key).map(|(value, _)| value));
        }
        Step::Move(at, by, bound) => {
            let old = key_of(naive, at).unwrap_or(at);
            let new = old.saturating_add_signed(by);
            if new == old || !naive.contains_key(&new) {
                let there = naive.remove(&old);
                if let Some((value, _)) = there {
                    naive.insert(new, (value, bound));
                }
                assert_eq!(tree.rekey(&old, new, bound), there.is_some());
            }
        }
        Step::SetBound(key, bound) => {
            let there = naive.get_mut(&key).map(|entry| entry.1 = bound);
            assert_eq!(tree.set_bound(&key, bound), there.is_some());
        }
        Step::First(ask) => {
            let found = naive.iter().find(|(_, (_, bound))| holds(ask)(bound));
            let found = found.map(|(key, (value, bound))| (key, value, bound));
            assert_eq!(tree.first(holds(ask)), found);
            let mut passing = naive.iter().filter(|(_, (_, bound))| holds(ask)(bound));
            let mut next = || passing.next().map(|(key, (value, bound))| (key, value, bound));
            assert_eq!(tree.first_two(holds(ask)), [next(), next()]);
            let found = naive.iter().rfind(|(_, (_, bound))| holds(ask)(bound));
            let found = found.map(|(key, (value, bound))| (key, value, bound));
            assert_eq!(tree.last(None, holds(ask)), found);
        }
        Step::FirstAfter(key, ask) => {
            let mut after = naive.range(key + 1..);
            let found = after.find(|(_, (_, bound))| holds(ask)(bound));
            let found = found.map(|(key, (value, bound))| (key, value, bound));
            assert_eq!(tree.first_after(&key, holds(ask)), found);
            assert_eq!(tree.rank(&key), naive.range(..key).count());
            let found = naive.range(..key).rfind(|(_, (_, bound))| holds(ask)(bound));
            let found = found.map(|(key, (value, bound))| (key, value, bound));
            assert_eq!(tree.last(Some(&key), holds(ask)), found);
        }
        Step::Between(after, before) => {
            for after in [None, Some(after)] {
                walks_between(tree, naive, after, before);
            }
        }
        // It has the shape that it had: what is written of it has the nodes.
        Step::WriteAndRead => *tree = written_and_read(tree),
    }
}

/// A walk visits every entry between two keys once, and only few of them one by one.
fn walks_between(
    tree: &OrderedTree<u16, u32, Most>,
    naive: &Naive,
    after: Option<u16>,
    before: u16,
) {
    let is_between = |key: u16| after.is_none_or(|after| key > after) && key < before;
    let (mut met, mut one_by_one) = (0, 0);
    tree.between(after.as_ref(), &before, |it| match it {
        Between::Many(many) => met += many,
        Between::One(value, bound) => {
            let mut there = naive.iter().filter(|(key, _)| is_between(**key));
            assert!(there.any(|(_, entry)| *entry == (*value, *bound)));
            (met, one_by_one) = (met + 1, one_by_one + 1);
        }
    });
    assert_eq!(met, naive.keys().filter(|key| is_between(**key)).count());
    assert!(one_by_one <= 64, "the leaves at both ends");
}

fn same(tree: &OrderedTree<u16, u32, Most>, naive: &Naive) {
    tree.check();
    assert_eq!(tree.len(), naive.len());
    assert_eq!(tree.is_empty(), naive.is_empty());
    assert!(
        tree.iter().map(|(k, v, b)| (*k, (*v, *b))).eq(naive.iter().map(|(k, entry)| (*k, *entry)))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_history_agrees_with_a_sorted_map_and_a_scan(
        start in prop_oneof![Just(0_u16), 0..40_u16, 1_000..2_500_u16],
        stride in prop_oneof![Just(1_u16), Just(2), Just(3_989)],
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let (mut tree, mut naive) = (OrderedTree::new(), Naive::new());
        for at in 0..start {
            // A stride that shares no factor with `KEYS` visits keys in a scattered order.
            let key = u16::try_from(u32::from(at) * u32::from(stride) % u32::from(KEYS)).unwrap();
            let bound = Most((key % 5) as u8, (key % 7) as u8);
            take(&mut tree, &mut naive, &Step::Insert(key, bound));
        }
        same(&tree, &naive);
        for (at, step) in steps.iter().enumerate() {
            take(&mut tree, &mut naive, step);
            if at % 16 == 0 {
                same(&tree, &naive);
            }
        }
        same(&tree, &naive);
    }
}

/// A fixed sequence that looks random (a linear congruential generator).
fn scattered(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |x| {
        Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .map(|x| x >> 33)
}

#[test]
fn the_depth_stays_logarithmic_while_a_tree_is_emptied_from_any_side() {
    let n = 6_000_u64;
    let orders: [Vec<u64>; 3] = [
        (0..n).collect(),
        (0..n).rev().collect(),
        // 3,989 is prime and shares no factor with 6,000.
        (0..n).map(|i| i * 3_989 % n).collect(),
    ];
    for order in &orders {
        let mut tree = OrderedTree::new();
        (0..n).for_each(|key| tree.insert(key, key, Least((key % 250) as u8)));
        assert_eq!(tree.root.depth(), 3);
        for (gone, key) in order.iter().enumerate() {
            assert!(tree.remove(key).is_some());
            if gone % 500 == 0 {
                tree.check();
            }
        }
        tree.check();
        assert!(tree.is_empty() && tree.bound().is_none());
        assert_eq!(tree.root.depth(), 1);
    }
}

#[test]
fn moving_the_first_to_the_end_keeps_order_and_depth() {
    let n = 2_000_u64;
    let mut tree = OrderedTree::new();
    (0..n).for_each(|key| tree.insert(key, key, Least(9)));
    for round in 0..3 * n {
        let (first, value, _) = tree.first(|_| true).expect("it has entries");
        assert_eq!((*first, *value), (round, round % n));
        assert!(tree.rekey(&round, round + n, Least((round % 9) as u8)));
        if round % 7 == 0 {
            tree.check();
        }
    }
    tree.check();
    assert!(tree.root.depth() <= 3);
}

/// A tree of four levels. Whole subtrees are removed from the front of inner nodes, added again,
/// and merged with their neighbours.
#[test]
fn a_subtree_that_begins_where_another_did_is_found_there() {
    let n = 26_000_u64;
    let mut tree = OrderedTree::new();
    (0..n).for_each(|key| tree.insert(2 * key, key, Least((key % 250) as u8)));
    assert_eq!(tree.root.depth(), 4);
    // In the middle of the tree: the entries below more than one of root's children.
    let gone = 2 * 9_000..2 * 18_000;
    for key in gone.clone().step_by(2) {
        assert!(tree.remove(&key).is_some());
    }
    tree.check();
    for key in gone.clone().step_by(2).filter(|key| key % 5 == 0) {
        tree.insert(key + 1, key, Least(7));
    }
    tree.check();
    // Few entries before and behind are left, so that neighbours merge on every level.
    for key in (0..2 * n).step_by(2).filter(|key| key % 64 != 0 && !gone.contains(key)) {
        assert!(tree.remove(&key).is_some());
    }
    tree.check();
    for key in gone.step_by(2).filter(|key| key % 5 == 0) {
        assert_eq!(tree.get(&(key + 1)), Some((&key, &Least(7))));
        assert!(tree.rekey(&(key + 1), key, Least(8)) && tree.remove(&key).is_some());
    }
    tree.check();
}

#[test]
fn keys_that_move_at_random_keep_every_bound_exact() {
    let mut tree = OrderedTree::new();
    let mut keys: Vec<u64> = scattered(1).take(3_000).collect();
    keys.sort_unstable();
    keys.dedup();
    for (at, key) in keys.iter().enumerate() {
        tree.insert(*key, at, Most((key % 200) as u8, (key % 99) as u8));
    }
    for (round, x) in scattered(2).take(4_000).enumerate() {
        let at = usize::try_from(x).unwrap() % keys.len();
        let new = keys[at] ^ (x & 0xffff);
        if keys.contains(&new) {
            continue;
        }
        assert!(tree.rekey(&keys[at], new, Most((x % 201) as u8, (x % 98) as u8)));
        keys[at] = new;
        if round % 200 == 0 {
            tree.check();
        }
    }
    tree.check();
}

#[test]
fn a_search_that_no_single_entry_passes_finds_nothing() {
    let mut tree = OrderedTree::new();
    for key in 0..200_u16 {
        tree.insert(key, (), if key % 2 == 0 { Most(9, 0) } else { Most(0, 9) });
    }
    assert_eq!(tree.bound(), Some(&Most(9, 9)));
    assert!(tree.first(holds(Most(1, 1))).is_none());
    assert!(tree.set_bound(&150, Most(2, 1)));
    assert_eq!(tree.first(holds(Most(1, 1))).map(|found| *found.0), Some(150));
}

#[test]
fn nothing_is_found_moved_or_removed_in_an_empty_tree() {
    let mut tree: OrderedTree<u8, (), Least> = OrderedTree::default();
    assert!(!tree.set_bound(&1, Least(1)) && !tree.rekey(&1, 2, Least(1)));
    assert!(tree.remove(&1).is_none() && tree.get(&1).is_none() && tree.get_mut(&1).is_none());
    assert!(tree.first(|_| true).is_none() && tree.first_after(&1, |_| true).is_none());
    assert_eq!((tree.len(), tree.rank(&1), tree.iter().count()), (0, 0, 0));
    tree.insert(1, (), Least(1));
    tree.clear();
    tree.check();
    assert!(tree.is_empty());
}

#[test]
fn a_walk_can_begin_behind_any_entry() {
    for n in [0, 1, 5, 33, 1_500_u32] {
        let mut tree = OrderedTree::new();
        (0..n).for_each(|key| tree.insert(key, (), Least(1)));
        for behind in (0..n as usize + 40).step_by(if n > 100 { 37 } else { 1 }) {
            let walked: Vec<_> = tree.iter_behind(behind).map(|(key, ..)| *key).collect();
            let expected: Vec<_> = (0..n).skip(behind).collect();
            assert_eq!(walked, expected, "behind {behind} of {n}");
        }
    }
}

#[test]
fn a_value_can_be_changed_in_place() {
    let mut tree = OrderedTree::new();
    (0..100).for_each(|key| tree.insert(key, key, Least(1)));
    *tree.get_mut(&77).unwrap() = 7;
    assert_eq!(tree.get(&77), Some((&7, &Least(1))));
}
