//! Resource names as numbers.
//!
//! Names arrive with nodes, asks and configurations, and decisions compare them all the time; so
//! each is replaced by a number. All numbers of a process are in one table, since any code must be
//! able to show the text of a number. [`holder`](super::holder) describes who holds a name.
//!
//! # Invariants
//! * A number is never given to another name, even when its name was released. So an amount that
//!   outlives its name cannot be taken for an amount of another type: it is left out where amounts
//!   are shown.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::values::hashing::SeededMap;

/// A resource type as a number: equal text, equal `Name`, for as long as it is held.
///
/// Its order is the order of first use and must never reach a decision or a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(NonZeroU64);

/// The refusal of a name, because the holder has as many names as it may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource name `{name}` cannot be added: {limit} names are in use, the limit of one RM")]
pub struct TooManyNames {
    /// The refused name.
    pub name: String,
    /// The largest number of names.
    pub limit: usize,
}

/// Names that always exist, in alphabetical order: among these, and only these, the order of the
/// numbers *is* the order of the texts.
const WELL_KNOWN: [&str; 4] = ["ephemeral-storage", "memory", "pods", "vcore"];

/// The text for a name that is not held any more.
const GIVEN_BACK: &str = "(given back)";

/// The names of a process.
#[derive(Default)]
struct Table {
    by_text: SeededMap<Arc<str>, Name>,
    entries: FxHashMap<Name, Entry>,
    next: u64,
}

struct Entry {
    text: Arc<str>,
    /// The number of holders; `None` if it stays for the life of the process.
    holders: Option<u64>,
}

fn table() -> &'static RwLock<Table> {
    static TABLE: OnceLock<RwLock<Table>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table::default();
        for text in WELL_KNOWN {
            table.keep(text);
        }
        RwLock::new(table)
    })
}

fn read() -> RwLockReadGuard<'static, Table> {
    table().read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Table> {
    table().write().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn entry(&mut self, text: &str) -> Name {
        if let Some(name) = self.by_text.get(text) {
            return *name;
        }
        let (text, name) = (Arc::<str>::from(text), Name::numbered(self.next));
        self.next += 1;
        self.by_text.insert(Arc::clone(&text), name);
        self.entries.insert(name, Entry { text, holders: Some(0) });
        name
    }

    fn keep(&mut self, text: &str) -> Name {
        let name = self.entry(text);
        if let Some(entry) = self.entries.get_mut(&name) {
            entry.holders = None;
        }
        name
    }

    /// Adds a holder of the name; returns its text, too.
    fn hold(&mut self, text: &str) -> (Name, Arc<str>) {
        let name = self.entry(text);
        let entry = self.entries.get_mut(&name).expect("it was found or added just now");
        if let Some(holders) = &mut entry.holders {
            *holders += 1;
        }
        (name, Arc::clone(&entry.text))
    }

    /// Removes a holder of the name.
    fn give_back(&mut self, name: Name) {
        let Some(entry) = self.entries.get_mut(&name) else { return };
        let Some(holders) = &mut entry.holders else { return };
        *holders = holders.saturating_sub(1);
        if *holders == 0
            && let Some(entry) = self.entries.remove(&name)
        {
            self.by_text.remove(&entry.text);
        }
    }
}

/// Holds a name; see [`Table::hold`].
pub(super) fn hold(text: &str) -> (Name, Arc<str>) {
    write().hold(text)
}

/// Releases names, one holder of each.
pub(super) fn give_back(names: impl IntoIterator<Item = Name>) {
    let mut table = write();
    for name in names {
        table.give_back(name);
    }
}

impl Name {
    /// Main memory, in bytes.
    pub const MEMORY: Self = Self::numbered(1);
    /// Processor time, in thousandths of a core.
    pub const VCORE: Self = Self::numbered(3);

    /// Returns the name that was used first after `earlier` others. Its number is one more, so that
    /// an optional name takes no more memory than a name.
    const fn numbered(earlier: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(earlier))
    }

    /// Returns the name of this text, which stays for the life of the process. For names from the
    /// program or its operator; names from outside are held by a [`NameHolder`](super::NameHolder).
    pub fn keep(text: &str) -> Self {
        let kept = |table: &Table, name: &Name| {
            table.entries.get(name).is_some_and(|entry| entry.holders.is_none())
        };
        let table = read();
        if let Some(name) = table.by_text.get(text).filter(|name| kept(&table, name)) {
            return *name;
        }
        drop(table);
        write().keep(text)
    }

    /// Returns the name of this text, if it is held.
    pub fn known(text: &str) -> Option<Self> {
        read().by_text.get(text).copied()
    }

    /// Whether it is one of the well-known names, which need no holder.
    pub(super) fn is_well_known(self) -> bool {
        self.0.get() <= WELL_KNOWN.len() as u64
    }

    /// Returns the name of a well-known text; `None` for any other text.
    pub(super) fn well_known(text: &str) -> Option<Self> {
        let at = WELL_KNOWN.iter().position(|known| *known == text)?;
        Some(Self::numbered(at as u64))
    }

    /// Orders `self` and `other` by their texts. Cheap among the well-known names, whose numbers
    /// are in that order; any other reads the table.
    pub fn alphabetical(self, other: Self) -> Ordering {
        if self == other || (self.is_well_known() && other.is_well_known()) {
            return self.cmp(&other);
        }
        let table = read();
        let text = |name| table.entries.get(&name).map(|entry| &*entry.text);
        // Released names, which have no text, come first, ordered by number.
        text(self).cmp(&text(other)).then(self.cmp(&other))
    }

    /// Returns the text; `None` if the name is not held any more.
    pub fn find_text(self) -> Option<Arc<str>> {
        read().entries.get(&self).map(|entry| Arc::clone(&entry.text))
    }

    /// Returns the text, or a replacement if the name is not held any more.
    pub fn text(self) -> Arc<str> {
        self.find_text().unwrap_or_else(|| Arc::from(GIVEN_BACK))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

/// Reads the text of a name, which stays for the life of the process: only for texts that the
/// program wrote itself.
impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::keep(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_equal_names() {
        let name = Name::keep("nvidia.com/gpu");
        assert_eq!(Name::keep("nvidia.com/gpu"), name);
        assert_eq!(name.to_string(), "nvidia.com/gpu");
        assert_eq!(Name::keep("memory"), Name::MEMORY);
        assert_eq!(Name::keep("vcore"), Name::VCORE);
        assert_ne!(Name::keep("Memory"), Name::MEMORY, "case counts");
        for text in WELL_KNOWN {
            assert_eq!(Name::well_known(text), Some(Name::keep(text)));
        }
    }

    #[test]
    fn a_name_is_there_as_long_as_anybody_holds_it_and_its_number_never_comes_again() {
        let mut table = Table::default();
        let (name, text) = table.hold("x");
        assert_eq!((table.hold("x").0, &*text), (name, "x"));
        table.give_back(name);
        assert_eq!(table.entry("x"), name, "another holds it");
        table.give_back(name);
        assert!(table.by_text.is_empty() && table.entries.is_empty());
        assert_ne!(table.hold("x").0, name);
    }

    #[test]
    fn a_name_that_is_kept_stays_whoever_gives_it_back() {
        let mut table = Table::default();
        let (name, _) = table.hold("x");
        table.keep("x");
        table.give_back(name);
        table.give_back(name);
        assert_eq!(table.hold("x").0, name);
    }
}
