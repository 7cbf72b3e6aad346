//! Sums, differences and products. All of them saturate: amounts come from outside, and a sum must
//! neither wrap around to a negative amount nor end the process.

use std::sync::Arc;

use super::{Entries, Entry, Limits, Resources, find, find_near, merged, set};

/// The failure of a subtraction: more was subtracted than there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("below zero: {}", names.join(", "))]
pub struct BelowZero {
    /// The names that would be below zero, in order of their texts.
    pub names: Vec<Arc<str>>,
    /// The difference, with the quantities of these names set to zero.
    pub clamped: Resources,
}

impl Resources {
    /// Adds every quantity of `other`.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        combine(&mut self.0, &other.0, i64::saturating_add);
    }

    /// Subtracts every quantity of `other`; the result may be negative.
    #[inline]
    pub fn subtract(&mut self, other: &Self) {
        combine(&mut self.0, &other.0, i64::saturating_sub);
    }

    /// The sum as a new value.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// The difference as a new value.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut difference = self.clone();
        difference.subtract(other);
        difference
    }

    /// Every quantity times `factor`; a factor of zero leaves nothing.
    #[must_use]
    pub fn times(&self, factor: i64) -> Self {
        match factor {
            0 => return Self::new(),
            1 => return self.clone(),
            _ => {}
        }
        Self(self.0.iter().map(|&(name, q)| (name, q.saturating_mul(factor))).collect())
    }

    /// Removes the names whose quantity is zero. For usage and totals only: in quotas a zero has a
    /// meaning.
    #[inline]
    pub fn prune(&mut self) {
        // Usually there is none, and checking that is cheaper than moving all entries.
        if self.0.iter().any(|(_, quantity)| *quantity == 0) {
            self.0.retain(|(_, quantity)| *quantity != 0);
        }
    }

    /// [`Self::prune`] at the end of a chain of calls.
    #[must_use]
    pub fn pruned(mut self) -> Self {
        self.prune();
        self
    }

    /// Raises each quantity to that of `other` if that is larger. The result has the names of both;
    /// absent counts as zero.
    #[inline]
    pub fn raise_to(&mut self, other: &Self) {
        let done = combine_alike(&mut self.0, &other.0, i64::max);
        if done < other.0.len() {
            *self = united(self, other, i64::max);
            return;
        }
        for (_, quantity) in &mut self.0[done..] {
            *quantity = (*quantity).max(0);
        }
    }

    /// Lowers each quantity to the smaller one of both, absent counting as zero: the amount
    /// that each of two requests contains at least.
    pub fn lower_to(&mut self, other: &Self) {
        self.0.retain(|(name, quantity)| {
            let there = find(&other.0, *name).unwrap_or(0);
            *quantity = (*quantity).min(there);
            *quantity != 0
        });
        // A name that only `other` has counts as zero here, which is larger if the quantity of
        // `other` is negative.
        for &(name, quantity) in &other.0 {
            if quantity < 0 && find(&self.0, name).is_none() {
                set(&mut self.0, name, quantity);
            }
        }
    }
    /// Returns the difference, in which no name of `other` falls below zero. A quantity that is
    /// negative already and whose name is not in `other` stays as it is.
    #[must_use]
    pub fn minus_clamped(&self, other: &Self) -> Self {
        self.minus_checked(other).unwrap_or_else(|below_zero| below_zero.clamped)
    }

    /// [`Self::minus_clamped`], as an error if a name was stopped at zero.
    pub fn minus_checked(&self, other: &Self) -> Result<Self, BelowZero> {
        let mut clamped = self.minus(other);
        let mut names = Vec::new();
        for (name, _) in other.entries() {
            if clamped.get(name) < 0 {
                clamped.set(name, 0);
                names.push(name.text());
            }
        }
        if names.is_empty() {
            return Ok(clamped);
        }
        names.sort();
        Err(BelowZero { names, clamped })
    }

    /// Every quantity times `ratio`, cut off towards zero. A ratio of zero leaves nothing, and a
    /// product that is not a number counts as zero.
    #[must_use]
    pub fn scaled(&self, ratio: f64) -> Self {
        if ratio == 0.0 {
            return Self::new();
        }
        Self(self.0.iter().map(|&(name, q)| (name, truncated(q as f64 * ratio))).collect())
    }

    /// These quantities, and those of `other` for names that are absent here.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(
            merged(&self.0, &other.0)
                .filter_map(|(name, l, r)| l.or(r).map(|quantity| (name, quantity)))
                .collect(),
        )
    }
}

impl Limits {
    /// Returns what remains of these limits after `used`; only limited names count. Values may
    /// become negative.
    #[must_use]
    pub fn less(&self, used: &Resources) -> Self {
        let mut left = self.clone();
        left.take(used);
        left
    }

    /// Subtracts the amount `used` from the limited names: [`Self::less`] in place.
    #[inline]
    pub fn take(&mut self, used: &Resources) {
        let used = used.0.as_slice();
        for (at, (name, limit)) in self.0.iter_mut().enumerate() {
            *limit = limit.saturating_sub(find_near(used, at, *name).unwrap_or(0));
        }
    }

    /// Adds the amount `used` to the limited names.
    pub fn give(&mut self, used: &Resources) {
        for (name, limit) in &mut self.0 {
            *limit = limit.saturating_add(find(&used.0, *name).unwrap_or(0));
        }
    }

    /// Narrows to the limits that remain of `max` after `used`: [`Self::narrow`] without a copy.
    pub fn narrow_to_rest(&mut self, max: &Self, used: &Resources) {
        // Usually all three have the same names at the same indices.
        for (at, &(name, limit)) in max.0.iter().enumerate() {
            let taken = find_near(&used.0, at, name).unwrap_or(0);
            let rest = limit.saturating_sub(taken);
            match self.0.get_mut(at) {
                Some((here, least)) if *here == name => *least = (*least).min(rest),
                _ => {
                    let least = find(&self.0, name).map_or(rest, |least| least.min(rest));
                    set(&mut self.0, name, least);
                }
            }
        }
    }

    /// Narrows to the smaller limit of both, name by name.
    pub fn narrow(&mut self, other: &Self) {
        for &(name, limit) in &other.0 {
            match self.0.binary_search_by_key(&name, |entry| entry.0) {
                Ok(at) => self.0[at].1 = self.0[at].1.min(limit),
                Err(at) => self.0.insert(at, (name, limit)),
            }
        }
    }
}

/// Returns a float as an integer: cut off towards zero, saturating, zero if it is not a number.
#[allow(clippy::cast_possible_truncation)] // `as` does exactly this
fn truncated(value: f64) -> i64 {
    value as i64
}

/// `left[k] = op(left[k] or 0, right[k])` for every name of `right`.
#[inline]
pub(super) fn combine(left: &mut Entries, right: &Entries, op: impl Fn(i64, i64) -> i64) {
    let done = combine_alike(left, right, &op);
    if done < right.len() {
        combine_behind(left, right, done, op);
    }
}

/// Combines the first entries of both, as long as they have the same names, and returns their
/// number: usually that of all of `right`, since a request has names that are in use.
fn combine_alike(left: &mut [Entry], right: &[Entry], op: impl Fn(i64, i64) -> i64) -> usize {
    let mut done = 0;
    for (here, there) in left.iter_mut().zip(right) {
        if here.0 != there.0 {
            break;
        }
        here.1 = op(here.1, there.1);
        done += 1;
    }
    done
}

/// Does the rest of [`combine`], after the first `same` entries, whose names are alike.
#[inline(never)]
fn combine_behind(left: &mut Entries, right: &[Entry], same: usize, op: impl Fn(i64, i64) -> i64) {
    let mut at = same;
    for &(name, quantity) in &right[same..] {
        while at < left.len() && left[at].0 < name {
            at += 1;
        }
        match left.get_mut(at) {
            Some(entry) if entry.0 == name => entry.1 = op(entry.1, quantity),
            _ => left.insert(at, (name, op(0, quantity))),
        }
        at += 1;
    }
}

/// `op(left[k] or 0, right[k] or 0)` for every name of either side.
fn united(left: &Resources, right: &Resources, op: impl Fn(i64, i64) -> i64) -> Resources {
    Resources(
        merged(&left.0, &right.0)
            .map(|(name, l, r)| (name, op(l.unwrap_or(0), r.unwrap_or(0))))
            .collect(),
    )
}
