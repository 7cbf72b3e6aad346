//! Nodes that a search passed over before the node that it found, and the reasons.
//!
//! # Cost and limits
//! A search skips thousands of full nodes by one comparison, and a reason for each of them would
//! cost more than the search. So only the nodes next to the one that was found are examined (some
//! thirty at most). Whole ranges before them are counted with the reason [`PassedFor::Range`],
//! since the index knows no more about a range.
//!
//! A node counts once, for the first reason in the order of [`PassedFor`].

use super::index::NodeIndex;
use super::request::NodeRequest;
use super::set_aside::SetAside;
use crate::order::tree::Between;
use crate::values::ids::NodeSlot;

/// Why nodes were passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PassedFor {
    /// The node drains or is not ready.
    Closed,
    /// The node is set aside for asks that reserved it.
    Reserved,
    /// The free amount of the node is too small.
    Room,
    /// The predicate refused the ask for this node.
    Refused,
    /// The RM refused the ask for this node for good.
    Excluded,
    /// A start of the ask failed on this node.
    Failed,
    /// The node is outside the domain of the task group.
    Topology,
    /// The placement constraint of the ask does not admit it.
    Constraint,
    /// The RM prefers the node that was taken to this one, which may come first in the order.
    Preference,
    /// A range of the index that the search skipped: every node there is unusable for one of the
    /// reasons above, usually for want of room.
    Range,
}

impl PassedFor {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::Closed,
        Self::Reserved,
        Self::Room,
        Self::Refused,
        Self::Excluded,
        Self::Failed,
        Self::Topology,
        Self::Constraint,
        Self::Preference,
        Self::Range,
    ];

    /// Returns the reason as a text for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Closed => "takes nothing now",
            Self::Reserved => "reserved for another",
            Self::Room => "not enough room",
            Self::Refused => "refused by the predicate",
            Self::Excluded => "can never run it",
            Self::Failed => "a start failed there",
            Self::Topology => "outside of its domain",
            Self::Constraint => "excluded by its constraint",
            Self::Preference => "another is preferred",
            Self::Range => "skipped by the index: not enough room",
        }
    }
}

/// The number of nodes that were passed over for each reason, each with the first such node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// A bit for each reason that has nodes; usually none is set.
    noted: u16,
    counts: [u32; PassedFor::ALL.len()],
    examples: [Option<NodeSlot>; PassedFor::ALL.len()],
}

impl PassedOver {
    /// Counts one more node.
    pub fn note(&mut self, why: PassedFor, node: NodeSlot) {
        self.note_many(why, 1, Some(node));
    }

    /// Counts several more nodes, with one of them as an example, if one is known.
    pub fn note_many(&mut self, why: PassedFor, nodes: usize, example: Option<NodeSlot>) {
        if nodes == 0 {
            return;
        }
        let at = why as usize;
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        self.noted |= 1 << at;
        self.counts[at] = self.counts[at].saturating_add(nodes);
        self.examples[at] = self.examples[at].or(example);
    }

    /// Resets all counts.
    pub fn clear(&mut self) {
        if self.noted != 0 {
            *self = Self::default();
        }
    }

    /// Returns the number of nodes for each reason that has any, and an example, if one is known.
    pub fn iter(&self) -> impl Iterator<Item = (PassedFor, u32, Option<NodeSlot>)> + '_ {
        let left = |noted: &u16| Some(*noted).filter(|noted| *noted != 0);
        let all =
            std::iter::successors(left(&self.noted), move |noted| left(&(noted & (noted - 1))));
        all.map(|noted| {
            let at = noted.trailing_zeros() as usize;
            (PassedFor::ALL[at], self.counts[at], self.examples[at])
        })
    }

    /// Returns the number of nodes for all reasons together.
    pub fn sum(&self) -> u32 {
        self.counts.iter().copied().fold(0, u32::saturating_add)
    }
}

impl NodeIndex {
    /// Adds the nodes that a search for `request` passed over: those after `after` (or from the
    /// first node on) and before `found`, which it found. There must have been no change since. A
    /// request that requires a node passes over none.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest, PassedFor, PassedOver};
    /// use monoceros_rules::values::resources::Resources;
    ///
    /// let vcores = |n| Resources::of(&[("vcore", n)]);
    /// let mut nodes = NodeIndex::new(NodeOrder::default());
    /// let small = nodes.insert(Arc::from("n1"), vcores(1), vcores(1), true)?;
    /// let large = nodes.insert(Arc::from("n2"), vcores(8), vcores(4), true)?;
    ///
    /// let wanted = vcores(3);
    /// let request = NodeRequest::of(&wanted);
    /// assert_eq!(nodes.first(&request), Some(large));
    /// let mut passed = PassedOver::default();
    /// nodes.passed_over(&request, None, large, &mut passed);
    /// assert_eq!(passed.iter().collect::<Vec<_>>(), [(PassedFor::Room, 1, Some(small))]);
    /// # Ok::<(), monoceros_rules::nodes::NodeExists>(())
    /// ```
    pub fn passed_over(
        &self,
        request: &NodeRequest<'_>,
        after: Option<NodeSlot>,
        found: NodeSlot,
        passed: &mut PassedOver,
    ) {
        if request.required.is_some() {
            return;
        }
        let is_first = |(_, slot, _): (_, &NodeSlot, _)| *slot == found;
        if after.is_none() && self.tree.first(|_| true).is_some_and(is_first) {
            // The usual case if the emptiest node comes first: no key needs to be compared.
            return;
        }
        let after = after.map(|slot| &self.entry(slot).key);
        let mut skipped = 0;
        self.tree.between(after, &self.entry(found).key, |met| match met {
            Between::Many(nodes) => skipped += nodes,
            Between::One(slot, room) => {
                let why = if room.is_open() && !room.holds(request.resources) {
                    PassedFor::Room
                } else {
                    self.passed_for(*slot, request)
                };
                passed.note(why, *slot);
            }
        });
        if skipped > 0 {
            // If the search began with the first node, that one is in a range, too.
            let first = self.tree.first(|_| true).filter(|_| after.is_none());
            passed.note_many(PassedFor::Range, skipped, first.map(|(_, slot, _)| *slot));
        }
    }

    /// Returns why a node was passed over that has capacity, or that searches do not find.
    fn passed_for(&self, slot: NodeSlot, request: &NodeRequest<'_>) -> PassedFor {
        let node = self.entry(slot);
        if !node.open {
            PassedFor::Closed
        } else if node.aside != SetAside::No {
            PassedFor::Reserved
        } else if request.is_refused_by(&node.id) {
            PassedFor::Refused
        } else if request.is_excluded_from(&node.id) {
            PassedFor::Excluded
        } else if request.has_failed_on(&node.id) {
            PassedFor::Failed
        } else if !self.is_within(slot, request.domains) {
            PassedFor::Topology
        } else {
            PassedFor::Constraint
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::nodes::{Exclusion, NodeOrder};
    use crate::values::resources::Resources;

    fn vcores(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    /// Builds an index of nodes of ten cores, each with its free amount, whether it is open, and
    /// whether it is reserved.
    fn index(nodes: &[(i64, bool, bool)]) -> NodeIndex {
        let mut index = NodeIndex::new(NodeOrder::default());
        for (at, (free, open, reserved)) in nodes.iter().enumerate() {
            let id = Arc::from(format!("n{at:05}"));
            let slot = index.insert(id, vcores(10), vcores(*free), *open).unwrap();
            index.set_aside(slot, if *reserved { SetAside::Bounded(0) } else { SetAside::No });
        }
        index
    }

    #[test]
    fn each_node_beside_the_one_that_was_found_says_why_it_was_passed_over() {
        let nodes = [(10, false, false), (9, true, true), (8, true, false), (7, true, false)];
        let index = index(&nodes);
        let wanted = vcores(5);
        let excluded = [Exclusion { node: Arc::from("n00002"), until_ns: 0 }];
        let request = NodeRequest { excluded: &excluded, ..NodeRequest::of(&wanted) };
        let found = index.first(&request).unwrap();
        let mut passed = PassedOver::default();
        index.passed_over(&request, None, found, &mut passed);
        let shown =
            passed.iter().map(|(why, count, node)| (why, count, node.map(|it| &**index.id(it))));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (PassedFor::Closed, 1, Some("n00000")),
                (PassedFor::Reserved, 1, Some("n00001")),
                (PassedFor::Excluded, 1, Some("n00002")),
            ]
        );
        let named = NodeRequest { required: Some("n00003"), ..request };
        let mut none = PassedOver::default();
        index.passed_over(&named, None, found, &mut none);
        assert_eq!(none, PassedOver::default());
    }

    #[test]
    fn of_many_nodes_ranges_are_counted_and_neighbours_looked_at() {
        // The fullest node comes first: all except the last are too full.
        let order = NodeOrder::new(crate::nodes::NodeSortPolicy::BinPacking, &[]);
        let mut index = NodeIndex::new(order);
        for at in 0..1_000 {
            let free = if at == 999 { 9 } else { 1 };
            index.insert(Arc::from(format!("n{at:05}")), vcores(10), vcores(free), true).unwrap();
        }
        let wanted = vcores(5);
        let request = NodeRequest::of(&wanted);
        let found = index.first(&request).unwrap();
        let mut passed = PassedOver::default();
        index.passed_over(&request, None, found, &mut passed);
        assert_eq!(passed.sum(), 999);
        let by_one = passed.iter().find(|(why, ..)| *why == PassedFor::Room).unwrap();
        let skipped = passed.iter().find(|(why, ..)| *why == PassedFor::Range).unwrap();
        assert!((1..=32).contains(&by_one.1), "{by_one:?}");
        assert_eq!(skipped.2.map(|node| &**index.id(node)), Some("n00000"));
    }

    #[test]
    fn what_was_noted_is_forgotten_and_none_is_not_noted() {
        let mut passed = PassedOver::default();
        passed.note_many(PassedFor::Refused, 0, Some(NodeSlot::at(3)));
        assert_eq!(passed, PassedOver::default());
        passed.note(PassedFor::Room, NodeSlot::at(1));
        passed.note_many(PassedFor::Range, 5, None);
        let noted = [(PassedFor::Room, 1, Some(NodeSlot::at(1))), (PassedFor::Range, 5, None)];
        assert_eq!(passed.iter().collect::<Vec<_>>(), noted);
        passed.clear();
        assert_eq!(passed, PassedOver::default());
    }

    proptest! {
        #[test]
        fn every_node_before_the_one_that_was_found_is_counted_once(
            nodes in prop::collection::vec((0..10_i64, prop::bool::weighted(0.9), prop::bool::weighted(0.1)), 1..300),
            wanted in 0..10_i64,
            from in any::<prop::sample::Index>(),
        ) {
            let index = index(&nodes);
            let wanted = vcores(wanted);
            let request = NodeRequest::of(&wanted);
            let all: Vec<_> = index.iter().collect();
            let from = from.index(all.len() + 1).checked_sub(1);
            let after = from.map(|at| all[at]);
            let found = match after {
                None => index.first(&request),
                Some(after) => index.next(after, &request),
            };
            let Some(found) = found else { return Ok(()) };
            let mut passed = PassedOver::default();
            index.passed_over(&request, after, found, &mut passed);
            let place = all.iter().position(|slot| *slot == found).unwrap();
            let begin = from.map_or(0, |from| from + 1);
            prop_assert_eq!(passed.sum() as usize, place - begin);
            for (why, count, node) in passed.iter() {
                let of_kind = |slot: &NodeSlot| match why {
                    PassedFor::Closed => !index.is_open(*slot),
                    PassedFor::Reserved => index.is_open(*slot) && index.is_reserved(*slot),
                    PassedFor::Room => index.is_open_to_all(*slot) && !index.has_room(*slot, &wanted),
                    _ => true,
                };
                let such = all[begin..place].iter().filter(|slot| of_kind(slot)).count();
                prop_assert!(count as usize <= such);
                prop_assert!(node.is_none_or(|node| of_kind(&node)));
            }
        }
    }
}
