//! The nearest node to a request that no node holds: the one on which the least has to be freed.
//!
//! *Nearest* is the node whose largest shortage, relative to the requested amount, is least; of
//! several the first in order. Nodes that could not hold the request even when empty are not
//! compared. Nor are nodes that are closed, that the request passes over or that refuse it by
//! themselves: freeing capacity on these would not help.

use std::sync::Arc;

use super::fits::Fits;
use super::index::NodeIndex;
use super::node::IndexedNode;
use super::request::NodeRequest;
use super::room::missing_share;
use super::score::ordered_bits;
use super::set_aside::SetAside;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

/// The node that comes nearest to holding a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The node's id.
    pub node: Arc<str>,
    /// The missing amounts; empty if it holds the request.
    pub lacks: Resources,
}

impl NodeIndex {
    /// Returns the node that comes nearest to holding a request; `None` if more capacity on a node
    /// would not help. Reads only nodes that may be nearer than the best one found before.
    pub fn nearest(&self, request: &NodeRequest<'_>, fits: &Fits) -> Option<Nearest> {
        let may = |slot: NodeSlot| self.may_come_near(slot, request, fits);
        let slot = match request.required {
            Some(node) => self.slot_of(node).filter(|slot| may(*slot)),
            None => self.nearest_of_all(request, fits),
        }?;
        let node = self.entry(slot);
        Some(Nearest { node: Arc::clone(&node.id), lacks: node.lacks(request.resources) })
    }

    fn nearest_of_all(&self, request: &NodeRequest<'_>, fits: &Fits) -> Option<NodeSlot> {
        let share = |slot: NodeSlot| {
            let available = &self.entry(slot).available;
            ordered_bits(missing_share(request.resources, available))
        };
        let least = self.tree.least(
            |room| room.least_missing(request.resources).map(ordered_bits),
            |_, slot, room| {
                let may = room.is_open() && self.may_come_near(*slot, request, fits);
                may.then(|| share(*slot))
            },
        );
        let least = least.map(|(share, _, slot, _)| (share, *slot)).into_iter();
        let own = request.own.filter(|own| self.may_come_near(*own, request, fits));
        // Of two nodes that are equally near, the one that is reserved for the request wins.
        let own = own.map(|own| (share(own), own));
        own.into_iter().chain(least).min_by_key(|(share, _)| *share).map(|(_, slot)| slot)
    }

    /// Whether the request may use the node, and an empty node of its capacity would hold it.
    fn may_come_near(&self, slot: NodeSlot, request: &NodeRequest<'_>, fits: &Fits) -> bool {
        self.total(slot).holds(request.resources)
            && self.admits(slot, request)
            && fits.refusal(self.id(slot)).is_none()
    }

    /// Returns the first node by id that would hold a request if it did not drain. Reads every node.
    pub fn first_drained(&self, request: &NodeRequest<'_>, fits: &Fits) -> Option<&Arc<str>> {
        let would_hold = |slot: NodeSlot, node: &IndexedNode| {
            let is_closed = node.drained && !node.open && node.aside == SetAside::No;
            let has_room = node.has_room(request.resources);
            is_closed && has_room && self.may_come_near(slot, request, fits)
        };
        let all = self.nodes.iter().filter(|(slot, node)| would_hold(*slot, node));
        all.map(|(_, node)| &node.id).min()
    }

    /// Counts how many requests like this one all nodes could hold at a time, up to `most`.
    pub fn places(&self, request: &NodeRequest<'_>, fits: &Fits, most: u64) -> u64 {
        let mut places = 0_u64;
        for (slot, node) in self.nodes.iter() {
            if places >= most {
                return most;
            }
            if self.is_open_to_all(slot) && self.may_come_near(slot, request, fits) {
                places = places.saturating_add(node.times(request.resources));
            }
        }
        places.min(most)
    }

    /// Returns the amounts that a node lacks for a request; `None` if the node does not exist.
    pub fn missing(&self, node: &str, wanted: &Resources) -> Option<Resources> {
        Some(self.entry(self.slot_of(node)?).lacks(wanted))
    }

    /// Returns the capacity that a node would need to hold a request in addition to its usage.
    pub fn size_for(&self, node: &str, wanted: &Resources) -> Option<Resources> {
        let node = self.entry(self.slot_of(node)?);
        let used = node.total.minus(&node.available);
        let mut size = Resources::new();
        for (name, wanted) in wanted.entries() {
            size.set(name, wanted.saturating_add(used.get(name).max(0)));
        }
        Some(size)
    }
}

impl IndexedNode {
    /// Returns how many times an amount fits in the available amount.
    fn times(&self, wanted: &Resources) -> u64 {
        let wanted = wanted.entries().filter(|(_, wanted)| *wanted > 0);
        let times = wanted.map(|(name, wanted)| self.available.get(name).max(0) / wanted);
        times.min().map_or(u64::MAX, |times| u64::try_from(times).unwrap_or(0))
    }

    fn lacks(&self, wanted: &Resources) -> Resources {
        let mut lacks = Resources::new();
        for (name, wanted) in wanted.entries().filter(|(_, wanted)| *wanted > 0) {
            let short = wanted.saturating_sub(self.available.get(name));
            if short > 0 {
                lacks.set(name, short);
            }
        }
        lacks
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nodes::{Exclusion, NodeFits, NodeOrder};

    fn of(vcore: i64, memory: i64) -> Resources {
        Resources::of(&[("vcore", vcore), ("memory", memory)])
    }

    fn index(nodes: &[(i64, i64, bool)]) -> NodeIndex {
        let mut index = NodeIndex::new(NodeOrder::default());
        for (at, (vcore, memory, open)) in nodes.iter().enumerate() {
            let id = Arc::from(format!("n{at:04}"));
            let total = if at % 7 == 0 { of(4, 4) } else { of(20, 20) };
            index.insert(id, total, of(*vcore, *memory), *open).unwrap();
        }
        index
    }

    #[test]
    fn the_node_with_the_least_relative_shortage_is_nearest() {
        let nodes = index(&[(4, 4, true), (2, 9, true), (5, 1, true), (8, 8, false)]);
        let wanted = of(6, 6);
        let nearest = nodes.nearest(&NodeRequest::of(&wanted), &Fits::Unknown).unwrap();
        assert_eq!((&*nearest.node, nearest.lacks), ("n0001", Resources::of(&[("vcore", 4)])));
        let excluded = [Exclusion { node: Arc::from("n0001"), until_ns: 0 }];
        let request = NodeRequest { excluded: &excluded, ..NodeRequest::of(&wanted) };
        assert_eq!(nodes.nearest(&request, &Fits::Unknown).unwrap().lacks, of(1, 5));
        let named = NodeRequest { required: Some("n0003"), ..NodeRequest::of(&wanted) };
        assert_eq!(
            nodes.nearest(&named, &Fits::Unknown).unwrap().lacks,
            Resources::new(),
            "closed or not"
        );
        let fits = Fits::Known(NodeFits::from_iter([("n0001", "a"), ("n0002", "b")]).into());
        assert_eq!(nodes.nearest(&NodeRequest::of(&wanted), &fits), None, "n0000 is too small");
        let too_much = of(21, 1);
        assert_eq!(
            nodes.nearest(&NodeRequest::of(&too_much), &Fits::Unknown),
            None,
            "none is large enough"
        );
    }

    #[test]
    fn places_are_counted_node_by_node_and_no_further_than_is_asked() {
        let nodes =
            index(&[(4, 4, true), (5, 9, true), (7, 3, true), (9, 9, false), (-1, 9, true)]);
        let two = of(2, 2);
        assert_eq!(nodes.places(&NodeRequest::of(&two), &Fits::Unknown, 9), 2 + 2 + 1);
        assert_eq!(nodes.places(&NodeRequest::of(&two), &Fits::Unknown, 3), 3);
        let fits = Fits::Known(NodeFits::from_iter([("n0001", "tainted")]).into());
        assert_eq!(nodes.places(&NodeRequest::of(&two), &fits, 9), 2 + 1);
        assert_eq!(nodes.places(&NodeRequest::of(&Resources::new()), &Fits::Unknown, 7), 7);
        assert_eq!(nodes.places(&NodeRequest::of(&of(30, 1)), &Fits::Unknown, 7), 0);
    }

    #[test]
    fn what_is_below_zero_has_to_be_given_back_too() {
        let nodes = index(&[(1, 1, true), (-3, 9, true)]);
        let wanted = of(5, 5);
        let nearest = nodes.nearest(&NodeRequest::of(&wanted), &Fits::Unknown).unwrap();
        assert_eq!(nearest.lacks, Resources::of(&[("vcore", 8)]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_node_comes_nearer_than_the_nearest(
            nodes in prop::collection::vec((-4..20_i64, -4..20_i64, any::<bool>()), 0..300),
            asks in prop::collection::vec((0..24_i64, 0..24_i64), 1..10),
        ) {
            let index = index(&nodes);
            for (vcore, memory) in asks {
                let wanted = of(vcore, memory);
                let request = NodeRequest::of(&wanted);
                let share = |lacks: &Resources| missing_share(&wanted, &wanted.minus(lacks));
                let open = index.iter().filter(|slot| index.is_open(*slot));
                let near = open.filter(|slot| index.total(*slot).holds(&wanted));
                let least = near.map(|slot| share(&index.entry(slot).lacks(&wanted)));
                let least = least.reduce(f64::min);
                let nearest = index.nearest(&request, &Fits::Unknown);
                prop_assert_eq!(nearest.as_ref().map(|nearest| share(&nearest.lacks)), least);
                if let Some(nearest) = nearest {
                    prop_assert_eq!(nearest.lacks.is_empty(), index.first(&request).is_some());
                }
            }
        }
    }
}
