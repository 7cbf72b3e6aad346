//! Slots by the keys of their entries: an index that stores no key itself.
//!
//! # Why
//! An application may have a hundred thousand requests and as many allocations, each found by its
//! key. A map would store every key a second time, 24 bytes each. An entry of this index is a part
//! of the key's hash and the slot; the key is read from the slot's entry. The hash is stored so
//! that a growing table does not have to read all keys again.
//!
//! # Invariant
//! A slot is in the index as long as its entry has the key with which it was added.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use super::hashing::Seeded;

/// Slots by keys; the caller supplies the key of the entry in a slot.
#[derive(Clone, Debug)]
pub struct KeyIndex<S> {
    entries: HashTable<(u32, S)>,
}

impl<S> Default for KeyIndex<S> {
    fn default() -> Self {
        Self { entries: HashTable::new() }
    }
}

impl<S: Copy + PartialEq> KeyIndex<S> {
    /// Returns the slot whose entry has the key.
    pub fn find<'a>(&self, key: &str, key_of: impl Fn(S) -> Option<&'a str>) -> Option<S> {
        let hash = short(key);
        let is_it = |entry: &(u32, S)| entry.0 == hash && key_of(entry.1) == Some(key);
        self.entries.find(spread(hash), is_it).map(|entry| entry.1)
    }

    /// Adds a slot; no other slot in the index has its key.
    pub fn insert(&mut self, key: &str, place: S) {
        let hash = short(key);
        self.entries.insert_unique(spread(hash), (hash, place), |entry| spread(entry.0));
    }

    /// Removes the slot, if it was added with that key.
    pub fn remove(&mut self, key: &str, place: S) {
        let hash = short(key);
        if let Ok(entry) = self.entries.find_entry(spread(hash), |entry| *entry == (hash, place)) {
            entry.remove();
        }
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Returns the part of a key's hash that is stored.
fn short(key: &str) -> u32 {
    (Seeded.hash_one(key) >> 32) as u32
}

/// Returns a hash of 64 bits for the table, which takes an index from the low bits and a tag from
/// the high ones: both depend on all 32 bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_map_would(ops in prop::collection::vec((any::<bool>(), 0..40_u32), 0..200)) {
            let texts: Vec<String> = (0..40).map(|number| format!("ask-{number}")).collect();
            let key_of = |place: u32| texts.get(place as usize).map(String::as_str);
            let (mut index, mut model) = (KeyIndex::<u32>::default(), BTreeMap::new());
            for (comes, place) in ops {
                let key = &*texts[place as usize];
                if !comes {
                    index.remove(key, place);
                    model.remove(key);
                } else if model.insert(key, place).is_none() {
                    index.insert(key, place);
                }
                prop_assert_eq!(index.len(), model.len());
                for (place, key) in (0..).zip(&texts) {
                    let found = index.find(key, key_of);
                    prop_assert_eq!(found, model.get(&**key).copied(), "{}", place);
                }
            }
        }
    }

    #[test]
    fn two_texts_with_one_short_hash_are_told_apart() {
        let mut index = KeyIndex::<u32>::default();
        // Both are added as if they had the hash of "a".
        index.insert("a", 1);
        index.insert("a", 2);
        let key_of = |place| Some(if place == 1 { "x" } else { "a" });
        assert_eq!(index.find("a", key_of), Some(2));
        index.remove("a", 1);
        assert_eq!(index.len(), 1);
        assert_eq!(index.find("a", key_of), Some(2));
    }
}
