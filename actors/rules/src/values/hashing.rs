//! How keys that come from outside are hashed.
//!
//! # Why
//! Whoever knows a hash function can send keys that all have one hash, and then each look-up among a
//! hundred thousand of them looks at all: one RM would stop the thread that serves every other, too. So a
//! seed that each process draws for itself goes into the hashes of ids, keys, names and amounts. What has
//! a number that was given here (a slot, the id of an allocation) needs none, and is hashed without.
//!
//! # Invariant
//! * The order in such a map is another one in each process: it reaches no decision, and no reader but of
//!   what should not be (the look for allocations that nobody knows looks at some of each application).

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;

/// A map by keys that come from outside.
pub type SeededMap<K, V> = HashMap<K, V, Seeded>;

/// A set of what comes from outside.
pub type SeededSet<K> = HashSet<K, Seeded>;

/// Hashes with the seed of this process.
///
/// ```
/// use monoceros_rules::values::hashing::SeededMap;
/// let mut nodes = SeededMap::default();
/// nodes.insert("n1", 4);
/// assert_eq!(nodes.get("n1"), Some(&4));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Seeded;

impl BuildHasher for Seeded {
    type Hasher = FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> FoldHasher<'static> {
        // What is secret is the seed that all share.
        FoldHasher::with_seed(0, SharedSeed::global_random())
    }
}
