//! Slots: numbers of entries, with a type for each kind of entry, and tables by slot.
//!
//! # Why
//! Asks, classes, queues, nodes, applications, allocations, lanes and rows are all found by a small
//! number that is used again once its entry is removed: a look-up is an index, and a reference to
//! another entry takes four bytes. Each kind of entry has its own number type
//! ([`slot!`](crate::slot)), so that a number of one kind cannot be used for another.
//!
//! ```
//! use monoceros_rules::values::slots::Slots;
//!
//! monoceros_rules::slot! {
//!     /// A table in a restaurant.
//!     pub struct TableSlot;
//! }
//!
//! let mut guests: Slots<TableSlot, &str> = Slots::default();
//! let (ada, bob) = (guests.insert("ada"), guests.insert("bob"));
//! assert_eq!(guests.remove(ada), "ada");
//! assert_eq!((guests.len(), guests[bob]), (1, "bob"));
//! assert_eq!(guests.insert("eve"), ada, "a place that is free is taken first");
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of entries of one kind, as a type of its own. Made by [`slot!`](crate::slot).
pub trait Slot: Copy {
    /// Returns the slot with this index.
    fn at(index: u32) -> Self;

    /// Returns the index in a table. It is small, since free slots are used again.
    fn index(self) -> usize;
}

/// Defines the slot type of one kind of entry; see [`Slots`].
#[macro_export]
macro_rules! slot {
    ($(#[$doc:meta])* $vis:vis struct $name:ident;) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        $vis struct $name(u32);

        #[allow(dead_code, reason = "not every table is indexed by hand")]
        impl $name {
            /// Returns the slot with this index.
            $vis fn at(index: u32) -> Self {
                Self(index)
            }

            /// Returns the index in a table. It is small, since free slots are used again.
            $vis fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl $crate::values::slots::Slot for $name {
            fn at(index: u32) -> Self {
                Self(index)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

/// The number of entries that are allocated together. The first part grows like a vector, so that a
/// small table is small. Each further part is allocated at once, so that the entries of a large
/// table are never moved.
const PART: usize = 256;

/// A table of entries by their slots.
///
/// Indexing and [`remove`](Self::remove) panic if the slot is free: a holder of a slot knows that
/// its entry exists. [`find`](Self::find) returns `None` instead.
#[derive(Clone)]
pub struct Slots<S, T> {
    /// The parts; all except the last have [`PART`] entries.
    parts: Vec<Vec<Option<T>>>,
    bound: usize,
    free: Vec<u32>,
    slot: PhantomData<fn() -> S>,
}

impl<S, T> Default for Slots<S, T> {
    fn default() -> Self {
        Self { parts: Vec::new(), bound: 0, free: Vec::new(), slot: PhantomData }
    }
}

impl<S, T: fmt::Debug> fmt::Debug for Slots<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().flatten().flatten()).finish()
    }
}

impl<S: Slot, T> Slots<S, T> {
    /// Returns the slot that the next entry gets.
    pub fn next(&self) -> S {
        S::at(self.free.last().copied().unwrap_or_else(|| index_of(self.bound)))
    }

    /// Returns the lowest free slot with at least this index, for tables in which the order of the
    /// slots has a meaning.
    pub fn next_behind(&self, behind: usize) -> S {
        let free = self.free.iter().filter(|free| **free as usize >= behind).min();
        S::at(free.copied().unwrap_or_else(|| index_of(self.bound.max(behind))))
    }

    /// Adds an entry; returns its slot.
    pub fn insert(&mut self, thing: T) -> S {
        self.insert_with(|_| thing)
    }

    /// Adds an entry that is built from its slot.
    pub fn insert_with(&mut self, thing: impl FnOnce(S) -> T) -> S {
        let slot = self.next();
        let thing = thing(slot);
        if self.free.pop().is_some() {
            *self.place(slot).expect("it was in use before") = Some(thing);
        } else {
            self.push(Some(thing));
        }
        slot
    }

    fn push(&mut self, place: Option<T>) {
        if let Some(part) = self.parts.last_mut().filter(|part| part.len() < PART) {
            part.push(place);
        } else {
            let ahead = if self.parts.is_empty() { 1 } else { PART };
            let mut part = Vec::with_capacity(ahead);
            part.push(place);
            self.parts.push(part);
        }
        self.bound += 1;
    }

    /// Returns the memory of a slot that is or was in use.
    fn place(&mut self, slot: S) -> Option<&mut Option<T>> {
        self.parts.get_mut(slot.index() / PART)?.get_mut(slot.index() % PART)
    }

    /// Adds an entry at any free slot.
    pub fn insert_at(&mut self, slot: S, thing: T) {
        debug_assert!(self.find(slot).is_none(), "a slot has one thing");
        while self.bound <= slot.index() {
            self.free.push(index_of(self.bound));
            self.push(None);
        }
        if self.free.last().is_some_and(|last| *last as usize == slot.index()) {
            self.free.pop();
        } else {
            self.free.retain(|free| *free as usize != slot.index());
        }
        *self.place(slot).expect("all up to it were made") = Some(thing);
    }

    /// Removes an entry; its slot may be given to the next new entry.
    pub fn remove(&mut self, slot: S) -> T {
        self.take(slot).expect("what is removed is there")
    }

    /// Removes the entry in the slot, if there is one.
    pub fn take(&mut self, slot: S) -> Option<T> {
        let thing = self.place(slot)?.take()?;
        self.free.push(index_of(slot.index()));
        Some(thing)
    }

    /// Takes all entries out, in the order of the slots. The slots stay in use, to be filled again by
    /// [`Self::fill`].
    pub fn take_all(&mut self) -> Vec<(S, T)> {
        let places = self.parts.iter_mut().flatten().enumerate();
        places.filter_map(|(at, place)| Some((S::at(index_of(at)), place.take()?))).collect()
    }

    /// Puts an entry into a slot from which it was taken. Returns whether there is such a slot.
    pub fn fill(&mut self, slot: S, thing: T) -> bool {
        let place = self.place(slot).filter(|place| place.is_none());
        place.map(|place| *place = Some(thing)).is_some()
    }

    /// Returns the entry in the slot, if there is one.
    pub fn find(&self, slot: S) -> Option<&T> {
        self.parts.get(slot.index() / PART)?.get(slot.index() % PART)?.as_ref()
    }

    /// Returns the entry in the slot, to change it.
    pub fn find_mut(&mut self, slot: S) -> Option<&mut T> {
        self.place(slot)?.as_mut()
    }

    /// Returns every entry with its slot, in the order of the slots.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (S, &T)> {
        let parts = self.parts.iter().enumerate();
        let places = parts.flat_map(|(part, places)| {
            let from = part * PART;
            places.iter().enumerate().map(move |(at, place)| (from + at, place))
        });
        places.filter_map(|(at, place)| Some((S::at(index_of(at)), place.as_ref()?)))
    }

    /// Returns the number of parts: a table can be copied part by part.
    pub(crate) fn n_parts(&self) -> usize {
        self.parts.len()
    }

    /// Returns the part of the table that has this slot.
    pub(crate) fn part_of(slot: S) -> usize {
        slot.index() / PART
    }

    /// Returns a table with the same slots in use and free, and the entries of these parts of this one.
    pub(crate) fn with_parts(&self, parts: Vec<Vec<Option<T>>>) -> Self {
        Self { parts, bound: self.bound, free: self.free.clone(), slot: PhantomData }
    }

    /// Returns a table with an entry of its own for each entry of this one. The next new entries of
    /// both get the same slots.
    pub fn map<U>(&self, mut of: impl FnMut(S, &T) -> U) -> Slots<S, U> {
        let mut at = 0;
        let mut place = |place: &Option<T>| {
            at += 1;
            place.as_ref().map(|entry| of(S::at(index_of(at - 1)), entry))
        };
        let parts = self.parts.iter().map(|part| part.iter().map(&mut place).collect()).collect();
        Slots { parts, bound: self.bound, free: self.free.clone(), slot: PhantomData }
    }

    /// Returns every entry in the order of the slots.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.parts.iter().flatten().flatten()
    }

    /// Returns every entry with its slot, in order of the slots, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (S, &mut T)> {
        let places = self.parts.iter_mut().flatten().enumerate();
        places.filter_map(|(at, place)| Some((S::at(index_of(at)), place.as_mut()?)))
    }

    /// Returns every entry, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.parts.iter_mut().flatten().flatten()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.bound - self.free.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one more than the highest index that was ever in use: the size of a parallel table.
    pub fn bound(&self) -> usize {
        self.bound
    }
}

impl<S, T: Clone> Slots<S, T> {
    /// Returns a copy of a part.
    pub(crate) fn copy_of_part(&self, part: usize) -> Vec<Option<T>> {
        self.parts[part].clone()
    }
}

/// The serialized form of a table.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Slots")]
struct WrittenSlots<E> {
    /// The entries, each with its index, in order.
    entries: E,
    bound: usize,
    /// The free slots in their order: the last one is given to the next new entry.
    free: Vec<u32>,
}

impl<S: Slot, T: Serialize> Serialize for Slots<S, T> {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let entries = self.iter().map(|(slot, thing)| (slot.index(), thing));
        let written = WrittenSlots {
            entries: entries.collect::<Vec<_>>(),
            bound: self.bound,
            free: self.free.clone(),
        };
        written.serialize(serializer)
    }
}

impl<'de, S: Slot, T: Deserialize<'de>> Deserialize<'de> for Slots<S, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenSlots::<Vec<(usize, T)>>::deserialize(deserializer)?;
        let mut slots = Self::default();
        for (at, thing) in written.entries {
            while slots.bound < at {
                slots.push(None);
            }
            slots.push(Some(thing));
        }
        while slots.bound < written.bound {
            slots.push(None);
        }
        slots.free = written.free;
        Ok(slots)
    }
}

impl<S: Slot, T> Index<S> for Slots<S, T> {
    type Output = T;

    fn index(&self, slot: S) -> &T {
        self.find(slot).expect("a slot is used while its thing is there")
    }
}

impl<S: Slot, T> IndexMut<S> for Slots<S, T> {
    fn index_mut(&mut self, slot: S) -> &mut T {
        self.find_mut(slot).expect("a slot is used while its thing is there")
    }
}

fn index_of(place: usize) -> u32 {
    u32::try_from(place).expect("fewer than four billion things of one kind")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::values::again::written_and_read;

    crate::slot! {
        /// The slot type of these tests.
        struct TestSlot;
    }

    proptest! {
        #[test]
        fn the_table_holds_what_a_map_would_and_uses_free_slots_again(
            ops in prop::collection::vec((0..5_u8, prop_oneof![0..12_u32, 250..262_u32]), 0..60),
        ) {
            let mut slots: Slots<TestSlot, u32> = Slots::default();
            let mut model: BTreeMap<usize, u32> = BTreeMap::new();
            for (number, (op, at)) in (0..).zip(ops) {
                match op {
                    0 => {
                        let next = slots.next();
                        prop_assert_eq!(slots.insert(number), next);
                        prop_assert!(model.insert(next.index(), number).is_none());
                    }
                    1 => {
                        let slot = slots.next_behind(at as usize);
                        prop_assert!(slot.index() >= at as usize);
                        slots.insert_at(slot, number);
                        prop_assert!(model.insert(slot.index(), number).is_none());
                    }
                    2 => {
                        let read = written_and_read(&slots);
                        prop_assert_eq!((read.bound, &read.free), (slots.bound, &slots.free));
                        slots = read;
                    }
                    _ => {
                        let taken = slots.take(TestSlot::at(at));
                        prop_assert_eq!(taken, model.remove(&(at as usize)));
                    }
                }
                prop_assert_eq!(slots.len(), model.len());
                let all = slots.iter().map(|(slot, thing)| (slot.index(), *thing));
                prop_assert!(all.eq(model.iter().map(|(at, thing)| (*at, *thing))));
            }
        }
    }
}
