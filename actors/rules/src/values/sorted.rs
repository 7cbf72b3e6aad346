//! The serialized form of hash sets: a sequence in order of the members.
//!
//! The same set always gives the same bytes, and no hash is written. For a field,
//! `#[serde(with = "crate::values::sorted")]`.
//!
//! ```
//! use monoceros_rules::values::hashing::SeededSet;
//! use monoceros_rules::values::sorted;
//! let set: SeededSet<&str> = ["n2", "n10", "n1"].into_iter().collect();
//! let mut text = Vec::new();
//! sorted::serialize(&set, &mut serde_json::Serializer::new(&mut text)).unwrap();
//! assert_eq!(text, br#"["n1","n10","n2"]"#);
//! ```

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// Writes a set in order of its members.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<'a, C, T, S>(set: &'a C, serializer: S) -> Result<S::Ok, S::Error>
where
    &'a C: IntoIterator<Item = &'a T>,
    T: Ord + Serialize + 'a,
    S: Serializer,
{
    let mut members: Vec<&T> = set.into_iter().collect();
    members.sort_unstable();
    serializer.collect_seq(members)
}

/// Reads a set.
///
/// # Errors
/// Those of the deserializer.
pub fn deserialize<'de, D, C>(deserializer: D) -> Result<C, D::Error>
where
    D: Deserializer<'de>,
    C: Deserialize<'de>,
{
    C::deserialize(deserializer)
}
