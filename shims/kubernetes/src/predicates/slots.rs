//! Things by number.
//!
//! # Invariants
//! * A number is that of one thing as long as the thing is there; then it is used again.

use std::ops::{Index, IndexMut};

/// Things by number.
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
    /// Adds a thing, and returns its number.
    pub(super) fn insert(&mut self, thing: T) -> usize {
        if let Some(id) = self.free.pop() {
            self.all[id] = Some(thing);
            return id;
        }
        self.all.push(Some(thing));
        self.all.len() - 1
    }

    /// Takes a thing away, if it is there.
    pub(super) fn remove(&mut self, id: usize) -> Option<T> {
        let thing = self.all.get_mut(id)?.take()?;
        self.free.push(id);
        Some(thing)
    }

    /// All of them, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.all.iter().enumerate().filter_map(|(id, thing)| Some((id, thing.as_ref()?)))
    }

    /// All of them, with their numbers.
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
