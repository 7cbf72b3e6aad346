//! Kept domains, by attribute: the sum of the free amounts of their nodes, and the nodes in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::domain::Wanted;
use super::node::{IndexedNode, Key};
use super::room::Room;
use crate::order::shares::Share;
use crate::order::tree::OrderedTree;
use crate::values::ids::NodeSlot;
use crate::values::resources::{Resources, Sum};
use crate::values::slots::Slots;

crate::slot! {
    /// A domain among the domains of its attribute.
    pub(super) struct AreaId;
}

/// Nodes in the order in which they are tried.
pub(super) type NodeTree = OrderedTree<Key, NodeSlot, Room>;

/// All kept domains.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Domains {
    pub(super) kept: Vec<Kept>,
    /// The number of requests for domains until now.
    pub(super) asked: u64,
}

/// The domains of one attribute.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) key: Arc<str>,
    pub(super) areas: Slots<AreaId, Area>,
    pub(super) by_value: BTreeMap<Arc<str>, AreaId>,
    /// The domain of each node.
    pub(super) of: Vec<Option<AreaId>>,
    /// The number of the last request for this attribute, and the number of nodes that changed
    /// since.
    pub(super) asked: u64,
    pub(super) changes: usize,
}

/// A domain of an attribute.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Area {
    pub(super) value: Arc<str>,
    pub(super) tree: NodeTree,
    pub(super) free: Free,
}

/// The sum of the free amounts of open nodes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Free(pub(super) Sum);

impl Free {
    pub(super) fn add(&mut self, room: &Room) {
        room.kinds().for_each(|free| self.0.add(free));
    }

    pub(super) fn subtract(&mut self, room: &Room) {
        room.kinds().for_each(|free| self.0.subtract(free));
    }

    /// Returns the largest share of the partition's capacity that is left after taking this amount.
    pub(super) fn left_by(&self, total: &Resources, capacity: &Resources) -> Share {
        let mut most = 0.0_f64;
        for (name, sum) in self.0.entries() {
            let (left, whole) = (sum - i128::from(total.get(name)), capacity.get(name));
            if left > 0 && whole > 0 {
                most = most.max(left as f64 / whole as f64);
            }
        }
        Share::of(most)
    }

    /// Returns the number of times that this amount fits, if all nodes were one.
    pub(super) fn places(&self, size: &Resources) -> u64 {
        let wanted = size.entries().filter(|(_, wanted)| *wanted > 0);
        let places = wanted.map(|(name, wanted)| self.0.get(name) / i128::from(wanted));
        places.min().map_or(u64::MAX, |places| u64::try_from(places.max(0)).unwrap_or(u64::MAX))
    }
}

impl Area {
    pub(super) fn may_take(&self, wanted: &Wanted<'_>) -> bool {
        self.free.0.holds(wanted.total)
            && self.tree.bound().is_some_and(|room| wanted.sizes.iter().all(|it| room.holds(it)))
    }
}

impl Kept {
    pub(super) fn new(key: &str) -> Self {
        Self {
            key: Arc::from(key),
            areas: Slots::default(),
            by_value: BTreeMap::new(),
            of: Vec::new(),
            asked: 0,
            changes: 0,
        }
    }

    pub(super) fn area_of(&self, node: NodeSlot) -> Option<AreaId> {
        self.of.get(node.index()).copied().flatten()
    }

    pub(super) fn area(&self, value: &str) -> Option<&Area> {
        self.by_value.get(value).map(|id| &self.areas[*id])
    }

    pub(super) fn enter(
        &mut self,
        slot: NodeSlot,
        attributes: Option<&Attributes>,
        node: &IndexedNode,
    ) {
        let Some(value) = attributes.and_then(|attributes| attributes.get(&self.key)) else {
            return;
        };
        let id = if let Some(id) = self.by_value.get(value) {
            *id
        } else {
            let value: Arc<str> = Arc::from(value);
            let (tree, free) = (OrderedTree::new(), Free::default());
            let id = self.areas.insert(Area { value: Arc::clone(&value), tree, free });
            self.by_value.insert(value, id);
            id
        };
        let (area, room) = (&mut self.areas[id], node.room());
        area.free.add(&room);
        area.tree.insert(node.key, slot, room);
        if self.of.len() <= slot.index() {
            self.of.resize(slot.index() + 1, None);
        }
        self.of[slot.index()] = Some(id);
    }

    pub(super) fn leave(&mut self, slot: NodeSlot, key: &Key) {
        let Some(id) = self.of.get_mut(slot.index()).and_then(Option::take) else { return };
        let area = &mut self.areas[id];
        let (_, room) = area.tree.get(key).expect("a node is in the tree of its domain");
        area.free.subtract(room);
        area.free.0.prune();
        area.tree.remove(key);
        if area.tree.is_empty() {
            let area = self.areas.remove(id);
            self.by_value.remove(&area.value);
        }
    }

    pub(super) fn follow(&mut self, slot: NodeSlot, old: &Key, node: &IndexedNode) {
        self.changes += 1;
        let Some(id) = self.area_of(slot) else { return };
        let (area, room) = (&mut self.areas[id], node.room());
        let (_, before) = area.tree.get(old).expect("a node is in the tree of its domain");
        area.free.subtract(before);
        area.free.add(&room);
        area.tree.rekey(old, node.key, room);
    }
}

impl Domains {
    pub(super) fn kept(&self, key: &str) -> Option<&Kept> {
        self.kept.iter().find(|kept| *kept.key == *key)
    }

    /// Updates the domains after a change of a node's free amount or position in the order; `old`
    /// is its earlier position.
    pub(super) fn follow(&mut self, slot: NodeSlot, old: &Key, node: &IndexedNode) {
        for kept in &mut self.kept {
            kept.follow(slot, old, node);
        }
    }

    /// Adds a node with these attributes.
    pub(super) fn enter(
        &mut self,
        slot: NodeSlot,
        attributes: Option<&Attributes>,
        node: &IndexedNode,
    ) {
        for kept in &mut self.kept {
            kept.enter(slot, attributes, node);
        }
    }

    /// Removes a node, because it is removed or its attributes or its position change.
    pub(super) fn leave(&mut self, slot: NodeSlot, key: &Key) {
        for kept in &mut self.kept {
            kept.leave(slot, key);
        }
    }
}
