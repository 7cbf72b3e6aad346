//! Immutable texts by name: tags of asks and applications, attributes of nodes.
//!
//! # Why not a map
//! Each pod and each machine has such a set, mostly of a few entries. The first entry of a
//! `BTreeMap` of texts takes 550 bytes; an entry here takes its characters and two addresses.
//!
//! # Invariant
//! * Names are strictly ascending.
//!
//! ```
//! use monoceros_rules::values::texts::Texts;
//!
//! let tags: Texts = [("b", "2"), ("a", "1"), ("b", "3")].into_iter().collect();
//! assert_eq!(tags.get("b"), Some("3"), "the last one counts");
//! assert_eq!(&tags["a"], "1");
//! assert_eq!(tags.iter().map(|(name, _)| name).collect::<String>(), "ab");
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use serde::{Deserialize, Serialize, Serializer};

/// Texts by name, in order of the names.
#[derive(Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "BTreeMap<String, String>")]
pub struct Texts(Box<[(Box<str>, Box<str>)]>);

impl Texts {
    /// The text of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether there is a text of this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns all names with their texts, in order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (&**name, &**text))
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the texts as a map, to be changed or sent.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
    }
}

impl From<BTreeMap<String, String>> for Texts {
    fn from(map: BTreeMap<String, String>) -> Self {
        Self(map.into_iter().map(|(name, text)| (name.into(), text.into())).collect())
    }
}

impl<N: Into<String>, T: Into<String>> FromIterator<(N, T)> for Texts {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(texts: I) -> Self {
        let texts = texts.into_iter().map(|(name, text)| (name.into(), text.into()));
        Self::from(texts.collect::<BTreeMap<String, String>>())
    }
}

impl Index<&str> for Texts {
    type Output = str;

    /// The text of a name that exists.
    fn index(&self, name: &str) -> &str {
        self.get(name).expect("whoever indexes knows that it is there")
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Texts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_what_a_map_would_be(map in prop::collection::btree_map("[a-c]{0,2}", ".{0,3}", 0..8)) {
            let texts = Texts::from(map.clone());
            prop_assert_eq!(texts.to_map(), map.clone());
            prop_assert_eq!((texts.len(), texts.is_empty()), (map.len(), map.is_empty()));
            prop_assert_eq!(format!("{texts:?}"), format!("{map:?}"));
            for name in ["", "a", "b", "ab", "cc", "d"] {
                prop_assert_eq!(texts.get(name), map.get(name).map(String::as_str));
                prop_assert_eq!(texts.contains_key(name), map.contains_key(name));
            }
            let written = serde_json::to_string(&texts).unwrap();
            prop_assert_eq!(&written, &serde_json::to_string(&map).unwrap());
            prop_assert_eq!(serde_json::from_str::<Texts>(&written).unwrap(), texts);
        }
    }
}
