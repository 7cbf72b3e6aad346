//! Epochs: marks of the loosenings and growths that a try has seen.
//!
//! # Why two counters
//! A pending ask is tried again when its obstacle may have become smaller, and there are two kinds
//! of obstacle: quota and capacity on a node. Each has a counter that only rises, in the very step
//! that may cure an obstacle of its kind: a [`Loosening`] of quota, a [`Growth`] of a node.
//! Comparing two numbers shows whether anything happened since; waiting asks need not be notified.

use serde::{Deserialize, Serialize};

/// The number of a step that may have given some queue, user or group more headroom. 0 comes before
/// the first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Loosening(u64);

impl Loosening {
    /// The number before the first loosening.
    pub const NONE: Self = Self(0);

    /// The loosening with this number.
    pub fn numbered(number: u64) -> Self {
        Self(number)
    }

    /// The number of the loosening.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The loosening after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Whether any loosening is counted.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// The number of a growth of the node index: a change by which a node became acceptable to some
/// ask, or the return of an amount that a placement in flight had held. 0 comes before the first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Growth(u64);

impl Growth {
    /// The number before the first growth.
    pub const NONE: Self = Self(0);

    /// The growth with this number.
    pub fn numbered(number: u64) -> Self {
        Self(number)
    }

    /// The number of the growth.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The growth after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The epoch of a try without result: the last loosening on its path, and the last growth of a
/// node, at that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The last loosening of quota on the path from root.
    pub loosening: Loosening,
    /// The last growth of the node index.
    pub growth: Growth,
}

impl Epoch {
    /// Whether this epoch counts no loosening and no growth after `earlier`.
    pub fn is_no_later_than(self, earlier: Self) -> bool {
        self.loosening <= earlier.loosening && self.growth <= earlier.growth
    }

    /// Returns the older of both loosenings, and of both growths.
    #[must_use]
    pub fn older(self, other: Self) -> Self {
        Self {
            loosening: self.loosening.min(other.loosening),
            growth: self.growth.min(other.growth),
        }
    }

    /// Returns the newer of both loosenings, and of both growths.
    #[must_use]
    pub fn newer(self, other: Self) -> Self {
        Self {
            loosening: self.loosening.max(other.loosening),
            growth: self.growth.max(other.growth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(loosening: u64, growth: u64) -> Epoch {
        Epoch { loosening: Loosening::numbered(loosening), growth: Growth::numbered(growth) }
    }

    #[test]
    fn an_epoch_is_later_as_soon_as_one_counter_rose() {
        assert!(epoch(3, 5).is_no_later_than(epoch(3, 5)));
        assert!(!epoch(4, 5).is_no_later_than(epoch(3, 5)));
        assert!(!epoch(3, 6).is_no_later_than(epoch(4, 5)));
    }

    #[test]
    fn of_two_epochs_each_counter_counts_for_itself() {
        assert_eq!(epoch(1, 9).older(epoch(2, 3)), epoch(1, 3));
        assert_eq!(epoch(1, 9).newer(epoch(2, 3)), epoch(2, 9));
        assert!(!Loosening::NONE.is_some() && Loosening::NONE.next().is_some());
    }
}
