//! Fractions of a quota, and what is computed from them.
//!
//! # Why shares
//! Fairness compares how much of its due each queue or application has. Quantities of different
//! names have no common unit, so each is divided by what the owner is entitled to; the results are
//! `f64` and leave this module either for people or as a [`Share`], an integer that orders.
//!
//! # Invariants
//! * No result is NaN, and no answer depends on the order in which names were interned.
//! * [`Share`] orders exactly as the numbers it was made from.
//!
//! ```
//! use monoceros_rules::values::resources::Resources;
//! use monoceros_rules::order::shares::fair_share;
//! let used = Resources::of(&[("vcore", 100), ("memory", 2500)]);
//! let guaranteed = Resources::of(&[("vcore", 1000), ("memory", 5000)]);
//! assert!((fair_share(&used, Some(&guaranteed), None) - 0.5).abs() < 1e-9);
//! ```

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::values::resources::{Limits, Name, Resources};

/// A fraction as an integer of the same order, so that a key is compared without a float.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(i64);

impl Share {
    /// Makes the integer of a share; plus and minus zero are one.
    pub fn of(share: f64) -> Self {
        // Adding zero turns -0.0 into 0.0. For the rest, the bits of a positive float ascend with
        // its value; those of a negative one descend, hence the flip of all but the sign.
        let bits = (share + 0.0).to_bits().cast_signed();
        Self(bits ^ ((bits >> 63) & i64::MAX))
    }

    /// The integer that orders: zero for a share of zero, negative for a negative one.
    pub fn rank(self) -> i64 {
        self.0
    }

    /// The share of which this is the [rank](Self::rank).
    pub fn ranked(rank: i64) -> Self {
        Self(rank)
    }

    /// The share as a number.
    pub fn value(self) -> f64 {
        // What turns the bits of a negative share round turns them back.
        f64::from_bits((self.0 ^ ((self.0 >> 63) & i64::MAX)).cast_unsigned())
    }
}

/// One share per name of `amount`, ascending: the quantity over that of `total`, or the bare
/// quantity where `total` has none. Inline for up to four names.
pub fn shares(amount: &Resources, total: Option<&Resources>) -> SmallVec<[f64; 4]> {
    let mut shares: SmallVec<[f64; 4]> = amount
        .entries()
        .map(|(name, quantity)| match total.map_or(0, |total| total.get(name)) {
            _ if quantity == 0 => 0.0,
            0 => quantity as f64,
            whole => quantity as f64 / whole as f64,
        })
        .collect();
    shares.sort_unstable_by(f64::total_cmp);
    shares
}

/// Compares two results of [`shares`] from their largest entry downward; the shorter one goes on
/// with zeros.
pub fn compare_shares(left: &[f64], right: &[f64]) -> Ordering {
    let left = left.iter().rev().copied().map(Share::of);
    let right = right.iter().rev().copied().map(Share::of);
    compare_descending(left, right)
}

/// [`compare_shares`] for shares that are already descending and ordered as integers.
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

/// Which of two usages is the larger part of `total`.
pub fn comp_usage_ratio(
    left: &Resources,
    right: &Resources,
    total: Option<&Resources>,
) -> Ordering {
    compare_shares(&shares(left, total), &shares(right, total))
}

/// How much of its due a queue uses: the largest share of any name it uses, at least zero.
///
/// A share is of the guarantee where that has the name, else of the fair maximum; a name in neither
/// does not count. Use of something that is due as an explicit zero counts as 1.
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

/// The largest share of `left` over the largest of `right`; 1 when both are zero, infinite when
/// only `right` is. Without names the largest share is zero.
pub fn fairness_ratio(left: &Resources, right: &Resources, total: Option<&Resources>) -> f64 {
    let largest = |amount| shares(amount, total).last().copied().unwrap_or(0.0);
    let (left, right): (f64, f64) = (largest(left), largest(right));
    match (left == 0.0, right == 0.0) {
        (true, true) => 1.0,
        (false, true) => f64::INFINITY,
        (_, false) => left / right,
    }
}

/// How badly `wanted` fits in `available`: 0 when all of it fits, up to 1 more for each name that
/// is wanted and short. Without any `available` every name counts 1, wanted or not.
pub fn fit_in_score(available: Option<&Resources>, wanted: &Resources) -> f64 {
    let Some(available) = available else {
        return wanted.entries().len() as f64;
    };
    let mut terms: SmallVec<[f64; 4]> = SmallVec::new();
    for (name, want) in wanted.entries() {
        let here = available.get(name);
        if want > 0 && here <= 0 {
            terms.push(1.0);
        } else if want > here.max(0) {
            terms.push((want - here) as f64 / want as f64);
        }
    }
    // A sum of floats depends on its order; the order of the terms themselves is the same wherever
    // and whenever the names were interned.
    terms.sort_unstable_by(f64::total_cmp);
    terms.iter().sum::<f64>() + 0.0 // the sum of no floats is -0.0
}

/// Use in whole percent, rounded down, of every name that both have: 0 where
/// nothing is used, 100 where something is used of nothing, at most `i32::MAX`.
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

/// The name with the largest part of `capacity` in use, among those both have; of equals the
/// alphabetically last. A capacity of zero counts as wholly used once
/// anything of it is.
pub fn dominant_resource_type(used: &Resources, capacity: &Resources) -> Option<Name> {
    let mut dominant: Option<(Share, Name)> = None;
    for (name, part) in used.entries() {
        let ratio = match capacity.find(name) {
            None => continue,
            Some(0) if part == 0 => 0.0,
            Some(0) => 1.0,
            Some(whole) => part as f64 / whole as f64,
        };
        let share = Share::of(ratio);
        let larger = |(most, first): (Share, Name)| {
            share.cmp(&most).then_with(|| name.alphabetical(first)).is_gt()
        };
        if dominant.is_none_or(larger) {
            dominant = Some((share, name));
        }
    }
    dominant.map(|(_, name)| name)
}

/// How many of the names of `amount` the `other` has too, in whole percent, rounded down. Zero when
/// `amount` has none.
pub fn type_matching(amount: &Resources, other: &Resources) -> usize {
    let common = amount.entries().filter(|(name, _)| other.find(*name).is_some()).count();
    (common * 100).checked_div(amount.entries().len()).unwrap_or(0)
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
    fn usage_is_compared_as_part_of_the_total_or_as_it_is() {
        let (left, right) = (of(&[("vcore", 10)]), of(&[("memory", 100)]));
        let total = of(&[("vcore", 20), ("memory", 1000)]);
        assert_eq!(comp_usage_ratio(&left, &right, None), Ordering::Less);
        assert_eq!(comp_usage_ratio(&left, &right, Some(&total)), Ordering::Greater);
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
    fn a_fairness_ratio_is_defined_without_usage() {
        let total = of(&[("v", 10)]);
        let ratio = |left, right| fairness_ratio(&of(left), &of(right), Some(&total));
        assert!(is(ratio(&[("v", 5)], &[("v", 2)]), 2.5));
        assert!(is(ratio(&[], &[("v", 0)]), 1.0));
        assert!(is(ratio(&[("v", 5)], &[]), f64::INFINITY));
        assert!(is(ratio(&[], &[("v", 2)]), 0.0));
    }

    #[test]
    fn a_fit_score_counts_what_is_missing() {
        let wanted = of(&[("v", 10), ("m", 4), ("gpu", 0)]);
        let score = |entries| fit_in_score(Some(&of(entries)), &wanted);
        assert!(is(fit_in_score(None, &wanted), 3.0), "nothing to compare with");
        assert!(is(score(&[]), 2.0));
        assert!(is(score(&[("v", -3), ("m", 4)]), 1.0));
        assert!(is(score(&[("v", 5), ("m", 3)]), 0.75));
        assert!(is(score(&[("v", 10), ("m", 9)]), 0.0));
        assert!(is(fit_in_score(Some(&of(&[("v", 1)])), &of(&[])), 0.0));
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

    #[test]
    fn the_dominant_name_is_the_one_most_used() {
        let dominant = |used, capacity| {
            dominant_resource_type(&of(used), &of(capacity)).map(|name| name.to_string())
        };
        assert_eq!(dominant(&[("v", 5), ("m", 1)], &[("v", 10), ("m", 10)]).unwrap(), "v");
        assert_eq!(dominant(&[("zz", 1), ("aa", 1)], &[("zz", 2), ("aa", 2)]).unwrap(), "zz");
        assert_eq!(dominant(&[("aa", 1), ("m", 1)], &[("aa", 0), ("m", 2)]).unwrap(), "aa");
        assert_eq!(dominant(&[("aa", 0), ("m", 1)], &[("aa", 0), ("m", 2)]).unwrap(), "m");
        assert_eq!(dominant(&[("aa", 1)], &[("m", 2)]), None);
    }

    #[test]
    fn matching_names_are_counted_in_percent() {
        let matching = |left, right| type_matching(&of(left), &of(right));
        assert_eq!(matching(&[("a", 1), ("b", 0), ("c", 1)], &[("a", 0), ("b", 5)]), 66);
        assert_eq!(matching(&[("a", 1)], &[]), 0);
        assert_eq!(matching(&[], &[("a", 1)]), 0);
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
