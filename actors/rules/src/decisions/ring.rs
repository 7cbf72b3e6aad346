//! A ring of plain values: what comes last takes the place of what came first.
//!
//! # Invariants
//! * A ring never allocates after it was made.
//! * What was put in by one call lies in one piece.
//! * A place is never given twice: what was overwritten is known to be gone.

/// The last so many values.
#[derive(Clone, Debug)]
pub(super) struct Ring<T> {
    items: Box<[T]>,
    /// How many places were given so far.
    given: u64,
}

/// Where something was put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    at: u64,
    len: u32,
}

impl Place {
    /// The place of a single value that was put in with only single ones before it.
    pub(super) fn of(nth: u64) -> Self {
        Self { at: nth, len: 1 }
    }
}

impl<T: Copy + Default> Ring<T> {
    /// A ring with room for so many.
    pub(super) fn new(room: usize) -> Self {
        Self { items: vec![T::default(); room].into_boxed_slice(), given: 0 }
    }

    /// How many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.items)
    }

    /// Puts these in, one behind the other. Of more than there is room for, only the first.
    pub(super) fn put(&mut self, items: &[T]) -> Place {
        let room = self.items.len();
        let items = &items[..items.len().min(room)];
        if items.is_empty() {
            return Place::default();
        }
        let mut at = (self.given % room as u64) as usize;
        if at + items.len() > room {
            // What does not fit at the end begins at the start.
            self.given += (room - at) as u64;
            at = 0;
        }
        self.items[at..at + items.len()].copy_from_slice(items);
        let place = Place { at: self.given, len: items.len() as u32 };
        self.given += items.len() as u64;
        place
    }

    /// What was put there; none once any of it was overwritten.
    pub(super) fn get(&self, Place { at, len }: Place) -> Option<&[T]> {
        let room = self.items.len() as u64;
        if len == 0 {
            return Some(&[]);
        }
        if self.given > at.saturating_add(room) {
            return None;
        }
        let at = (at % room) as usize;
        self.items.get(at..at + len as usize)
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
            let mut put = Vec::new();
            for (nth, length) in lengths.into_iter().enumerate() {
                let items: Vec<u32> = (0..length as u32).map(|at| nth as u32 * 100 + at).collect();
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
