//! The nodes whose room may be lent, in a tree of their own; see [`lending`](super::lending).

use super::node::{IndexedNode, Key};
use super::room::Room;
use crate::order::tree::OrderedTree;
use crate::values::ids::NodeSlot;

/// The nodes whose room may be lent.
#[derive(Debug, Default)]
pub(super) struct LentNodes {
    pub(super) tree: OrderedTree<Key, NodeSlot, Room>,
    /// Priorities compare otherwise than the numbers on asks: each ask may come before any other.
    pub(super) ranks_otherwise: bool,
}

impl LentNodes {
    /// A node is there again, at its place.
    pub(super) fn enter(&mut self, slot: NodeSlot, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.insert(node.key, slot, Room::open(&node.total, &node.available));
        }
    }

    /// A node leaves its place, or goes.
    pub(super) fn leave(&mut self, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.remove(&node.key);
        }
    }

    /// What a node has, or its place, is another.
    pub(super) fn rekey(&mut self, old: &Key, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.rekey(old, node.key, Room::open(&node.total, &node.available));
        }
    }
}
