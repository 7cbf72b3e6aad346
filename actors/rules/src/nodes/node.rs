//! What the index keeps of one node, and the place of a node in the order.

use std::sync::Arc;

use super::room::Room;
use super::score::{NodeOrder, ordered_bits};
use super::set_aside::SetAside;
use crate::values::resources::Resources;

/// The entry of a node in the index.
#[derive(Debug)]
pub(super) struct IndexedNode {
    pub(super) id: Arc<str>,
    /// Equal nodes have one.
    pub(super) total: Arc<Resources>,
    pub(super) available: Resources,
    pub(super) open: bool,
    /// Whether it is set aside for asks that reserved it.
    pub(super) aside: SetAside,
    pub(super) key: Key,
    /// The flags of the conditions that admit it; see `affinity/flags.rs`.
    pub(super) flags: u64,
}

/// The place of a node in the order: its score, then its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// [`ordered_bits`] of the score.
    pub(super) score: u64,
    pub(super) label: u64,
}

/// From where a search goes on, and in which direction.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// From the first node on, upwards.
    First,
    /// From the node behind this one on, upwards.
    Behind(&'a Key),
    /// From the last node on, downwards.
    Last,
}

impl IndexedNode {
    pub(super) fn has_room(&self, ask: &Resources) -> bool {
        self.available.holds(ask) && self.total.holds(ask)
    }

    pub(super) fn holds(&self, ask: &Resources) -> bool {
        self.is_open_to_all() && self.has_room(ask)
    }

    /// Whether a search that does not name the node may find it.
    pub(super) fn is_open_to_all(&self) -> bool {
        self.open && self.aside == SetAside::No
    }

    /// Whether its room may be lent: it is reserved by an ask that may go elsewhere.
    pub(super) fn is_lent(&self) -> bool {
        self.open && matches!(self.aside, SetAside::Bounded(_))
    }

    /// Whether a search may find it for somebody who does not name it.
    pub(super) fn may_be_found(&self) -> bool {
        self.is_open_to_all() || self.is_lent()
    }

    /// Scores the node as it is now; returns the key it had.
    pub(super) fn rescore(&mut self, order: &NodeOrder) -> Key {
        let old = self.key;
        self.key.score = ordered_bits(order.score(&self.total, &self.available));
        old
    }

    pub(super) fn room(&self) -> Room {
        if self.is_open_to_all() {
            Room::open(&self.total, &self.available).with_flags(self.flags)
        } else {
            Room::closed()
        }
    }
}
