//! The tree of nodes whose capacity may be lent; [`lending`](super::lending) has the operations on
//! it.

use serde::{Deserialize, Serialize};

use super::node::{IndexedNode, Key};
use super::room::Room;
use crate::order::tree::OrderedTree;
use crate::values::ids::NodeSlot;

/// The nodes whose capacity may be lent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LentNodes {
    pub(super) tree: OrderedTree<Key, NodeSlot, Room>,
    /// Whether effective priorities differ from those of the asks, so that each ask may come before
    /// any other.
    pub(super) ranks_otherwise: bool,
}

impl LentNodes {
    /// Adds a node at its position, if it may be lent.
    pub(super) fn enter(&mut self, slot: NodeSlot, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.insert(node.key, slot, Room::open(&node.total, &node.available));
        }
    }

    /// Removes a node from its position, if it may be lent.
    pub(super) fn leave(&mut self, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.remove(&node.key);
        }
    }

    /// Updates a node whose amounts or position changed, if it may be lent.
    pub(super) fn rekey(&mut self, old: &Key, node: &IndexedNode) {
        if node.is_lent() {
            self.tree.rekey(old, node.key, Room::open(&node.total, &node.available));
        }
    }
}
