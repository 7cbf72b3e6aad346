//! Amounts and limits by resource name: the two types that every other room uses.
//!
//! # Two readings of an absent name
//! In counted amounts ([`Resources`]: usage, requests, node capacity) an absent name means *none*.
//! In quotas and headroom ([`Limits`]) an absent name means *unlimited*, and an explicit zero means
//! *nothing*. The same numbers with two readings are two types, so that no comparison can pick the
//! wrong one.
//!
//! # Representation
//! Names are numbers ([`Name`]), which a holder [holds](NameHolder); a value is a small vector of
//! `(name, quantity)` sorted by interned number, inline up to four entries. Requests usually name a
//! prefix of the names of a node, so that a comparison is one short walk without hashing or
//! strings. The interned number depends on the order of first use, so **no decision may depend on
//! it**: amounts that are shown, or summed in floating point, go through [`Resources::sorted`], in
//! order of the text.
//!
//! # Invariants
//! * Entries are strictly ascending by name.
//! * Every sum saturates at the ends of `i64`, except for [`Sum`], which is exact; nothing here
//!   wraps or panics.
//!
//! ```
//! use monoceros_rules::values::resources::{Limits, Resources};
//! let node = Resources::of(&[("memory", 10), ("vcore", 4)]);
//! let ask = Resources::of(&[("memory", 8)]);
//! assert!(node.holds(&ask));
//! let quota = Limits::of(&[("vcore", 0)]);
//! assert!(quota.allows(&ask), "memory is not named, hence unlimited");
//! ```

mod arithmetic;
mod compare;
mod holder;
mod names;
mod shared;
mod sum;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};
use smallvec::SmallVec;

pub use self::arithmetic::BelowZero;
pub use self::compare::{equal, equal_or_zero};
pub use self::holder::{NAMES_MAX, NameHolder};
pub use self::names::{Name, TooManyNames};
pub use self::shared::SharedAmounts;
pub use self::sum::Sum;

/// The longest name of a resource that is accepted from outside, in bytes.
pub const NAME_BYTES: usize = 256;
/// The largest quantity of one item that is accepted from outside. The sum of a thousand of them is
/// still a quantity, so one giant node or allocation does not exclude all others from the
/// partition.
pub const QUANTITY_MAX: i64 = 1 << 53;

type Entry = (Name, i64);
type Entries = SmallVec<[Entry; 4]>;

/// A counted amount: usage, request or capacity. A name that is absent counts as zero, but `==`
/// distinguishes absent from an explicit zero; see [`Resources::same_amount`].
#[derive(Default, PartialEq, Eq, Hash)]
pub struct Resources(Entries);

/// An upper bound on amounts. A name that is absent is unlimited, and an explicit zero allows
/// nothing. Values may be negative: headroom of a queue that is above its quota.
#[derive(Default, PartialEq, Eq, Hash)]
pub struct Limits(Entries);

/// Not derived: a derived clone copies one entry after another, and every decision makes some
/// copies.
impl Clone for Resources {
    fn clone(&self) -> Self {
        Self(Entries::from_slice(&self.0))
    }
}

/// Copies as [`Resources`] does.
impl Clone for Limits {
    fn clone(&self) -> Self {
        Self(Entries::from_slice(&self.0))
    }
}

impl Resources {
    /// The empty amount, as a constant.
    pub const NONE: Self = Self(SmallVec::new_const());

    /// Returns the empty amount.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds an amount from texts, whose names stay for the life of the process; for tests,
    /// examples and constants. Of a repeated name the last entry counts.
    pub fn of(entries: &[(&str, i64)]) -> Self {
        let mut resources = Self::new();
        for (name, quantity) in entries {
            resources.set(Name::keep(name), *quantity);
        }
        resources
    }

    /// The quantity of `name`; zero if it is absent.
    pub fn get(&self, name: Name) -> i64 {
        self.find(name).unwrap_or(0)
    }

    /// The quantity of `name`, if it is present.
    pub fn find(&self, name: Name) -> Option<i64> {
        find(&self.0, name)
    }

    /// Sets one quantity, an explicit zero included.
    pub fn set(&mut self, name: Name, quantity: i64) {
        set(&mut self.0, name, quantity);
    }

    /// Adds one quantity, whose name comes after all present names.
    pub(crate) fn push(&mut self, name: Name, quantity: i64) {
        debug_assert!(self.0.last().is_none_or(|last| last.0 < name), "names ascend");
        self.0.push((name, quantity));
    }

    /// The entries that are present, in interned order, which must not be shown to readers.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Name, i64)> + '_ {
        self.0.iter().copied()
    }

    /// The entries in order of their texts: for people, and for sums in floating point.
    pub fn sorted(&self) -> Vec<(Arc<str>, i64)> {
        sorted(&self.0)
    }

    /// Whether no name is present at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Limits {
    /// No limit on anything.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Builds limits from texts; for tests, examples and constants.
    pub fn of(entries: &[(&str, i64)]) -> Self {
        Self(Resources::of(entries).0)
    }

    /// The limit on `name`; `None` if it is unlimited.
    pub fn find(&self, name: Name) -> Option<i64> {
        find(&self.0, name)
    }

    /// The entries that are limited, in interned order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Name, i64)> + '_ {
        self.0.iter().copied()
    }

    /// The entries in order of their texts.
    pub fn sorted(&self) -> Vec<(Arc<str>, i64)> {
        sorted(&self.0)
    }

    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        self.0.is_empty()
    }

    /// The limits read as an amount, in which an absent name is zero.
    pub fn as_resources(&self) -> Resources {
        Resources(Entries::from_slice(&self.0))
    }
}

impl From<Resources> for Limits {
    fn from(resources: Resources) -> Self {
        Self(resources.0)
    }
}

fn find(entries: &[Entry], name: Name) -> Option<i64> {
    // For up to four or five entries a scan is quicker than a binary search.
    entries.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// [`find`], for a name that is usually at index `at`.
fn find_near(entries: &[Entry], at: usize, name: Name) -> Option<i64> {
    match entries.get(at) {
        Some(&(here, quantity)) if here == name => Some(quantity),
        _ => find(entries, name),
    }
}

fn set(entries: &mut Entries, name: Name, quantity: i64) {
    match entries.binary_search_by_key(&name, |entry| entry.0) {
        Ok(at) => entries[at].1 = quantity,
        Err(at) => entries.insert(at, (name, quantity)),
    }
}

/// Every name of either side with the quantities where they are present.
fn merged<'a>(
    left: &'a [Entry],
    right: &'a [Entry],
) -> impl Iterator<Item = (Name, Option<i64>, Option<i64>)> + 'a {
    let (mut l, mut r) = (0, 0);
    std::iter::from_fn(move || {
        let next = match (left.get(l), right.get(r)) {
            (None, None) => return None,
            (Some(&(name, q)), None) => (name, Some(q), None),
            (None, Some(&(name, q))) => (name, None, Some(q)),
            (Some(&(ln, lq)), Some(&(rn, rq))) => match ln.cmp(&rn) {
                std::cmp::Ordering::Less => (ln, Some(lq), None),
                std::cmp::Ordering::Greater => (rn, None, Some(rq)),
                std::cmp::Ordering::Equal => (ln, Some(lq), Some(rq)),
            },
        };
        l += usize::from(next.1.is_some());
        r += usize::from(next.2.is_some());
        Some(next)
    })
}

fn sorted(entries: &Entries) -> Vec<(Arc<str>, i64)> {
    // A name without a text is not in use any more.
    let named = entries.iter().filter_map(|&(name, q)| Some((name.find_text()?, q)));
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

fn write_text(entries: &Entries, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("map[")?;
    for (at, (name, quantity)) in sorted(entries).iter().enumerate() {
        write!(f, "{}{name}:{quantity}", if at == 0 { "" } else { " " })?;
    }
    f.write_str("]")
}

fn serialize<S: Serializer>(entries: &Entries, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    for (name, quantity) in sorted(entries) {
        map.serialize_entry(&*name, &quantity)?;
    }
    map.end()
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(&self.0, f)
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(&self.0, f)
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(&self.0, f)
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(&self.0, f)
    }
}

impl Serialize for Resources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, serializer)
    }
}

/// Reads the written form: an absent name stays absent, and a zero stays a zero. The names stay for
/// the life of the process, so this is only for texts that the program wrote itself.
impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut resources = Self::new();
        for (name, quantity) in BTreeMap::<String, i64>::deserialize(deserializer)? {
            resources.set(Name::keep(&name), quantity);
        }
        Ok(resources)
    }
}

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, serializer)
    }
}

/// Reads the written form, as [`Resources`] do.
impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Resources::deserialize(deserializer).map(Self::from)
    }
}
