//! Exact sums of changing amounts: pending amounts, and the capacity of all nodes.
//!
//! # Why wider than an amount
//! Users decide how much is pending, and no node or quota bounds that: a thousand requests for the
//! largest quantity have a sum that no quantity holds. If the sum were bounded, requests would be
//! refused because of the requests of others. If it saturated, it would be wrong as soon as the
//! first of them are withdrawn. So sums are exact, and saturate only where they are shown. Sums
//! over nodes are exact for the same reason: a node at the end of the range leaves no trace once it
//! is removed.
//!
//! # Representation
//! The sum is kept as an amount, as it is shown. A quantity that is beyond the range of an amount
//! has its exact value in a second map. Usually that map is empty, and adding an amount is one
//! addition per name, with a check for overflow.
//!
//! # Invariant
//! * A name is in the second map exactly while its quantity is beyond the range of an amount.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::arithmetic::combine;
use super::{Name, Resources};

/// An exact sum of any number of amounts.
///
/// ```
/// use monoceros_rules::values::resources::{Resources, Sum};
/// let most = Resources::of(&[("gpu", i64::MAX)]);
/// let mut pending = Sum::default();
/// pending.add(&most);
/// pending.add(&most);
/// assert_eq!(pending.shown(), &most, "more cannot be shown");
/// pending.subtract(&most);
/// pending.subtract(&Resources::of(&[("gpu", 1)]));
/// assert_eq!(pending.shown(), &Resources::of(&[("gpu", i64::MAX - 1)]));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sum {
    /// The sum, saturated.
    shown: Resources,
    /// The exact quantities of the names that are saturated.
    beyond: BTreeMap<Name, i128>,
}

impl Sum {
    /// Returns `count` times the amount.
    pub fn times(amount: &Resources, count: i64) -> Self {
        if amount.entries().all(|(_, quantity)| quantity.checked_mul(count).is_some()) {
            return amount.times(count).into();
        }
        let mut sum = Self::default();
        sum.add_times(amount, count);
        sum
    }

    /// Adds every quantity of an amount.
    #[inline]
    pub fn add(&mut self, amount: &Resources) {
        if !self.combined(amount, i64::overflowing_add, i64::wrapping_sub) {
            self.add_wide(amount.entries().map(|(name, quantity)| (name, i128::from(quantity))));
        }
    }

    /// Subtracts every quantity of an amount; the result may be negative.
    #[inline]
    pub fn subtract(&mut self, amount: &Resources) {
        if !self.combined(amount, i64::overflowing_sub, i64::wrapping_add) {
            self.add_wide(amount.entries().map(|(name, quantity)| (name, -i128::from(quantity))));
        }
    }

    /// Adds the amount `count` times.
    pub fn add_times(&mut self, amount: &Resources, count: i64) {
        let product = |quantity| i128::from(quantity) * i128::from(count);
        self.add_wide(amount.entries().map(|(name, quantity)| (name, product(quantity))));
    }

    /// Adds another sum.
    #[inline]
    pub fn add_sum(&mut self, other: &Self) {
        if other.beyond.is_empty() {
            self.add(&other.shown);
        } else {
            self.add_wide(other.entries());
        }
    }

    /// Subtracts another sum.
    #[inline]
    pub fn subtract_sum(&mut self, other: &Self) {
        if other.beyond.is_empty() {
            self.subtract(&other.shown);
        } else {
            self.add_wide(other.entries().map(|(name, exact)| (name, -exact)));
        }
    }

    /// The difference from an earlier sum, without zeros.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut change = self.clone();
        change.subtract_sum(before);
        change.prune();
        change
    }

    /// The sum with every quantity negated.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut reversed = Self::default();
        reversed.subtract_sum(self);
        reversed
    }

    /// Sets every negative quantity to zero, and returns what was missing, saturated.
    pub fn cut_below_zero(&mut self) -> Resources {
        let mut missing = Resources::new();
        if !self.shown.has_negative() {
            return missing;
        }
        for (name, quantity) in self.shown.entries().filter(|(_, quantity)| *quantity < 0) {
            missing.set(name, quantity.saturating_neg());
        }
        for (name, _) in missing.entries() {
            self.set_exact(name, 0);
        }
        missing
    }

    /// Removes the names whose quantity is zero.
    #[inline]
    pub fn prune(&mut self) {
        self.shown.prune();
    }

    /// The exact quantity of `name`; zero where it is absent.
    #[inline]
    pub fn get(&self, name: Name) -> i128 {
        self.exact(name, self.shown.get(name))
    }

    /// The names that are present, with their exact quantities, in interned order.
    pub fn entries(&self) -> impl Iterator<Item = (Name, i128)> + '_ {
        self.shown.entries().map(|(name, quantity)| (name, self.exact(name, quantity)))
    }

    /// The sum as an amount: a quantity beyond the range stops at the end of the range.
    #[inline]
    pub fn shown(&self) -> &Resources {
        &self.shown
    }

    /// Whether no name is present at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Whether every quantity is zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.shown.is_zero()
    }

    /// Whether the amount fits into the sum, like [`Resources::holds`]. The saturated sum decides
    /// it exactly, since no amount exceeds the range.
    #[inline]
    pub fn holds(&self, smaller: &Resources) -> bool {
        self.shown.holds(smaller)
    }

    /// Returns the first name, in order of the texts, whose sum exceeds the range of an amount.
    pub fn first_too_large(&self) -> Option<Name> {
        let too_large = self.beyond.iter().filter(|(_, exact)| **exact > 0);
        too_large.map(|(name, _)| *name).min_by_key(|name| name.text())
    }

    /// Combines the sum with an amount. If a quantity is beyond the range of an amount, before or
    /// after, changes nothing and returns `false`. `inverse` undoes `op`, even if that has wrapped
    /// around.
    #[inline]
    fn combined(
        &mut self,
        amount: &Resources,
        op: fn(i64, i64) -> (i64, bool),
        inverse: fn(i64, i64) -> i64,
    ) -> bool {
        if !self.beyond.is_empty() {
            return false;
        }
        let has_wrapped = Cell::new(false);
        combine(&mut self.shown.0, &amount.0, |left, right| {
            let (result, wraps) = op(left, right);
            has_wrapped.set(has_wrapped.get() | wraps);
            result
        });
        if has_wrapped.get() {
            combine(&mut self.shown.0, &amount.0, inverse);
        }
        !has_wrapped.get()
    }

    #[inline]
    fn exact(&self, name: Name, shown: i64) -> i128 {
        if self.beyond.is_empty() {
            return i128::from(shown);
        }
        self.beyond.get(&name).copied().unwrap_or_else(|| i128::from(shown))
    }

    fn add_wide(&mut self, more: impl Iterator<Item = (Name, i128)>) {
        for (name, quantity) in more {
            self.set_exact(name, self.get(name).saturating_add(quantity));
        }
    }

    fn set_exact(&mut self, name: Name, exact: i128) {
        if let Ok(quantity) = i64::try_from(exact) {
            self.shown.set(name, quantity);
            self.beyond.remove(&name);
        } else {
            self.shown.set(name, if exact < 0 { i64::MIN } else { i64::MAX });
            self.beyond.insert(name, exact);
        }
    }
}

impl From<Resources> for Sum {
    fn from(shown: Resources) -> Self {
        Self { shown, beyond: BTreeMap::new() }
    }
}

impl From<&Resources> for Sum {
    fn from(shown: &Resources) -> Self {
        shown.clone().into()
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown)?;
        if self.beyond.is_empty() {
            return Ok(());
        }
        let exact: BTreeMap<Arc<str>, i128> =
            self.beyond.iter().map(|(name, exact)| (name.text(), *exact)).collect();
        write!(f, " (exactly {exact:?})")
    }
}

/// A serialized quantity: a number, or its text if it is beyond the range of an amount.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Amount(i64),
    Beyond(String),
}

/// Writes the exact quantities by name, in order of the texts.
impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = |(name, exact): (Name, i128)| {
            let short = i64::try_from(exact).map(Written::Amount);
            Some((name.find_text()?, short.unwrap_or_else(|_| Written::Beyond(exact.to_string()))))
        };
        let written: BTreeMap<Arc<str>, Written> = self.entries().filter_map(written).collect();
        written.serialize(serializer)
    }
}

/// Reads the written form, as [`Resources`] do.
impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut sum = Self::default();
        for (name, written) in BTreeMap::<String, Written>::deserialize(deserializer)? {
            let exact = match written {
                Written::Amount(quantity) => i128::from(quantity),
                Written::Beyond(text) => text.parse().map_err(serde::de::Error::custom)?,
            };
            sum.set_exact(Name::keep(&name), exact);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::values::again::written_and_read;

    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    /// The exact quantities by name, without zeros.
    type Model = BTreeMap<&'static str, i128>;

    #[derive(Clone, Debug)]
    enum Step {
        Add(Vec<(usize, i64)>),
        Subtract(Vec<(usize, i64)>),
        AddTimes(Vec<(usize, i64)>, i64),
        /// Adds the sum as it was `ago` steps ago, or subtracts it.
        AddEarlier {
            ago: usize,
            subtracts: bool,
        },
        Reverse,
        WriteAndRead,
    }

    fn amount(entries: &[(usize, i64)]) -> (Resources, Model) {
        let entries: BTreeMap<&str, i64> =
            entries.iter().map(|(at, quantity)| (NAMES[*at], *quantity)).collect();
        let amount =
            Resources::of(&entries.iter().map(|(name, q)| (*name, *q)).collect::<Vec<_>>());
        (amount, entries.into_iter().map(|(name, q)| (name, i128::from(q))).collect())
    }

    fn add(model: &mut Model, more: &Model, factor: i128) {
        for (name, quantity) in more {
            *model.entry(name).or_default() += quantity * factor;
        }
        model.retain(|_, quantity| *quantity != 0);
    }

    fn quantity() -> impl Strategy<Value = i64> {
        prop_oneof![
            4 => -9_i64..=9,
            2 => Just(1 << 53),
            2 => Just(i64::MAX),
            1 => Just(i64::MIN),
            2 => any::<i64>(),
        ]
    }

    fn entries() -> impl Strategy<Value = Vec<(usize, i64)>> {
        prop::collection::vec((0..NAMES.len(), quantity()), 0..6)
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => entries().prop_map(Step::Add),
            4 => entries().prop_map(Step::Subtract),
            2 => (entries(), -10_000_i64..=10_000).prop_map(|(it, n)| Step::AddTimes(it, n)),
            3 => (0..8_usize, any::<bool>())
                .prop_map(|(ago, subtracts)| Step::AddEarlier { ago, subtracts }),
            1 => Just(Step::Reverse),
            1 => Just(Step::WriteAndRead),
        ];
        prop::collection::vec(step, 0..40)
    }

    fn check(sum: &Sum, model: &Model) {
        for name in NAMES {
            let exact = model.get(name).copied().unwrap_or_default();
            let name = Name::keep(name);
            assert_eq!(sum.get(name), exact);
            let shown = exact.clamp(i64::MIN.into(), i64::MAX.into());
            assert_eq!(i128::from(sum.shown().get(name)), shown);
        }
        let is_beyond = |quantity: &i128| i64::try_from(*quantity).is_err();
        assert_eq!(!sum.beyond.is_empty(), model.values().any(is_beyond));
        let too_large = |(_, quantity): &(&&str, &i128)| **quantity > i64::MAX.into();
        let too_large = model.iter().find(too_large).map(|(name, _)| Name::keep(name));
        assert_eq!(sum.first_too_large(), too_large);
        for limit in [1, i64::MAX] {
            let name = NAMES[0];
            let amount = Resources::of(&[(name, limit)]);
            let there = model.get(name).copied().unwrap_or_default();
            assert_eq!(sum.holds(&amount), there >= limit.into());
        }
        assert_eq!(sum.shown().has_negative(), model.values().any(|quantity| *quantity < 0));
    }

    proptest! {
        #[test]
        fn a_sum_is_exact_whatever_is_added(steps in steps()) {
            let (mut sum, mut model) = (Sum::default(), Model::new());
            let mut before = vec![(sum.clone(), model.clone())];
            for step in steps {
                match step {
                    Step::Add(entries) => {
                        let (amount, more) = amount(&entries);
                        sum.add(&amount);
                        add(&mut model, &more, 1);
                    }
                    Step::Subtract(entries) => {
                        let (amount, less) = amount(&entries);
                        sum.subtract(&amount);
                        add(&mut model, &less, -1);
                    }
                    Step::AddTimes(entries, count) => {
                        let (amount, more) = amount(&entries);
                        sum.add_times(&amount, count);
                        add(&mut model, &more, count.into());
                    }
                    Step::AddEarlier { ago, subtracts } => {
                        let (earlier, more) = &before[before.len() - 1 - ago % before.len()];
                        if subtracts {
                            sum.subtract_sum(earlier);
                        } else {
                            sum.add_sum(earlier);
                        }
                        add(&mut model, more, if subtracts { -1 } else { 1 });
                    }
                    Step::Reverse => {
                        sum = sum.reversed();
                        let plain = std::mem::take(&mut model);
                        add(&mut model, &plain, -1);
                    }
                    Step::WriteAndRead => {
                        let read = written_and_read(&sum);
                        prop_assert_eq!(&read, &sum);
                        sum = read;
                    }
                }
                sum.prune();
                check(&sum, &model);
                let (earlier, _) = &before[before.len() / 2];
                let mut again = earlier.clone();
                again.add_sum(&sum.since(earlier));
                again.prune();
                prop_assert_eq!(&again, &sum, "what is the same is equal");
                let product = Sum::times(sum.shown(), 10_000);
                let mut steps = Sum::default();
                steps.add_times(sum.shown(), 10_000);
                prop_assert_eq!(product, steps);
                before.push((sum.clone(), model.clone()));
            }
            let missing = sum.cut_below_zero();
            sum.prune();
            for (name, exact) in model {
                let name = Name::keep(name);
                prop_assert_eq!(i128::from(missing.get(name)), (-exact).clamp(0, i64::MAX.into()));
                prop_assert_eq!(sum.get(name), exact.max(0));
            }
        }
    }
}
