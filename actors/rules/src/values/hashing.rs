//! Hashing of keys that come from outside.
//!
//! # Why
//! A sender who knows a hash function can send keys that all have one hash. Each look-up among a
//! hundred thousand of them would compare all, and one RM would stop the thread that serves every
//! other RM, too. So a random seed of the process goes into the hashes of ids, keys, names and
//! amounts. Numbers that the scheduler itself assigns (a slot, the id of an allocation) are hashed
//! without a seed.
//!
//! # Invariant
//! * The order in such a map differs between processes. No decision depends on it, and only one
//!   read shows it: the health check, which reads the first 4,096 allocations of an application.
//!
//! # Limits
//! A sender that could time single look-ups for long might find the seed: this hash is made for
//! speed, not to keep a secret against analysis.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;

/// A map by keys that come from outside.
pub type SeededMap<K, V> = HashMap<K, V, Seeded>;

/// A set of values that come from outside.
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
        FoldHasher::with_seed(*OWN, SharedSeed::global_random())
    }
}

/// The initial state of a hash, from the system's random source. It must be secret, too: if the
/// first bytes of a key were equal to it, the rest of the key would not count.
static OWN: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_begin_with_what_might_be_a_seed_have_hashes_of_their_own() {
        for begin in ["\0\0\0\0\0\0\0\0", "\u{1}\0\0\0\0\0\0\0", "aaaaaaaa"] {
            let hashes = (0..1_000).map(|n| Seeded.hash_one(format!("{begin}{n:08}")));
            assert_eq!(hashes.collect::<HashSet<_>>().len(), 1_000, "{begin:?}");
        }
    }

    #[test]
    fn equal_keys_have_one_hash() {
        assert_eq!(Seeded.hash_one("n1"), Seeded.hash_one(String::from("n1")));
    }
}
