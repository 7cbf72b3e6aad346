//! Comparisons of amounts and limits: enough, more, equal.
//!
//! Amounts read an absent name as zero, limits as unlimited. There are many comparisons because
//! they differ in how they read a name that is absent or negative; the comment of each says how.

use std::cmp::Ordering;

use super::{Limits, Name, Resources, find, merged};

impl Resources {
    /// A total order of amounts: the alphabetically first name whose quantities differ decides,
    /// absent counting as zero. An amount that is larger in one name and smaller in none is
    /// greater.
    pub fn alphabetical(&self, other: &Self) -> Ordering {
        if self.0 == other.0 {
            // The usual case among siblings that ask for the same.
            return Ordering::Equal;
        }
        let difference = self.first_difference(other);
        difference.map_or(Ordering::Equal, |(_, left, right)| left.cmp(&right))
    }

    /// Returns the alphabetically first name whose quantities differ, absent counting as zero, and
    /// both quantities.
    pub fn first_difference(&self, other: &Self) -> Option<(Name, i64, i64)> {
        let (left, right) = (self.0.as_slice(), other.0.as_slice());
        let mut pairs = left.iter().zip(right);
        if left.len() == right.len() && pairs.all(|(left, right)| left.0 == right.0) {
            let pairs = left.iter().zip(right);
            return first_that_differs(pairs.map(|(left, right)| (left.0, left.1, right.1)));
        }
        let pairs = merged(left, right);
        first_that_differs(
            pairs.map(|(name, left, right)| (name, left.unwrap_or(0), right.unwrap_or(0))),
        )
    }

    /// Whether every quantity is zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|(_, quantity)| *quantity == 0)
    }

    /// Whether any quantity is below zero.
    #[inline]
    pub fn has_negative(&self) -> bool {
        self.0.iter().any(|(_, quantity)| *quantity < 0)
    }

    /// Whether no quantity is negative and at least one is above zero.
    pub fn is_positive(&self) -> bool {
        !self.has_negative() && !self.is_zero()
    }

    /// Equality of amounts, absent and zero alike.
    pub fn same_amount(&self, other: &Self) -> bool {
        merged(&self.0, &other.0).all(|(_, l, r)| l.unwrap_or(0) == r.unwrap_or(0))
    }

    /// Whether `smaller` fits into this amount. A name that is absent or negative here counts as
    /// zero, and a request of zero always fits.
    #[inline]
    pub fn holds(&self, smaller: &Self) -> bool {
        let (here, mut at) = (self.0.as_slice(), 0);
        smaller.0.iter().all(|&(name, wanted)| {
            while here.get(at).is_some_and(|entry| entry.0 < name) {
                at += 1;
            }
            let free = here.get(at).filter(|entry| entry.0 == name).map_or(0, |entry| entry.1);
            wanted <= free.max(0)
        })
    }

    /// Whether this requests some of a resource that is below zero in `left`.
    pub fn overdraws(&self, left: &Self) -> bool {
        self.entries().any(|(name, taken)| taken > 0 && left.get(name) < 0)
    }

    /// Whether no quantity is less than that of `other`, absent counting as zero on both sides.
    pub fn at_least(&self, other: &Self) -> bool {
        merged(&self.0, &other.0).all(|(_, l, r)| l.unwrap_or(0) >= r.unwrap_or(0))
    }

    /// [`Self::at_least`], with at least one quantity larger.
    pub fn exceeds(&self, other: &Self) -> bool {
        self.at_least(other) && !self.same_amount(other)
    }
}

/// Returns the alphabetically first name of which both sides have different quantities.
fn first_that_differs(pairs: impl Iterator<Item = (Name, i64, i64)>) -> Option<(Name, i64, i64)> {
    let differ = pairs.filter(|(_, left, right)| left != right);
    differ.min_by(|(one, ..), (other, ..)| one.alphabetical(*other))
}

/// Whether two amounts are equal, either of which may be missing: a missing one equals only a
/// missing one, and not even an empty one.
pub fn equal(left: Option<&Resources>, right: Option<&Resources>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => left.same_amount(right),
        _ => false,
    }
}

/// [`equal`], where a missing amount, an empty one and one of zeros alone are the same.
pub fn equal_or_zero(left: Option<&Resources>, right: Option<&Resources>) -> bool {
    let is_zero = |amount: Option<&Resources>| amount.is_none_or(Resources::is_zero);
    (is_zero(left) && is_zero(right)) || equal(left, right)
}

impl Limits {
    /// Whether `ask` fits: names that are not limited are skipped, a negative
    /// limit counts as zero, and a request of zero always fits.
    pub fn allows(&self, ask: &Resources) -> bool {
        self.first_exceeded(ask).is_none()
    }

    /// Returns the first name, in interned order, of which `ask` requests more than is allowed.
    pub fn first_exceeded(&self, ask: &Resources) -> Option<Name> {
        let (limits, mut at) = (self.0.as_slice(), 0);
        for &(name, wanted) in &ask.0 {
            while limits.get(at).is_some_and(|limit| limit.0 < name) {
                at += 1;
            }
            let limit = limits.get(at)?;
            if limit.0 == name && wanted > limit.1.max(0) {
                return Some(name);
            }
        }
        None
    }

    /// Whether `usage` stays within these limits, as far as names are in both:
    ///
    /// * usage above the limit of a name: no;
    /// * no usage at all: yes if every limit is above zero;
    /// * names in common, none over its limit: yes;
    /// * no name in common: yes, unless nothing is limited.
    ///
    /// Without any limit the answer is therefore no, unlike that of [`Self::allows`].
    pub fn covers(&self, usage: &Resources) -> bool {
        self.compare_listed(usage).is_some()
    }

    /// [`Self::covers`], and if names are in common, the usage of at least one is below its limit.
    pub fn exceeds(&self, usage: &Resources) -> bool {
        self.compare_listed(usage) == Some(Listed::More)
    }

    /// Compares the limits with the usage of the limited names; `None` if they do not cover it.
    fn compare_listed(&self, usage: &Resources) -> Option<Listed> {
        if self.0.is_empty() {
            return None;
        }
        if usage.is_empty() {
            return self.0.iter().all(|&(_, limit)| limit > 0).then_some(Listed::More);
        }
        let (mut is_common, mut is_different) = (false, false);
        for &(name, limit) in &self.0 {
            let Some(used) = find(&usage.0, name) else { continue };
            if used > limit {
                return None;
            }
            is_common = true;
            is_different |= used != limit;
        }
        Some(if is_common && !is_different { Listed::Same } else { Listed::More })
    }
}

/// The relation of limits to a usage that they cover.
#[derive(PartialEq, Eq)]
enum Listed {
    /// All usage is at its limit.
    Same,
    More,
}
