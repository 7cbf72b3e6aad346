//! Resource-seconds: the usage of an application over time, as it is charged to its owner.
//!
//! # What is counted
//! An allocation is counted when it ends: its amount at that time, multiplied by the whole seconds
//! since it was bound. So nothing is counted during placements, and a live allocation needs no
//! field for it. Running allocations are not included. An allocation whose size was changed counts
//! as if it had always had its last size.
//!
//! # Why by instance type
//! The same core-second costs more on one kind of machine than on another. The kind is the node's
//! attribute `si/instance-type`; nodes without it count together as `UNKNOWN`.
//!
//! # Invariants
//! * A number only rises, and stays at the largest value instead of wrapping around.
//! * An application has at most [`TYPES_MAX`] instance types and one more, `UNKNOWN`, which
//!   includes all further ones, since types are named from outside.
//!
//! ```
//! use monoceros_rules::applications::resource_seconds::{Account, History};
//! use monoceros_rules::values::resources::Resources;
//! use std::sync::Arc;
//! let mut history = History::default();
//! let large: Arc<str> = Arc::from("m5.large");
//! let (bound_ns, now_ns) = (0, 2_900_000_000);
//! history.count(Account::Used, Some(&large), &Resources::of(&[("vcore", 500)]), bound_ns, now_ns);
//! let of_large = history.used.of("m5.large").unwrap();
//! assert_eq!(of_large.sorted(), [(Arc::from("vcore"), 1_000)]);
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::values::resources::Resources;

/// The attribute of a node with the type of its machine.
pub const INSTANCE_TYPE: &str = "si/instance-type";

/// The instance type of a node that names none.
pub const UNKNOWN: &str = "UNKNOWN";

/// The most instance types of one application that are listed separately.
pub const TYPES_MAX: usize = 256;

const SECOND_NS: i64 = 1_000_000_000;

/// The account of an allocation's resource-seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Allocations that did the work of their application.
    Used,
    /// Preempted allocations, whose work may be lost.
    Preempted,
    /// Placeholders.
    Placeholder,
}

impl Account {
    /// Returns the account of an allocation that ends. If it was preempted, that decides, whether
    /// it is a placeholder or not.
    pub fn of(is_preempted: bool, is_placeholder: bool) -> Self {
        match (is_preempted, is_placeholder) {
            (true, _) => Self::Preempted,
            (false, true) => Self::Placeholder,
            (false, false) => Self::Used,
        }
    }

    /// Returns the name of the account in messages.
    pub fn text(self) -> &'static str {
        match self {
            Self::Used => "used resource-seconds",
            Self::Preempted => "preempted resource-seconds",
            Self::Placeholder => "placeholder resource-seconds",
        }
    }
}

/// The resource-seconds of the ended allocations of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Usage by allocations that did the application's work.
    pub used: ResourceSeconds,
    /// Usage by allocations that were preempted.
    pub preempted: ResourceSeconds,
    /// Usage by placeholders.
    pub placeholder: ResourceSeconds,
}

impl History {
    /// Counts an allocation that ends. It was bound at `bound_ns` on a node of this instance type.
    pub fn count(
        &mut self,
        account: Account,
        instance_type: Option<&Arc<str>>,
        resources: &Resources,
        bound_ns: i64,
        now_ns: i64,
    ) {
        let seconds = now_ns.saturating_sub(bound_ns) / SECOND_NS;
        if seconds <= 0 {
            return;
        }
        let counted = match account {
            Account::Used => &mut self.used,
            Account::Preempted => &mut self.preempted,
            Account::Placeholder => &mut self.placeholder,
        };
        counted.add(instance_type, &resources.times(seconds));
    }
}

/// Amounts times seconds, by instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSeconds(BTreeMap<Arc<str>, Resources>);

impl ResourceSeconds {
    /// The instance types with their amounts, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Resources)> {
        self.0.iter()
    }

    /// The amount of one instance type; `None` if nothing was counted of it.
    pub fn of(&self, instance_type: &str) -> Option<&Resources> {
        self.0.get(instance_type)
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The amounts of all instance types together.
    pub fn total(&self) -> Resources {
        self.0.values().fold(Resources::new(), |sum, more| sum.plus(more))
    }

    fn add(&mut self, instance_type: Option<&Arc<str>>, amount: &Resources) {
        let amount = amount.clone().pruned();
        if amount.is_empty() {
            return;
        }
        let named = instance_type.filter(|name| !name.is_empty());
        let has_room = self.0.len() < TYPES_MAX;
        match named.filter(|name| has_room || self.0.contains_key(*name)) {
            Some(name) => match self.0.get_mut(name) {
                Some(sum) => sum.add(&amount),
                None => drop(self.0.insert(Arc::clone(name), amount)),
            },
            None => match self.0.get_mut(UNKNOWN) {
                Some(sum) => sum.add(&amount),
                None => drop(self.0.insert(Arc::from(UNKNOWN), amount)),
            },
        }
    }
}

/// Words each instance type with its amounts, for people.
impl fmt::Display for ResourceSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, amount)) in self.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {amount}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vcore(quantity: i64) -> Resources {
        Resources::of(&[("vcore", quantity)])
    }

    fn shown(counted: &ResourceSeconds) -> Vec<(String, i64)> {
        let vcore = |amount: &Resources| amount.sorted().iter().map(|(_, q)| q).sum();
        counted.iter().map(|(name, amount)| (name.to_string(), vcore(amount))).collect()
    }

    #[test]
    fn each_account_counts_for_itself_and_by_instance_type() {
        let (small, large) = (Arc::from("small"), Arc::from("large"));
        let mut history = History::default();
        for (account, instance_type, seconds) in [
            (Account::Used, Some(&small), 10),
            (Account::Used, Some(&large), 20),
            (Account::Used, Some(&small), 5),
            (Account::Used, None, 1),
            (Account::Preempted, Some(&large), 7),
            (Account::Placeholder, None, 3),
        ] {
            history.count(account, instance_type, &vcore(2), 0, seconds * SECOND_NS);
        }
        let of = |name: &str, amount| (name.to_owned(), amount);
        assert_eq!(shown(&history.used), [of("UNKNOWN", 2), of("large", 40), of("small", 30)]);
        assert_eq!(shown(&history.preempted), [of("large", 14)]);
        assert_eq!(shown(&history.placeholder), [of("UNKNOWN", 6)]);
    }

    #[test]
    fn a_preempted_placeholder_counts_as_preempted() {
        assert_eq!(Account::of(true, true), Account::Preempted);
        assert_eq!(Account::of(true, false), Account::Preempted);
        assert_eq!(Account::of(false, true), Account::Placeholder);
        assert_eq!(Account::of(false, false), Account::Used);
    }

    #[test]
    fn less_than_a_second_counts_as_nothing_and_no_clock_that_goes_back_takes_anything_off() {
        let mut history = History::default();
        history.count(Account::Used, None, &vcore(1), 0, SECOND_NS - 1);
        history.count(Account::Used, None, &vcore(1), 5 * SECOND_NS, 0);
        history.count(Account::Used, None, &vcore(0), 0, SECOND_NS);
        assert_eq!(history, History::default());
    }

    #[test]
    fn a_sum_stays_at_the_largest_number_there_is() {
        let mut history = History::default();
        for _ in 0..2 {
            history.count(Account::Used, None, &vcore(i64::MAX), 0, i64::MAX);
        }
        assert_eq!(shown(&history.used), [(UNKNOWN.to_owned(), i64::MAX)]);
    }

    #[test]
    fn instance_types_beyond_the_bound_count_together_as_unknown() {
        let mut history = History::default();
        for number in 0..TYPES_MAX + 10 {
            let name = Arc::from(format!("type-{number}"));
            history.count(Account::Used, Some(&name), &vcore(1), 0, SECOND_NS);
        }
        assert_eq!(history.used.iter().count(), TYPES_MAX + 1);
        assert_eq!(history.used.of(UNKNOWN), Some(&vcore(10)));
        assert_eq!(history.used.total(), vcore(i64::try_from(TYPES_MAX + 10).unwrap()));
        let first = Arc::from("type-0");
        history.count(Account::Used, Some(&first), &vcore(1), 0, SECOND_NS);
        assert_eq!(history.used.of("type-0"), Some(&vcore(2)));
    }
}
