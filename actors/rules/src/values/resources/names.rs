//! Resource names, interned once per process.
//!
//! Names arrive with nodes, asks and configurations and stay for the life of the process; there are
//! a handful of them, so that a number of 16 bits stands for each.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, OnceLock, RwLock};

use rustc_hash::FxHashMap;

/// A resource type, interned: equal text, equal `Name`, for the life of the process.
///
/// Its order is the order of first use and must never reach a decision or a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u16);

/// More distinct resource names were used in this process than the table holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource name `{0}` cannot be added: {limit} names are in use", limit = u32::from(u16::MAX) + 1)]
pub struct TooManyNames(pub String);

/// Interned before anything else, in alphabetical order: among these alone the interned order *is*
/// the order of the texts.
const WELL_KNOWN: [&str; 4] = ["ephemeral-storage", "memory", "pods", "vcore"];

struct Names {
    by_text: FxHashMap<Arc<str>, Name>,
    texts: Vec<Arc<str>>,
}

fn names() -> &'static RwLock<Names> {
    static NAMES: OnceLock<RwLock<Names>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Names { by_text: FxHashMap::default(), texts: Vec::new() };
        for well_known in WELL_KNOWN {
            names.add(well_known).expect("the table starts empty");
        }
        RwLock::new(names)
    })
}

impl Names {
    fn add(&mut self, text: &str) -> Result<Name, TooManyNames> {
        if let Some(name) = self.by_text.get(text) {
            return Ok(*name);
        }
        let Ok(number) = u16::try_from(self.texts.len()) else {
            return Err(TooManyNames(text.to_owned()));
        };
        let text: Arc<str> = Arc::from(text);
        self.texts.push(Arc::clone(&text));
        self.by_text.insert(text, Name(number));
        Ok(Name(number))
    }
}

impl Name {
    /// Main memory, in bytes.
    pub const MEMORY: Self = Self(1);
    /// Processor time, in thousandths of a core.
    pub const VCORE: Self = Self(3);

    /// Looks the text up and adds it where it is new.
    pub fn intern(text: &str) -> Result<Self, TooManyNames> {
        if let Some(name) = names().read().expect("no holder panics").by_text.get(text) {
            return Ok(*name);
        }
        names().write().expect("no holder panics").add(text)
    }

    /// Whether `self` or `other` comes first in order of their texts. Cheap among the well-known
    /// names, which are interned in that order; any other takes a look at the table.
    pub fn alphabetical(self, other: Self) -> Ordering {
        let well_known = |name: Self| usize::from(name.0) < WELL_KNOWN.len();
        if self == other || (well_known(self) && well_known(other)) {
            return self.cmp(&other);
        }
        let names = names().read().expect("no holder panics");
        names.texts[usize::from(self.0)].cmp(&names.texts[usize::from(other.0)])
    }

    /// The text that was interned.
    pub fn text(self) -> Arc<str> {
        Arc::clone(&names().read().expect("no holder panics").texts[usize::from(self.0)])
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_equal_names() {
        let name = Name::intern("nvidia.com/gpu").unwrap();
        assert_eq!(Name::intern("nvidia.com/gpu"), Ok(name));
        assert_eq!(name.to_string(), "nvidia.com/gpu");
        assert_eq!(Name::intern("memory"), Ok(Name::MEMORY));
        assert_eq!(Name::intern("vcore"), Ok(Name::VCORE));
        assert_ne!(Name::intern("Memory"), Ok(Name::MEMORY), "case counts");
    }

    #[test]
    fn a_full_table_refuses_new_names_and_knows_the_old_ones() {
        let mut names = Names { by_text: FxHashMap::default(), texts: Vec::new() };
        for number in 0..=u16::MAX {
            assert_eq!(names.add(&number.to_string()), Ok(Name(number)));
        }
        assert_eq!(names.add("one more"), Err(TooManyNames("one more".to_owned())));
        assert_eq!(names.add("7"), Ok(Name(7)));
    }
}
