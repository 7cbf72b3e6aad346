//! Quantities by name, as every other rule uses them (queues-and-config chapter, section 1).
//!
//! # Two readings of an absent name
//! In counted amounts ([`Resources`]: usage, requests, node capacity) an absent name means *none*.
//! In quotas and headroom ([`Limits`]) an absent name means *unlimited*, and an explicit zero means
//! *nothing*. The same numbers with two readings are two types, so that no comparison can pick the
//! wrong one.
//!
//! # Representation
//! Names are interned once per process ([`Name`]); a value is a small vector of `(name, quantity)`
//! sorted by interned number, inline up to four entries. Requests usually name a prefix of what a
//! node offers, so that a comparison is one short walk without hashing or strings. The interned
//! number depends on who spoke first, so **no decision may depend on it**: everything that is shown
//! or summed in floating point goes by [`Resources::sorted`], in order of the text.
//!
//! # Invariants
//! * Entries are strictly ascending by name.
//! * Every sum saturates at the ends of `i64`; nothing here wraps or panics.
//!
//! ```
//! use monoceros_rules::resources::{Limits, Resources};
//! let node = Resources::of(&[("memory", 10), ("vcore", 4)]);
//! let ask = Resources::of(&[("memory", 8)]);
//! assert!(node.holds(&ask));
//! let quota = Limits::of(&[("vcore", 0)]);
//! assert!(quota.allows(&ask), "memory is not named, hence unlimited");
//! ```

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, RwLock};

use serde::ser::{Serialize, SerializeMap, Serializer};
use smallvec::SmallVec;

/// A resource type, interned: equal text, equal `Name`, for the life of the process.
///
/// Its order is the order of first use and must never reach a decision or a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u16);

/// More distinct resource names were used in this process than the table holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource name `{0}` cannot be added: {limit} names are in use", limit = u16::MAX)]
pub struct TooManyNames(pub String);

/// Interned before anything else, in alphabetical order: among these alone the interned order *is*
/// the order of the texts.
const WELL_KNOWN: [&str; 4] = ["ephemeral-storage", "memory", "pods", "vcore"];

struct Names {
    by_text: HashMap<Arc<str>, Name>,
    texts: Vec<Arc<str>>,
}

fn names() -> &'static RwLock<Names> {
    static NAMES: OnceLock<RwLock<Names>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Names { by_text: HashMap::new(), texts: Vec::new() };
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

type Entries = SmallVec<[(Name, i64); 4]>;

/// A counted amount: usage, request or capacity. A name that is absent counts as zero, yet absent
/// and an explicit zero are told apart (`==` compares them as different; see
/// [`Resources::same_amount`]).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Resources(Entries);

/// What may be used at most. A name that is absent is unlimited, an explicit zero allows nothing;
/// values may be negative (headroom of something that is over its quota).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Limits(Entries);

impl Resources {
    /// Nothing of anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds an amount from texts; for tests, examples and constants. A repeated name: the last
    /// one counts. Panics when the table of names is full.
    pub fn of(entries: &[(&str, i64)]) -> Self {
        let mut resources = Self::new();
        for (name, quantity) in entries {
            resources.set(Name::intern(name).expect("the name table has room"), *quantity);
        }
        resources
    }

    /// The quantity of `name`; zero where it is absent.
    pub fn get(&self, name: Name) -> i64 {
        self.find(name).unwrap_or(0)
    }

    /// The quantity of `name` where it is present.
    pub fn find(&self, name: Name) -> Option<i64> {
        find(&self.0, name)
    }

    /// Sets one quantity, an explicit zero included.
    pub fn set(&mut self, name: Name, quantity: i64) {
        set(&mut self.0, name, quantity);
    }

    /// The entries that are present, in interned order (never in an order a reader may see).
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Name, i64)> + '_ {
        self.0.iter().copied()
    }

    /// The entries in order of their texts: for people, and for sums in floating point.
    pub fn sorted(&self) -> Vec<(Arc<str>, i64)> {
        sorted(&self.0)
    }

    /// Whether no name is present at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every quantity is zero (`IsZero`).
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|(_, quantity)| *quantity == 0)
    }

    /// Whether any quantity is below zero (`HasNegativeValue`).
    pub fn has_negative(&self) -> bool {
        self.0.iter().any(|(_, quantity)| *quantity < 0)
    }

    /// No negative quantity and at least one above zero (`StrictlyGreaterThanZero`).
    pub fn is_positive(&self) -> bool {
        !self.has_negative() && !self.is_zero()
    }

    /// Equality of amounts, absent and zero alike (`Equals` on two non-nil values).
    pub fn same_amount(&self, other: &Self) -> bool {
        merged(&self.0, &other.0).all(|(_, l, r)| l.unwrap_or(0) == r.unwrap_or(0))
    }

    /// A total order of amounts: the alphabetically first name whose quantities differ decides,
    /// absent counting as zero. Whatever is larger in one name and smaller in none is greater here.
    pub fn alphabetical(&self, other: &Self) -> Ordering {
        let mut decisive: Option<(Name, Ordering)> = None;
        for (name, left, right) in merged(&self.0, &other.0) {
            let order = left.unwrap_or(0).cmp(&right.unwrap_or(0));
            let earlier = |(first, _): (Name, _)| name.alphabetical(first).is_lt();
            if order.is_ne() && decisive.is_none_or(earlier) {
                decisive = Some((name, order));
            }
        }
        decisive.map_or(Ordering::Equal, |(_, order)| order)
    }

    /// Whether `smaller` fits in what is here: an absent name or a negative quantity here holds
    /// nothing, and a request of zero always fits (`FitIn`).
    pub fn holds(&self, smaller: &Self) -> bool {
        let mut at = 0;
        for &(name, wanted) in &smaller.0 {
            while at < self.0.len() && self.0[at].0 < name {
                at += 1;
            }
            let here = if at < self.0.len() && self.0[at].0 == name { self.0[at].1 } else { 0 };
            if wanted > here.max(0) {
                return false;
            }
        }
        true
    }

    /// Adds every quantity of `other` (`AddTo`).
    pub fn add(&mut self, other: &Self) {
        combine(&mut self.0, &other.0, i64::saturating_add);
    }

    /// Subtracts every quantity of `other`; the result may be negative (`SubFrom`).
    pub fn subtract(&mut self, other: &Self) {
        combine(&mut self.0, &other.0, i64::saturating_sub);
    }

    /// The sum as a new value (`Add`).
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// The difference as a new value (`Sub`).
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut difference = self.clone();
        difference.subtract(other);
        difference
    }

    /// Every quantity times `factor`; a factor of zero leaves nothing (`Multiply`).
    #[must_use]
    pub fn times(&self, factor: i64) -> Self {
        if factor == 0 {
            return Self::new();
        }
        Self(self.0.iter().map(|&(name, q)| (name, q.saturating_mul(factor))).collect())
    }

    /// Removes the names whose quantity is zero (`Prune`). For usage and totals, never for quotas.
    pub fn prune(&mut self) {
        self.0.retain(|(_, quantity)| *quantity != 0);
    }

    /// [`Self::prune`] on the way out of a chain.
    #[must_use]
    pub fn pruned(mut self) -> Self {
        self.prune();
        self
    }

    /// Raises each quantity to that of `other` where that is larger; names are united, absent
    /// counts as zero (`ComponentWiseMax`).
    pub fn raise_to(&mut self, other: &Self) {
        combine(&mut self.0, &other.0, i64::max);
    }

    /// Lowers each quantity to the smaller of both, absent counting as zero: what is asked at
    /// least by either of two requests.
    pub fn lower_to(&mut self, other: &Self) {
        self.0.retain(|(name, quantity)| {
            let there = find(&other.0, *name).unwrap_or(0);
            *quantity = (*quantity).min(there);
            *quantity != 0
        });
        // A name only the other has counts as zero here: it matters where the other is negative.
        for &(name, quantity) in &other.0 {
            if quantity < 0 && find(&self.0, name).is_none() {
                set(&mut self.0, name, quantity);
            }
        }
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

    /// The limit on `name`, or none.
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

    /// Whether `ask` fits (`FitInMaxUndef`): names that are not limited are skipped, a negative
    /// limit counts as zero, and a request of zero always fits.
    pub fn allows(&self, ask: &Resources) -> bool {
        self.first_exceeded(ask).is_none()
    }

    /// The first name (in interned order) of which `ask` wants more than is allowed.
    pub fn first_exceeded(&self, ask: &Resources) -> Option<Name> {
        let mut at = 0;
        for &(name, wanted) in &ask.0 {
            while at < self.0.len() && self.0[at].0 < name {
                at += 1;
            }
            if at == self.0.len() {
                return None;
            }
            if self.0[at].0 == name && wanted > self.0[at].1.max(0) {
                return Some(name);
            }
        }
        None
    }

    /// What remains of these limits once `used` is taken off; only limited names count
    /// (`SubOnlyExisting`). Values may become negative.
    #[must_use]
    pub fn less(&self, used: &Resources) -> Self {
        let mut left = self.clone();
        left.take(used);
        left
    }

    /// [`Self::less`] in place.
    pub fn take(&mut self, used: &Resources) {
        for (name, limit) in &mut self.0 {
            *limit = limit.saturating_sub(find(&used.0, *name).unwrap_or(0));
        }
    }

    /// Adds to the limited names what `used` gives back (`AddOnlyExisting`).
    pub fn give(&mut self, used: &Resources) {
        for (name, limit) in &mut self.0 {
            *limit = limit.saturating_add(find(&used.0, *name).unwrap_or(0));
        }
    }

    /// Narrows to the smaller limit of both, name by name (`ComponentWiseMin`).
    pub fn narrow(&mut self, other: &Self) {
        for &(name, limit) in &other.0 {
            match self.0.binary_search_by_key(&name, |entry| entry.0) {
                Ok(at) => self.0[at].1 = self.0[at].1.min(limit),
                Err(at) => self.0.insert(at, (name, limit)),
            }
        }
    }

    /// The limits read as an amount: absent becomes zero.
    pub fn as_resources(&self) -> Resources {
        Resources(self.0.clone())
    }
}

impl From<Resources> for Limits {
    fn from(resources: Resources) -> Self {
        Self(resources.0)
    }
}

fn find(entries: &Entries, name: Name) -> Option<i64> {
    // Up to four or five entries a scan beats a binary search.
    entries.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

fn set(entries: &mut Entries, name: Name, quantity: i64) {
    match entries.binary_search_by_key(&name, |entry| entry.0) {
        Ok(at) => entries[at].1 = quantity,
        Err(at) => entries.insert(at, (name, quantity)),
    }
}

/// `left[k] = op(left[k] or 0, right[k])` for every name of `right`.
fn combine(left: &mut Entries, right: &Entries, op: impl Fn(i64, i64) -> i64) {
    let mut at = 0;
    for &(name, quantity) in right {
        while at < left.len() && left[at].0 < name {
            at += 1;
        }
        if at < left.len() && left[at].0 == name {
            left[at].1 = op(left[at].1, quantity);
        } else {
            left.insert(at, (name, op(0, quantity)));
        }
        at += 1;
    }
}

/// Every name of either side with the quantities where they are present.
fn merged<'a>(
    left: &'a Entries,
    right: &'a Entries,
) -> impl Iterator<Item = (Name, Option<i64>, Option<i64>)> + 'a {
    let (mut l, mut r) = (0, 0);
    std::iter::from_fn(move || {
        let next = match (left.get(l), right.get(r)) {
            (None, None) => return None,
            (Some(&(name, q)), None) => (name, Some(q), None),
            (None, Some(&(name, q))) => (name, None, Some(q)),
            (Some(&(ln, lq)), Some(&(rn, rq))) => match ln.cmp(&rn) {
                Ordering::Less => (ln, Some(lq), None),
                Ordering::Greater => (rn, None, Some(rq)),
                Ordering::Equal => (ln, Some(lq), Some(rq)),
            },
        };
        l += usize::from(next.1.is_some());
        r += usize::from(next.2.is_some());
        Some(next)
    })
}

fn sorted(entries: &Entries) -> Vec<(Arc<str>, i64)> {
    let mut named: Vec<_> = entries.iter().map(|&(name, q)| (name.text(), q)).collect();
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

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, serializer)
    }
}
