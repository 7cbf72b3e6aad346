//! `LentNodes`: the tree of nodes whose capacity may be lent. The operations of the index on it are
//! in [`lending`](super::lending).

use super::node::{IndexedNode, Key};
use super::room::Room;
use crate::order::tree::OrderedTree;
use crate::values::ids::NodeSlot;

/// The nodes whose capacity may be lent.
#[derive(Debug, Default)]
pub(super) struct LentNodes {
    pub(super) tree: OrderedTree<Key, NodeSlot, Room>,
    /// Priorities compare otherwise than the numbers on asks: each ask may come before any other.
    pub(super) ranks_otherwise: bool,
}

impl LentNodes {
    /// Enters a node at its position.
    pub(super) fn enter(&mut self, slot: NodeSlot, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.insert(node.key, slot, Room::open(&node.total, &node.available));
        }
    }

    /// Removes a node from its position.
    pub(super) fn leave(&mut self, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.remove(&node.key);
        }
    }

    /// Follows a change of a node's amounts or position.
    pub(super) fn rekey(&mut self, old: &Key, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.rekey(old, node.key, Room::open(&node.total, &node.available));
        }
    }
}
