//! The serialized form of maps whose keys are neither texts nor integers: a sequence of pairs.
//!
//! JSON has only texts as keys. A hash map is written in this form whatever its keys, since the
//! pairs are in order of the keys: the same map always gives the same bytes, and no hash is
//! written. For a field, `#[serde(with = "crate::values::pairs")]`.
//!
//! ```
//! use std::collections::BTreeMap;
//! use monoceros_rules::values::pairs;
//! let map = BTreeMap::from([((2, 3), "b"), ((1, 2), "a")]);
//! let mut text = Vec::new();
//! pairs::serialize(&map, &mut serde_json::Serializer::new(&mut text)).unwrap();
//! assert_eq!(text, br#"[[[1,2],"a"],[[2,3],"b"]]"#);
//! let mut read = serde_json::Deserializer::from_slice(&text);
//! assert_eq!(pairs::deserialize::<_, _, _, BTreeMap<_, _>>(&mut read).unwrap(), map);
//! ```

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// Writes a map as pairs of key and value, in order of the keys.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<'a, M, K, V, S>(map: &'a M, serializer: S) -> Result<S::Ok, S::Error>
where
    &'a M: IntoIterator<Item = (&'a K, &'a V)>,
    K: Ord + Serialize + 'a,
    V: Serialize + 'a,
    S: Serializer,
{
    let mut pairs: Vec<(&K, &V)> = map.into_iter().collect();
    pairs.sort_by_key(|(key, _)| *key);
    serializer.collect_seq(pairs)
}

/// Reads a map that was written as pairs.
///
/// # Errors
/// Those of the deserializer.
pub fn deserialize<'de, D, K, V, M>(deserializer: D) -> Result<M, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de>,
    V: Deserialize<'de>,
    M: FromIterator<(K, V)> + IntoIterator<Item = (K, V)>,
{
    Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
}
