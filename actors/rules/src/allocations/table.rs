//! The allocation table: every allocation of a partition, once.
//!
//! An allocation ties an application, a queue path and a node together, so it belongs to none of
//! them. Applications and nodes keep ids into this table, because two copies of an allocation could
//! differ.
//!
//! # Invariants
//! * While the table is copied ([`AllocationTable::begin_copy`]), a part of it is copied before
//!   anything in it changes: the copy is of the moment at which it was begun.
//! * An id is never used twice: it carries a serial. So a late deadline or answer that names an
//!   allocation which has ended finds nothing.

use serde::{Deserialize, Serialize};

use super::allocation::Allocation;
use crate::values::ids::{AllocationId, AllocationSlot};
use crate::values::slots::Slots;

/// All allocations of a partition by their ids.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct AllocationTable {
    allocations: Slots<AllocationSlot, Allocation>,
    /// For each slot, the number of times that it was used again. It makes an id unique.
    serials: Vec<u32>,
    /// The copy under way; `None`: there is none. An image has none: it is one.
    #[serde(skip)]
    copy: Option<Box<TableCopy>>,
}

/// A copy of the table that is under way.
#[derive(Debug)]
struct TableCopy {
    /// The parts that were there when it began; `None`: not copied yet.
    parts: Vec<Option<Vec<Option<Allocation>>>>,
    /// The table without its entries.
    empty: Slots<AllocationSlot, Allocation>,
    serials: Vec<u32>,
    /// All parts before this one are copied.
    next: usize,
}

impl Clone for AllocationTable {
    fn clone(&self) -> Self {
        let (allocations, serials) = (self.allocations.clone(), self.serials.clone());
        Self { allocations, serials, copy: None }
    }
}

impl AllocationTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes all allocations out of an image of the table, each with the index of its slot. The table
    /// can then be written in parts.
    pub fn take_all(&mut self) -> Vec<(usize, Allocation)> {
        let taken = self.allocations.take_all().into_iter();
        taken.map(|(slot, allocation)| (slot.index(), allocation)).collect()
    }

    /// Puts an allocation back that was taken out. Returns whether it has a place.
    pub fn put_back(&mut self, index: u32, allocation: Allocation) -> bool {
        self.allocations.fill(AllocationSlot::at(index), allocation)
    }

    /// Whether every slot in use has its allocation.
    pub fn is_whole(&self) -> bool {
        self.allocations.values().count() == self.allocations.len()
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
        self.will_change(self.allocations.next());
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
        if !self.is_current(id) {
            return None;
        }
        self.will_change(id.slot);
        self.allocations.find_mut(id.slot)
    }

    /// Removes an allocation; the caller releases what it held. `None` if it is not in the table.
    pub fn remove(&mut self, id: AllocationId) -> Option<Allocation> {
        if !self.is_current(id) {
            return None;
        }
        self.will_change(id.slot);
        self.allocations.take(id.slot)
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

    /// Begins a copy of the table as it is now. One that was under way is forgotten.
    pub fn begin_copy(&mut self) {
        let parts = (0..self.allocations.n_parts()).map(|_| None).collect();
        let empty = self.allocations.with_parts(Vec::new());
        let copy = TableCopy { parts, empty, serials: self.serials.clone(), next: 0 };
        self.copy = Some(Box::new(copy));
    }

    /// Copies the next part. Returns whether parts are left.
    pub fn go_on_copying(&mut self) -> bool {
        let Some(copy) = &mut self.copy else { return false };
        while let Some(part) = copy.parts.get_mut(copy.next) {
            copy.next += 1;
            if part.is_none() {
                *part = Some(self.allocations.copy_of_part(copy.next - 1));
                break;
            }
        }
        copy.next < copy.parts.len()
    }

    /// Ends the copy that was begun last, and returns it. `None`: none is under way.
    pub fn end_copy(&mut self) -> Option<Self> {
        while self.go_on_copying() {}
        let TableCopy { parts, empty, serials, .. } = *self.copy.take()?;
        let parts = parts.into_iter().flatten().collect();
        Some(Self { allocations: empty.with_parts(parts), serials, copy: None })
    }

    /// Copies the part with this slot, if a copy is under way and has not got it yet.
    #[inline]
    fn will_change(&mut self, slot: AllocationSlot) {
        if let Some(copy) = &mut self.copy
            && let part = Slots::<AllocationSlot, Allocation>::part_of(slot)
            && let Some(place @ None) = copy.parts.get_mut(part)
        {
            *place = Some(self.allocations.copy_of_part(part));
        }
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
    fn a_copy_is_of_the_moment_at_which_it_was_begun() {
        let mut table = AllocationTable::new();
        let ids: Vec<_> = (0..700).map(|_| table.insert(entry())).collect();
        table.remove(ids[3]).unwrap();
        let before = table.clone();
        assert!(table.end_copy().is_none(), "none was begun");
        table.begin_copy();
        assert!(table.go_on_copying());
        table.get_mut(ids[0]).unwrap().bound_ns = 7;
        table.get_mut(ids[600]).unwrap().bound_ns = 8;
        table.remove(ids[300]).unwrap();
        let new: Vec<_> = (0..300).map(|_| table.insert(entry())).collect();
        let mut copy = table.end_copy().unwrap();
        let text = |table: &AllocationTable| format!("{:?}", table.iter().collect::<Vec<_>>());
        assert_eq!(text(&copy), text(&before));
        assert_eq!(table.get(ids[600]).unwrap().bound_ns, 8);
        assert!(copy.get(new[299]).is_none() && copy.get(ids[3]).is_none());
        assert_eq!(copy.insert(entry()), before.clone().insert(entry()), "the same id is next");
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
