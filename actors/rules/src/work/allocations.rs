//! The allocation table: every allocation of a partition, once.
//!
//! Part of the books: an allocation ties an application, a queue path and a node together, so it
//! belongs to none of them. Applications and nodes keep ids into this table.
//!
//! # Invariants
//! * An id is never given twice (it carries a serial), so a late deadline or answer that names an
//!   allocation that is gone finds nothing.
//! * The identity towards an RM is (application, UUID); two applications may use equal keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::nodes::NodeSlot;
use crate::values::resources::Resources;

/// Tags of an application, ask or allocation, shared between the holders.
pub type Tags = Arc<BTreeMap<String, String>>;

/// An application of this partition: a place in its directory, given anew once the application is
/// gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationSlot(pub u32);

/// An allocation of this partition, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId {
    slot: u32,
    serial: u32,
}

#[cfg(test)]
impl AllocationId {
    /// An id of no table.
    pub(crate) fn numbered(slot: u32) -> Self {
        Self { slot, serial: 0 }
    }
}

/// How an ask or allocation came in, which decides how it is answered (scheduler-interface chapter,
/// 1.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// An `AllocationAsk`, which may repeat (F1).
    Ask,
    /// An `Allocation` with a UUID: recovered, not echoed (F2).
    Recovered,
    /// An `Allocation` without one: an ask without node, or placed elsewhere with a node (F3).
    Unified,
}

/// One allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// Whose it is.
    pub application: ApplicationSlot,
    /// The RM's key of the ask.
    pub key: Arc<str>,
    /// The allocation's own name within the application; the key until it is settled.
    pub uuid: Arc<str>,
    /// The question whose answer it waits for; `None` once it is settled.
    pub question: Option<u64>,
    /// Where it is.
    pub node: NodeSlot,
    /// What it holds.
    pub resources: Resources,
    /// Priority of the ask.
    pub priority: i32,
    /// Whether it only keeps room for a member of a task group.
    pub placeholder: bool,
    /// Whether it is the driver or first task of its application.
    pub originator: bool,
    /// Form of the request.
    pub form: Form,
    /// Creation time of the ask, ns since the epoch.
    pub created_ns: i64,
    /// When it was bound, ns since the epoch.
    pub bound_ns: i64,
    /// The core has asked the RM to end it and waits for the confirmation.
    pub released: bool,
    /// The deadline that ends it, while one is set.
    pub deadline: Option<u64>,
    /// Tags of the ask.
    pub tags: Option<Tags>,
}

#[derive(Debug)]
struct Place {
    serial: u32,
    entry: Option<Box<Allocation>>,
}

/// All allocations of a partition. See the module.
#[derive(Debug, Default)]
pub struct AllocationTable {
    places: Vec<Place>,
    free: Vec<u32>,
    len: usize,
}

impl AllocationTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many allocations there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Books an allocation and names it.
    pub fn insert(&mut self, allocation: Allocation) -> AllocationId {
        self.len += 1;
        let entry = Some(Box::new(allocation));
        if let Some(slot) = self.free.pop() {
            let place = &mut self.places[slot as usize];
            place.serial = place.serial.wrapping_add(1);
            place.entry = entry;
            return AllocationId { slot, serial: place.serial };
        }
        let slot = u32::try_from(self.places.len()).expect("four billion allocations do not fit");
        self.places.push(Place { serial: 0, entry });
        AllocationId { slot, serial: 0 }
    }

    /// Looks an allocation up.
    pub fn get(&self, id: AllocationId) -> Option<&Allocation> {
        self.places
            .get(id.slot as usize)
            .filter(|place| place.serial == id.serial)
            .and_then(|place| place.entry.as_deref())
    }

    /// Looks an allocation up to change it.
    pub fn get_mut(&mut self, id: AllocationId) -> Option<&mut Allocation> {
        self.places
            .get_mut(id.slot as usize)
            .filter(|place| place.serial == id.serial)
            .and_then(|place| place.entry.as_deref_mut())
    }

    /// Takes an allocation out; whoever does settles what it held. `None` if it is gone already.
    pub fn remove(&mut self, id: AllocationId) -> Option<Allocation> {
        let place = self.places.get_mut(id.slot as usize).filter(|p| p.serial == id.serial)?;
        let entry = place.entry.take()?;
        self.free.push(id.slot);
        self.len -= 1;
        Some(*entry)
    }

    /// Every allocation with its id, in order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (AllocationId, &Allocation)> {
        self.places.iter().enumerate().filter_map(|(slot, place)| {
            let slot = u32::try_from(slot).ok()?;
            let entry = place.entry.as_deref()?;
            Some((AllocationId { slot, serial: place.serial }, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{NodeIndex, NodeOrder};

    fn entry() -> Allocation {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let node = nodes
            .insert(Arc::from("n"), Resources::new(), Resources::new(), true)
            .expect("the index is empty");
        Allocation {
            application: ApplicationSlot(0),
            key: Arc::from("k"),
            uuid: Arc::from("k"),
            question: None,
            node,
            resources: Resources::new(),
            priority: 0,
            placeholder: false,
            originator: false,
            form: Form::Ask,
            created_ns: 0,
            bound_ns: 0,
            released: false,
            deadline: None,
            tags: None,
        }
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
