//! The numbers of lanes, of places and of limits.

crate::slot! {
    /// A place of a user or group for a queue, in the forest of all of them.
    pub(super) struct PlaceId;
}

crate::slot! {
    /// A place among the lanes, given again when its lane is closed.
    pub(super) struct LaneSlot;
}

/// The id of a lane of [`Trackers`](super::Trackers). An id is never given twice, so that a leaf
/// which still knows a lane that is gone does not take another one for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId {
    pub(super) serial: u64,
    pub(super) slot: LaneSlot,
}

/// A limit of a user or a group on a queue, for as long as nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitId(pub(super) PlaceId);

#[cfg(test)]
impl LimitId {
    /// An id that no limit has.
    pub(crate) fn numbered(number: u32) -> Self {
        Self(crate::values::slots::Slot::at(number))
    }
}
