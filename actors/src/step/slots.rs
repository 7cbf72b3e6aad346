//! Slots of queues, and of the rows in them.

use monoceros_rules::values::slots::Slot;
use serde::{Deserialize, Serialize};

/// The index of a queue in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct QueueSlot(pub(crate) u32);

impl QueueSlot {
    pub(crate) const ROOT: Self = Self(0);
}

impl Slot for QueueSlot {
    fn at(index: u32) -> Self {
        Self(index)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The index of a row in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct RowSlot(pub(crate) u32);

impl Slot for RowSlot {
    fn at(index: u32) -> Self {
        Self(index)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}
