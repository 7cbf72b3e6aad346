//! The allocation table: every allocation of a partition, once.
//!
//! An allocation ties an application, a queue path and a node together, so it belongs to none of
//! them. Applications and nodes keep ids into this table, because two copies of an allocation could
//! differ.
//!
//! # Invariants
//! * An id is never used twice: it carries a serial. So a late deadline or answer that names an
//!   allocation which has ended finds nothing.

use super::allocation::Allocation;
use crate::values::ids::{AllocationId, AllocationSlot};
use crate::values::slots::Slots;

/// All allocations of a partition by their ids.
#[derive(Clone, Debug, Default)]
pub struct AllocationTable {
    allocations: Slots<AllocationSlot, Allocation>,
    /// For each slot, the number of times that it was used again. It makes an id unique.
    serials: Vec<u32>,
}

impl AllocationTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of allocations.
    pub fn len(&self) -> usize {
        self.allocations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    /// Adds an allocation; returns its id.
    pub fn insert(&mut self, allocation: Allocation) -> AllocationId {
        let slot = self.allocations.insert(allocation);
        match self.serials.get_mut(slot.index()) {
            Some(serial) => *serial = serial.wrapping_add(1),
            None => self.serials.push(0),
        }
        AllocationId { slot, serial: self.serials[slot.index()] }
    }

    /// Looks an allocation up.
    #[inline]
    pub fn get(&self, id: AllocationId) -> Option<&Allocation> {
        self.is_current(id).then(|| self.allocations.find(id.slot))?
    }

    /// Looks an allocation up to change it.
    #[inline]
    pub fn get_mut(&mut self, id: AllocationId) -> Option<&mut Allocation> {
        self.is_current(id).then(|| self.allocations.find_mut(id.slot))?
    }

    /// Removes an allocation; the caller releases what it held. `None` if it is not in the table.
    pub fn remove(&mut self, id: AllocationId) -> Option<Allocation> {
        self.is_current(id).then(|| self.allocations.take(id.slot))?
    }

    /// Looks up an allocation that the caller knows to be in the table. If it is missing, the caller
    /// is at fault: debug builds panic, and others get `None`.
    #[inline]
    #[track_caller]
    pub fn known(&self, id: AllocationId) -> Option<&Allocation> {
        let found = self.get(id);
        debug_assert!(found.is_some(), "allocation {id} has to be in the table");
        found
    }

    /// Looks up an allocation to change it that the caller knows to be in the table: see
    /// [`Self::known`].
    #[inline]
    #[track_caller]
    pub fn known_mut(&mut self, id: AllocationId) -> Option<&mut Allocation> {
        debug_assert!(self.get(id).is_some(), "allocation {id} has to be in the table");
        self.get_mut(id)
    }

    /// Removes an allocation that the caller knows to be in the table, as [`Self::known`] finds it.
    #[track_caller]
    pub fn remove_known(&mut self, id: AllocationId) -> Option<Allocation> {
        debug_assert!(self.get(id).is_some(), "allocation {id} has to be in the table");
        self.remove(id)
    }

    /// Every allocation with its id, in order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (AllocationId, &Allocation)> {
        self.allocations
            .iter()
            .map(|(slot, entry)| (AllocationId { slot, serial: self.serials[slot.index()] }, entry))
    }

    #[inline]
    fn is_current(&self, id: AllocationId) -> bool {
        self.serials.get(id.slot.index()) == Some(&id.serial)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::nodes::{NodeIndex, NodeOrder};
    use crate::specs::ask::AskSpec;
    use crate::values::ids::ApplicationSlot;
    use crate::values::resources::Resources;

    fn entry() -> Allocation {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let node = nodes
            .insert(Arc::from("n"), Resources::new(), Resources::new(), true)
            .expect("the index is empty");
        let spec = Arc::new(AskSpec::new("k", Resources::new()));
        Allocation::new(ApplicationSlot::at(0), spec, node, 0, 0)
    }

    #[test]
    fn an_id_that_was_removed_finds_nothing_even_when_its_place_is_used_again() {
        let mut table = AllocationTable::new();
        let first = table.insert(entry());
        assert!(table.remove(first).is_some());
        let second = table.insert(entry());
        assert_ne!(first, second);
        assert!(table.get(first).is_none());
        assert!(table.remove(first).is_none());
        assert!(table.get(second).is_some());
        assert_eq!(table.len(), 1);
    }
}
