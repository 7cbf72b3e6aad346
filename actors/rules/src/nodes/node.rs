//! The entry of a node in the index, and its position in the order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::room::Room;
use super::score::{NodeOrder, ordered_bits};
use super::set_aside::SetAside;
use crate::values::resources::Resources;

/// The entry of a node in the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct IndexedNode {
    pub(super) id: Arc<str>,
    /// The capacity; nodes with equal capacities share one value.
    pub(super) total: Arc<Resources>,
    pub(super) available: Resources,
    pub(super) open: bool,
    /// Whether it is closed only because it drains.
    pub(super) drained: bool,
    /// Whether, and for which asks, it is set aside.
    pub(super) aside: SetAside,
    pub(super) key: Key,
    /// The flags of the conditions that admit it; see `affinity/flags.rs`.
    pub(super) flags: u64,
    /// The number of requests that it refused; see `refusals.rs`.
    pub(super) refusals: u64,
}

/// The position of a node in the order: its score, then its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Key {
    /// The [`ordered_bits`] of the score.
    pub(super) score: u64,
    pub(super) label: u64,
}

/// The start and direction of a search.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// From the first node, upwards.
    First,
    /// From the node after this one, upwards.
    Behind(&'a Key),
    /// From the last node, downwards.
    Last,
}

impl IndexedNode {
    pub(super) fn has_room(&self, ask: &Resources) -> bool {
        self.available.holds(ask) && self.total.holds(ask)
    }

    pub(super) fn holds(&self, ask: &Resources) -> bool {
        self.is_open_to_all() && self.has_room(ask)
    }

    /// Whether a search that does not require the node may find it.
    pub(super) fn is_open_to_all(&self) -> bool {
        self.open && self.aside == SetAside::No
    }

    /// Whether its capacity may be lent: it is reserved by an ask that may use other nodes.
    pub(super) fn is_lent(&self) -> bool {
        self.open && matches!(self.aside, SetAside::Bounded(_))
    }

    /// Whether a search may find it for an ask that does not require it.
    pub(super) fn may_be_found(&self) -> bool {
        self.is_open_to_all() || self.is_lent()
    }

    /// Updates the score of the node; returns its earlier key.
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
