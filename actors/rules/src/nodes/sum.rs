//! Amounts of many nodes added up.
//!
//! Sums are wider than what they are of, so that one at the end of its range leaves no trace once
//! its node has gone.

use smallvec::SmallVec;

use crate::values::resources::{Name, Resources};

/// A sum of amounts that come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum(SmallVec<[(Name, i128); 4]>);

impl Sum {
    /// Adds these quantities so many times; a negative number takes them off.
    pub(super) fn add(&mut self, entries: impl Iterator<Item = (Name, i64)>, times: i128) {
        for (name, quantity) in entries {
            *self.of_mut(name) += times * i128::from(quantity);
        }
    }

    /// Of each resource so much, or more than there is of it, or less than nothing.
    pub(super) fn of(&self, name: Name) -> i128 {
        self.0.iter().find(|sum| sum.0 == name).map_or(0, |sum| sum.1)
    }

    fn of_mut(&mut self, name: Name) -> &mut i128 {
        let at = self.0.iter().position(|sum| sum.0 == name).unwrap_or_else(|| {
            self.0.push((name, 0));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Every resource of which there is or was something, with how much there is.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Name, i128)> {
        self.0.iter().copied()
    }

    /// Whether there is as much of everything that is wanted.
    pub(super) fn holds(&self, wanted: &Resources) -> bool {
        wanted.entries().all(|(name, wanted)| wanted <= 0 || self.of(name) >= i128::from(wanted))
    }

    /// The sum as an amount, without names of which there is nothing; what is larger than an amount
    /// can be stops at its end.
    pub(super) fn shown(&self) -> Resources {
        let mut shown = Resources::new();
        for (name, sum) in self.iter().filter(|(_, sum)| *sum != 0) {
            let most = if sum < 0 { i64::MIN } else { i64::MAX };
            shown.set(name, i64::try_from(sum).unwrap_or(most));
        }
        shown
    }
}

/// What of an amount is above nothing.
pub(super) fn positive(amount: &Resources) -> impl Iterator<Item = (Name, i64)> {
    amount.entries().filter(|(_, quantity)| *quantity > 0)
}
