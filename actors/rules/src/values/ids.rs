//! Typed ids: the small numbers by which a partition names its nodes, applications, asks, classes
//! of asks and allocations.
//!
//! They are in this module, below all modules that use them: an allocation names its node and a
//! node counts its allocations, and neither has to import the other for that. The tables that
//! assign the ids are elsewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

crate::slot! {
    /// A node in the node index, until it is removed; then the slot is given to another node.
    pub struct NodeSlot;
}

crate::slot! {
    /// An application of this partition: a slot in its directory, used again once the application
    /// is removed.
    pub struct ApplicationSlot;
}

crate::slot! {
    /// An ask: a slot in the table of its application.
    pub struct AskSlot;
}

crate::slot! {
    /// A class of asks: a slot in the table of their application.
    pub struct ClassId;
}

crate::slot! {
    /// A slot in the allocation table, used again once its allocation is removed.
    pub(crate) struct AllocationSlot;
}

/// An allocation of this partition. No id is used twice: the slot is used again, the serial is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AllocationId {
    pub(crate) slot: AllocationSlot,
    pub(crate) serial: u32,
}

/// The text by which the log identifies it, from the first node that is tried to its release.
impl fmt::Display for AllocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot.index(), self.serial)
    }
}

#[cfg(test)]
impl AllocationId {
    /// An id made of a bare number, for tests of code that only compares ids.
    pub(crate) fn numbered(slot: u32) -> Self {
        Self { slot: AllocationSlot::at(slot), serial: 0 }
    }
}
