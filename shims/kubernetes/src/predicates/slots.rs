//! Table of items by number.
//!
//! # Invariants
//! * A number belongs to one item while that item exists, and is reused afterwards.

use std::ops::{Index, IndexMut};

/// Table of items by number.
#[derive(Debug)]
pub(super) struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Adds an item and returns its number.
    pub(super) fn insert(&mut self, thing: T) -> usize {
        if let Some(id) = self.free.pop() {
            self.all[id] = Some(thing);
            return id;
        }
        self.all.push(Some(thing));
        self.all.len() - 1
    }

    /// Removes an item if it exists.
    pub(super) fn remove(&mut self, id: usize) -> Option<T> {
        let thing = self.all.get_mut(id)?.take()?;
        self.free.push(id);
        Some(thing)
    }

    /// Returns all items with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.all.iter().enumerate().filter_map(|(id, thing)| Some((id, thing.as_ref()?)))
    }

    /// Returns all items with their numbers.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.all.iter_mut().enumerate().filter_map(|(id, thing)| Some((id, thing.as_mut()?)))
    }
}

impl<T> Index<usize> for Slots<T> {
    type Output = T;

    fn index(&self, id: usize) -> &T {
        self.all[id].as_ref().expect("who has a number has what it is of")
    }
}

impl<T> IndexMut<usize> for Slots<T> {
    fn index_mut(&mut self, id: usize) -> &mut T {
        self.all[id].as_mut().expect("who has a number has what it is of")
    }
}
