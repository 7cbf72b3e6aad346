//! A ring of plain values: the newest value replaces the oldest.
//!
//! # Invariants
//! * A ring allocates only once, when it is made. Memory that was never filled is not touched, so
//!   the ring of a partition with few decisions takes little.
//! * Items that are added together are contiguous in memory.
//! * A position is used only once, so items that were overwritten are recognized.

/// The last values, up to a number.
#[derive(Clone, Debug)]
pub(super) struct Ring<T> {
    /// The items: as many as were ever filled, with capacity for all.
    items: Vec<T>,
    /// Zero, or a power of two, so that an index is computed without a division.
    room: usize,
    /// The number of positions that were used.
    given: u64,
}

/// The position of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    at: u64,
    len: usize,
}

impl Place {
    /// The position of a single item, if only single items were put before it.
    pub(super) fn of(nth: u64) -> Self {
        Self { at: nth, len: 1 }
    }
}

impl<T: Copy + Default> Ring<T> {
    /// Builds a ring with capacity for this many items, or for some more.
    pub(super) fn new(room: usize) -> Self {
        let room = if room == 0 { 0 } else { room.next_power_of_two() };
        Self { items: Vec::with_capacity(room), room, given: 0 }
    }

    /// Returns the maximum number of bytes that the ring takes.
    pub(super) fn bytes(&self) -> usize {
        self.room * size_of::<T>()
    }

    /// Puts these items, one behind the other. If they exceed the capacity, puts only the first
    /// ones.
    pub(super) fn put(&mut self, items: &[T]) -> Place {
        let (room, mut at) = (self.room, self.index(self.given));
        let items = &items[..items.len().min(room)];
        if items.is_empty() {
            return Place::default();
        }
        if at + items.len() > room {
            // Items that do not fit at the end begin at the start.
            self.given += (room - at) as u64;
            at = 0;
        }
        let end = at + items.len();
        if end > self.items.len() {
            self.items.resize(end, T::default());
        }
        self.items[at..end].copy_from_slice(items);
        let place = Place { at: self.given, len: items.len() };
        self.given += items.len() as u64;
        place
    }

    /// Returns the items at a position; `None` once any of them was overwritten.
    pub(super) fn get(&self, Place { at, len }: Place) -> Option<&[T]> {
        if len == 0 {
            return Some(&[]);
        }
        if self.given > at.saturating_add(self.room as u64) {
            return None;
        }
        let at = self.index(at);
        self.items.get(at..at + len)
    }

    /// Returns the index of this position among the items; 0 if the ring has no capacity.
    fn index(&self, place: u64) -> usize {
        usize::try_from(place & (self.room as u64).saturating_sub(1)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_there_is_what_was_put_and_the_last_is_always_there(
            room in 1..40_usize, lengths in prop::collection::vec(0..50_usize, 1..100),
        ) {
            let mut ring = Ring::new(room);
            let room = room.next_power_of_two();
            let mut put = Vec::new();
            for (nth, length) in lengths.into_iter().enumerate() {
                let items: Vec<usize> = (0..length).map(|at| nth * 100 + at).collect();
                let place = ring.put(&items);
                put.push((items[..length.min(room)].to_vec(), place));
                let last = put.last().unwrap();
                prop_assert_eq!(ring.get(last.1), Some(&*last.0));
                let mut kept = 0;
                let mut is_gone = false;
                for (items, place) in put.iter().rev().filter(|(items, _)| !items.is_empty()) {
                    match ring.get(*place) {
                        Some(there) => {
                            prop_assert_eq!(there, &**items);
                            prop_assert!(!is_gone, "what is gone is older than what is there");
                            kept += items.len();
                        }
                        None => is_gone = true,
                    }
                }
                prop_assert!(kept <= room);
            }
        }
    }
}
