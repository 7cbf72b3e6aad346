//! Typed ids of lanes, of entries in trackers, and of limits.

use serde::{Deserialize, Serialize};

crate::slot! {
    /// The entry of a user or group for one queue, among all trackers.
    pub(super) struct PlaceId;
}

crate::slot! {
    /// The slot of a lane, used again once the lane is closed.
    pub(super) struct LaneSlot;
}

/// The id of a lane of [`Trackers`](super::Trackers). An id is never used twice, so a leaf that
/// still has the id of a closed lane cannot take another lane for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LaneId {
    pub(super) serial: u64,
    pub(super) slot: LaneSlot,
}

/// A limit of a user or a group on a queue. Valid while the trackers do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LimitId(pub(super) PlaceId);

#[cfg(test)]
impl LimitId {
    /// Returns an id that no limit has.
    pub(crate) fn numbered(number: u32) -> Self {
        Self(crate::values::slots::Slot::at(number))
    }
}
