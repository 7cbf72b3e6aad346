//! Tentative placements: amounts subtracted from nodes while places for several members are
//! searched together, and given back if a member finds none.
//!
//! # Why in the index
//! Each place that is found affects the search for the next one: the free amount of its node, and
//! the order of nodes. A copy of the index would cost as much as there are nodes, so the index
//! itself is changed, and [`Taken`] remembers the earlier amount of each changed node.
//!
//! # Invariants
//! * Neither taking nor undoing is a growth or a return: it wakes no ask.
//! * After [`Taken::undo`] every node has its earlier amount and position.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::affinity::Families;
use super::growth::LOOKED_AT;
use super::index::NodeIndex;
use super::node::Start;
use super::request::NodeRequest;
use super::room::Room;
use super::score::NodeSortPolicy;
use crate::specs::tags::Tags;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

/// Amounts subtracted from nodes, all of which can be given back at once.
///
/// ```
/// use std::sync::Arc;
/// use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest, Taken};
/// use monoceros_rules::values::resources::Resources;
///
/// let vcores = |n| Resources::of(&[("vcore", n)]);
/// let mut nodes = NodeIndex::new(NodeOrder::default());
/// let n1 = nodes.insert(Arc::from("n1"), vcores(4), vcores(4), true)?;
/// let (mut taken, mark) = (Taken::default(), nodes.growth());
/// taken.take(&mut nodes, n1, &vcores(3));
/// assert_eq!(nodes.first(&NodeRequest::of(&vcores(2))), None);
/// taken.undo(&mut nodes);
/// assert_eq!(nodes.available(n1), &vcores(4));
/// assert_eq!(nodes.growth(), mark);
/// # Ok::<(), monoceros_rules::nodes::NodeExists>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Taken {
    /// The earlier available amount of each changed node.
    #[serde(with = "crate::values::pairs")]
    before: FxHashMap<NodeSlot, Resources>,
    /// Placements that constraints count although they are not made yet.
    #[serde(with = "crate::values::pairs")]
    supposed: FxHashMap<NodeSlot, Vec<Families>>,
}

impl Taken {
    /// Subtracts an amount from the available amount of a node.
    pub fn take(&mut self, nodes: &mut NodeIndex, slot: NodeSlot, amount: &Resources) {
        let available = nodes.available(slot);
        let left = available.minus(amount);
        self.before.entry(slot).or_insert_with(|| available.clone());
        nodes.change(slot, None, &left);
    }

    /// Gives back an amount that was taken.
    pub fn give(&mut self, nodes: &mut NodeIndex, slot: NodeSlot, amount: &Resources) {
        debug_assert!(self.before.contains_key(&slot), "only what was taken is given back");
        let available = nodes.available(slot).plus(amount);
        nodes.change(slot, None, &available);
    }

    /// Makes constraints count a supposed allocation with these tags on the node.
    pub fn suppose(&mut self, nodes: &mut NodeIndex, slot: NodeSlot, tags: Option<&Tags>) {
        if let Some(families) = nodes.suppose(slot, tags) {
            self.supposed.entry(slot).or_default().push(families);
        }
    }

    /// Ends the count of all supposed allocations: each is made now, or never.
    pub fn suppose_nothing(&mut self, nodes: &mut NodeIndex) {
        for (slot, supposed) in self.supposed.drain() {
            for families in supposed {
                nodes.suppose_no_more(slot, &families);
            }
        }
    }

    /// Ends the count of one supposed allocation with these tags on the node.
    pub fn suppose_less(&mut self, nodes: &mut NodeIndex, slot: NodeSlot, tags: Option<&Tags>) {
        let families = nodes.families_of(tags);
        let Some(supposed) = self.supposed.get_mut(&slot) else { return };
        if let Some(at) = supposed.iter().position(|supposed| *supposed == families) {
            supposed.swap_remove(at);
            nodes.suppose_no_more(slot, &families);
        }
    }

    /// Gives back all amounts, and ends the count of all supposed allocations.
    pub fn undo(&mut self, nodes: &mut NodeIndex) {
        self.suppose_nothing(nodes);
        // Each node has a position of its own, so the order of giving back does not matter.
        for (slot, available) in self.before.drain() {
            nodes.change(slot, None, &available);
        }
    }
}

impl NodeIndex {
    /// Returns the fullest node, by the order of nodes, that the request may use; of equally full
    /// ones the last by id. If the request requires a node, or full nodes come first, it is
    /// [`Self::first`].
    pub fn tightest(&self, request: &NodeRequest<'_>) -> Option<NodeSlot> {
        if request.required.is_some() || self.order.policy() == NodeSortPolicy::BinPacking {
            return self.first(request);
        }
        if let Some(wish) = &request.wish {
            return self.last_wished(request, wish);
        }
        if !request.domains.is_empty() {
            return self.find_within(request, Start::Last);
        }
        let may = |room: &Room| self.looks_at(room, request.resources);
        let mut found = self.tree.last(None, may);
        while let Some((key, slot, _)) = found {
            if !self.is_passed_over(*slot, request) {
                return Some(*slot);
            }
            found = self.tree.last(Some(key), may);
        }
        None
    }

    /// Whether [`Self::tightest`] and [`Self::first`] are the same.
    pub fn is_tightest_first(&self) -> bool {
        self.order.policy() == NodeSortPolicy::BinPacking
    }

    /// Whether nodes that grew after the growth number `mark` have places for at least `enough` of
    /// this amount now. `false` is never wrong, and `true` is not either if at most 64 nodes grew
    /// since.
    pub fn may_place_since(&self, mark: Growth, size: &Resources, enough: u64) -> bool {
        mark < self.grown
            && self.may_hold(size)
            && self.count_since(mark, size, enough, LOOKED_AT).is_none_or(|n| n >= enough)
    }

    /// Counts the places for this amount on nodes that grew after the growth number `mark`, at most
    /// `enough`. Reads these nodes until it has found as many.
    pub fn places_since(&self, mark: Growth, size: &Resources, enough: u64) -> u64 {
        if mark >= self.grown || !self.may_hold(size) {
            return 0;
        }
        self.count_since(mark, size, enough, usize::MAX).map_or(enough, |places| places.min(enough))
    }

    /// Whether all nodes together may have at least `enough` places for this amount now. `false` is
    /// never wrong, and `true` is not either if `enough` is at most 64. For more, counting would
    /// take long.
    pub fn may_place(&self, size: &Resources, enough: u64) -> bool {
        enough > LOOKED_AT as u64 || self.places_now(size, enough) >= enough
    }

    /// Counts the places for this amount on all nodes together, at most `enough`. Reads nodes with
    /// capacity for one until it has found as many.
    pub fn places_now(&self, size: &Resources, enough: u64) -> u64 {
        let mut places = 0_u64;
        let mut found = self.tree.first(|room| room.holds(size));
        while let Some((key, slot, _)) = found.filter(|_| places < enough) {
            places = places.saturating_add(self.places_on(*slot, size));
            found = self.tree.first_after(key, |room| room.holds(size));
        }
        places.min(enough)
    }

    /// Counts places as [`Self::places_since`] does. `None` if more than `most` nodes grew.
    fn count_since(&self, mark: Growth, size: &Resources, enough: u64, most: usize) -> Option<u64> {
        let newer = |(_, grown): &(NodeSlot, Growth)| *grown > mark;
        let grown = self.growths.newest_first().take_while(newer);
        let returned = self.returns.newest_first().take_while(newer);
        let returned = returned.filter(|(slot, _)| self.growths.last_of(*slot) <= mark);
        let mut places = 0_u64;
        for (looked_at, (slot, _)) in grown.chain(returned).enumerate() {
            if looked_at == most {
                return None;
            }
            places = places.saturating_add(self.places_on(slot, size));
            if places >= enough {
                break;
            }
        }
        Some(places)
    }

    /// Returns the number of places for this amount on the node.
    pub(super) fn places_on(&self, slot: NodeSlot, size: &Resources) -> u64 {
        let node = self.entry(slot);
        if !node.holds(size) {
            return 0;
        }
        let wanted = size.entries().filter(|(_, quantity)| *quantity > 0);
        let fit = |(name, quantity)| u64::try_from(node.available.get(name) / quantity);
        let places = wanted.map(|entry| fit(entry).unwrap_or(0));
        places.min().unwrap_or(u64::MAX)
    }

    /// Returns all that a search can observe, as a text to be compared later.
    #[cfg(test)]
    pub(crate) fn fingerprint(&self) -> String {
        self.check();
        let nodes: Vec<_> = self.iter().map(|slot| (slot, self.entry(slot))).collect();
        let lists = [&self.growths, &self.returns].map(|it| it.newest_first().collect::<Vec<_>>());
        format!("{nodes:?} {:?} {lists:?} {} {:?}", self.grown, self.capacity(), self.tree.bound())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::nodes::NodeOrder;

    fn vcores(quantity: i64) -> Resources {
        Resources::of(&[("vcore", quantity)])
    }

    fn index(policy: NodeSortPolicy, free: &[i64]) -> (NodeIndex, Vec<NodeSlot>) {
        let mut nodes = NodeIndex::new(NodeOrder::new(policy, &[]));
        let insert = |(at, free): (usize, &i64)| {
            nodes.insert(Arc::from(format!("n{at}")), vcores(8), vcores(*free), true).unwrap()
        };
        let slots = free.iter().enumerate().map(insert).collect();
        (nodes, slots)
    }

    #[test]
    fn what_was_taken_and_given_back_leaves_no_trace() {
        let (mut nodes, slots) = index(NodeSortPolicy::Fair, &[8, 4, 4, 2]);
        let before = nodes.fingerprint();
        let mut taken = Taken::default();
        for slot in [0, 0, 1, 3] {
            taken.take(&mut nodes, slots[slot], &vcores(2));
        }
        taken.give(&mut nodes, slots[0], &vcores(2));
        assert_ne!(nodes.fingerprint(), before);
        taken.undo(&mut nodes);
        assert_eq!(nodes.fingerprint(), before);
    }

    #[test]
    fn the_tightest_is_the_fullest_that_has_room_and_does_not_refuse() {
        let (mut nodes, slots) = index(NodeSortPolicy::Fair, &[8, 2, 4, 4]);
        let (two, three) = (vcores(2), vcores(3));
        assert_eq!(nodes.tightest(&NodeRequest::of(&two)), Some(slots[1]));
        assert_eq!(nodes.tightest(&NodeRequest::of(&three)), Some(slots[3]));
        let refused = [Arc::from("n1"), Arc::from("n3")].into_iter().collect();
        let request = NodeRequest::of(&two).passing_over(&refused);
        assert_eq!(nodes.tightest(&request), Some(slots[2]));
        let named = NodeRequest { required: Some("n0"), ..NodeRequest::of(&two) };
        assert_eq!(nodes.tightest(&named), Some(slots[0]));
        nodes.set_open(slots[1], false);
        assert_eq!(nodes.tightest(&NodeRequest::of(&two)), Some(slots[3]));
        let (nodes, slots) = index(NodeSortPolicy::BinPacking, &[8, 2, 4, 4]);
        assert_eq!(nodes.tightest(&NodeRequest::of(&three)), Some(slots[2]));
    }

    #[test]
    fn places_are_counted_on_nodes_that_grew_each_node_once() {
        let (mut nodes, slots) = index(NodeSortPolicy::Fair, &[0, 0, 8]);
        let mark = nodes.growth();
        assert_eq!(nodes.places_since(mark, &vcores(1), 9), 0, "nothing grew");
        nodes.update(slots[0], None, &vcores(3));
        nodes.take_back(slots[1], &vcores(2));
        nodes.take_back(slots[0], &vcores(5));
        assert_eq!(nodes.places_since(mark, &vcores(2), 9), 3);
        assert_eq!(nodes.places_since(mark, &vcores(3), 9), 1);
        assert_eq!(nodes.places_since(mark, &vcores(9), 9), 0);
        assert!(nodes.may_place_since(mark, &vcores(2), 3));
        assert!(!nodes.may_place_since(mark, &vcores(2), 4));
        let there = nodes.places_now(&vcores(2), 9);
        assert!(nodes.may_place(&vcores(2), there) && !nodes.may_place(&vcores(2), there + 1));
        nodes.set_open(slots[0], false);
        assert_eq!(nodes.places_since(mark, &vcores(2), 9), 1, "a closed node has none");
        assert_eq!(nodes.places_since(mark, &Resources::new(), 9), 9, "nothing fits anywhere");
    }

    #[test]
    fn beyond_64_nodes_the_bound_says_perhaps_and_the_count_says_how_many() {
        let (mut nodes, slots) = index(NodeSortPolicy::Fair, &[0; 70]);
        let mark = nodes.growth();
        for slot in &slots {
            nodes.update(*slot, None, &vcores(1));
        }
        assert!(nodes.may_place(&vcores(1), 1_000) && nodes.may_place(&vcores(1), 64));
        assert_eq!(nodes.places_now(&vcores(1), 1_000), 70);
        assert_eq!(nodes.places_now(&vcores(1), 5), 5);
        assert!(nodes.may_place_since(mark, &vcores(1), 1_000));
        assert_eq!(nodes.places_since(mark, &vcores(1), 1_000), 70);
        assert!(!nodes.may_place_since(mark, &vcores(2), 1), "no node has two");
    }
}
