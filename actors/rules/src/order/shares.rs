//! Shares: fractions of a quota, and the figures computed from them.
//!
//! # Why shares
//! Fairness compares how much of its entitlement each queue or application uses. Quantities of
//! different names have no common unit, so each is divided by the owner's entitlement. The results
//! are `f64`; they leave this module either for people, or as a [`Share`], an integer of the same
//! order.
//!
//! # Invariants
//! * No result is NaN, and no answer depends on the order in which names were interned.
//! * [`Share`] orders exactly as the numbers from which it was made.
//!
//! ```
//! use monoceros_rules::values::resources::Resources;
//! use monoceros_rules::order::shares::fair_share;
//! let used = Resources::of(&[("vcore", 100), ("memory", 2500)]);
//! let guaranteed = Resources::of(&[("vcore", 1000), ("memory", 5000)]);
//! assert!((fair_share(&used, Some(&guaranteed), None) - 0.5).abs() < 1e-9);
//! ```

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::values::resources::{Limits, Name, Resources};

/// A fraction, stored as an integer of the same order, so that keys compare no floats.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Share(i64);

impl Share {
    /// Makes the integer of a share; minus zero becomes zero.
    pub fn of(share: f64) -> Self {
        // Adding zero turns -0.0 into 0.0. The bits of a positive float ascend with its value.
        // Those of a negative one descend, so all of its bits except the sign are inverted.
        let bits = (share + 0.0).to_bits().cast_signed();
        Self(bits ^ ((bits >> 63) & i64::MAX))
    }

    /// The integer, which has the order of the share: zero for a share of zero, negative for a
    /// negative one.
    pub fn rank(self) -> i64 {
        self.0
    }

    /// Returns the share with this [rank](Self::rank).
    pub fn ranked(rank: i64) -> Self {
        Self(rank)
    }

    /// The share as a number.
    pub fn value(self) -> f64 {
        // The operation that inverted the bits of a negative share inverts them back.
        f64::from_bits((self.0 ^ ((self.0 >> 63) & i64::MAX)).cast_unsigned())
    }
}

/// Returns one share per name of `amount`, ascending: the quantity divided by that of `total`, or
/// the bare quantity if `total` has none. Inline for up to four names.
pub fn shares(amount: &Resources, total: Option<&Resources>) -> SmallVec<[f64; 4]> {
    let mut shares: SmallVec<[f64; 4]> = amount
        .entries()
        .map(|(name, quantity)| share(quantity, total.map_or(0, |total| total.get(name))))
        .collect();
    shares.sort_unstable_by(f64::total_cmp);
    shares
}

fn share(quantity: i64, total: i64) -> f64 {
    match total {
        _ if quantity == 0 => 0.0,
        0 => quantity as f64,
        total => quantity as f64 / total as f64,
    }
}

/// A share, and the name whose bare quantity it is; `None` if it is a fraction or zero.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NamedShare {
    pub(crate) share: Share,
    pub(crate) bare: Option<Name>,
}

/// Returns the same as [`shares`], but descending and with names.
pub(crate) fn named_shares(
    amount: &Resources,
    total: Option<&Resources>,
) -> SmallVec<[NamedShare; 4]> {
    let named = amount.entries().map(|(name, quantity)| {
        let total = total.map_or(0, |total| total.get(name));
        let bare = (quantity != 0 && total == 0).then_some(name);
        NamedShare { share: Share::of(share(quantity, total)), bare }
    });
    let mut named: SmallVec<[NamedShare; 4]> = named.collect();
    named.sort_unstable_by(|left, right| {
        right.share.cmp(&left.share).then_with(|| match (left.bare, right.bare) {
            (Some(left), Some(right)) => left.alphabetical(right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        })
    });
    named
}

/// Compares two results of [`shares`] from their largest entry downward; the shorter one is
/// continued with zeros.
pub fn compare_shares(left: &[f64], right: &[f64]) -> Ordering {
    let left = left.iter().rev().copied().map(Share::of);
    let right = right.iter().rev().copied().map(Share::of);
    compare_descending(left, right)
}

/// [`compare_shares`] for shares that are already descending and integers.
pub(crate) fn compare_descending(
    mut left: impl Iterator<Item = Share>,
    mut right: impl Iterator<Item = Share>,
) -> Ordering {
    loop {
        let (l, r) = (left.next(), right.next());
        if l.is_none() && r.is_none() {
            return Ordering::Equal;
        }
        let order = l.unwrap_or_default().cmp(&r.unwrap_or_default());
        if order.is_ne() {
            return order;
        }
    }
}

/// Returns the part of its entitlement that a queue uses: the largest share of any name that it
/// uses, at least zero.
///
/// A name's share is its usage divided by its entitlement: the guarantee, or if that lacks the
/// name, the fair maximum. A name in neither does not count. Usage of a name whose entitlement is
/// an explicit zero counts as 1.
pub fn fair_share(
    allocated: &Resources,
    guaranteed: Option<&Resources>,
    fair_max: Option<&Limits>,
) -> f64 {
    let mut largest = 0.0_f64;
    for (name, used) in allocated.entries() {
        if used <= 0 {
            continue; // its share is zero or does not count, and the largest is at least zero
        }
        let due = guaranteed
            .and_then(|guaranteed| guaranteed.find(name))
            .or_else(|| fair_max.and_then(|fair_max| fair_max.find(name)));
        let share = match due {
            None => continue,
            Some(due) if due <= 0 => 1.0,
            Some(due) => used as f64 / due as f64,
        };
        largest = largest.max(share);
    }
    largest
}

/// Returns usage in whole percent, rounded down, of every name in both amounts. Zero if nothing is
/// used, 100 if the capacity is zero and something is used; at most `i32::MAX`.
pub fn abs_used_capacity(capacity: &Resources, used: &Resources) -> Resources {
    let mut percent = Resources::new();
    for (name, whole) in capacity.entries() {
        let Some(part) = used.find(name) else { continue };
        let value = if part <= 0 {
            0
        } else if whole <= 0 {
            100
        } else {
            let exact = i128::from(part) * 100 / i128::from(whole);
            i64::try_from(exact).unwrap_or(i64::MAX).min(i64::from(i32::MAX))
        };
        percent.set(name, value);
    }
    percent
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(entries: &[(&str, i64)]) -> Resources {
        Resources::of(entries)
    }

    fn is(left: f64, right: f64) -> bool {
        left.total_cmp(&right).is_eq()
    }

    #[test]
    fn shares_are_quantities_over_the_total_in_ascending_order() {
        let amount = of(&[("large", 5), ("zero", 0), ("small", -5)]);
        let cases: &[(Option<Resources>, &[f64])] = &[
            (None, &[-5.0, 0.0, 5.0]),
            (Some(of(&[])), &[-5.0, 0.0, 5.0]),
            (Some(of(&[("large", 10), ("zero", 10), ("small", 10)])), &[-0.5, 0.0, 0.5]),
            (Some(of(&[("large", 0), ("small", 50)])), &[-0.1, 0.0, 5.0]),
        ];
        for (total, expected) in cases {
            assert_eq!(shares(&amount, total.as_ref()).as_slice(), *expected, "of {total:?}");
        }
        assert!(shares(&of(&[]), None).is_empty());
    }

    #[test]
    fn share_lists_compare_from_the_largest_down_and_go_on_with_zeros() {
        let cases: &[(&[f64], &[f64], Ordering)] = &[
            (&[0.0, 10.0], &[10.0], Ordering::Equal),
            (&[1.0, 10.0], &[10.0], Ordering::Greater),
            (&[-10.0, 10.0], &[10.0], Ordering::Less),
            (&[], &[], Ordering::Equal),
            (&[], &[0.0, 0.0], Ordering::Equal),
            (&[], &[-1.0], Ordering::Greater),
            (&[-1.0, 0.0], &[0.0], Ordering::Less),
            (&[5.0, 6.0], &[1.0, 7.0], Ordering::Less),
            (&[0.3, 0.5], &[0.2, 0.5], Ordering::Greater),
        ];
        for (left, right, expected) in cases {
            assert_eq!(compare_shares(left, right), *expected, "{left:?} {right:?}");
            assert_eq!(compare_shares(right, left), expected.reverse(), "{right:?} {left:?}");
        }
    }

    #[test]
    fn a_fair_share_is_of_the_guarantee_else_of_the_fair_maximum() {
        type Entries<'a> = &'a [(&'a str, i64)];
        let cases: &[(Entries, Option<Entries>, Option<Entries>, f64)] = &[
            (&[("v", 100), ("m", 2500)], Some(&[("v", 1000), ("m", 5000)]), None, 0.5),
            (&[("m", 1000), ("v", 10)], Some(&[("v", 0)]), Some(&[("m", 5000), ("v", 5000)]), 1.0),
            (&[("m", 1000), ("v", 0)], Some(&[("v", 0)]), Some(&[("m", 5000), ("v", 5000)]), 0.2),
            (&[("gpu", 5)], None, Some(&[("m", 10)]), 0.0),
            (&[], Some(&[("v", 1)]), Some(&[("m", 1)]), 0.0),
            (&[("v", -5)], Some(&[("v", 0)]), None, 0.0),
            (&[("v", 5)], None, Some(&[("v", 0)]), 1.0),
            (&[("v", 5), ("m", 5)], Some(&[("v", 50)]), Some(&[("v", 5), ("m", 10)]), 0.5),
            (&[("v", 30)], Some(&[("v", 10)]), None, 3.0),
        ];
        for (allocated, guaranteed, fair_max, expected) in cases {
            let share = fair_share(
                &of(allocated),
                guaranteed.map(of).as_ref(),
                fair_max.map(Limits::of).as_ref(),
            );
            assert!(is(share, *expected), "{allocated:?} {guaranteed:?} {fair_max:?}: {share}");
        }
    }

    #[test]
    fn used_capacity_is_whole_percent_of_what_both_have() {
        let percent = |capacity, used| abs_used_capacity(&of(capacity), &of(used));
        assert_eq!(percent(&[("m", 0)], &[("m", 5)]), of(&[("m", 100)]));
        assert_eq!(percent(&[("m", 10)], &[("m", 25)]), of(&[("m", 250)]));
        assert_eq!(percent(&[("m", 10)], &[]), of(&[]));
        assert_eq!(percent(&[("m", 10)], &[("m", -1)]), of(&[("m", 0)]));
        assert_eq!(percent(&[("m", 100)], &[("m", 29)]), of(&[("m", 29)]), "no float loses one");
        assert_eq!(percent(&[("m", 1)], &[("m", i64::MAX)]), of(&[("m", i64::from(i32::MAX))]));
        assert_eq!(percent(&[], &[("m", 1)]), of(&[]));
    }

    proptest! {
        #[test]
        fn a_share_orders_as_its_number(
            left in any::<i64>(),
            right in any::<i64>(),
            by in 1..1000_i64,
        ) {
            let (left, right) = (left as f64 / by as f64, right as f64 / by as f64);
            prop_assert_eq!(Share::of(left).cmp(&Share::of(right)), left.total_cmp(&right));
            prop_assert_eq!(Share::of(left).rank() > 0, left > 0.0);
            prop_assert_eq!(Share::of(left).rank() < 0, left < 0.0);
        }
    }

    #[test]
    fn both_zeros_are_one_share() {
        assert_eq!(Share::of(-0.0), Share::default());
        assert_eq!(Share::of(0.0).rank(), 0);
    }
}
