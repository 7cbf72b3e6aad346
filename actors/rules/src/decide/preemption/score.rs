//! The weight of a set of victims: first the kinds of allocations in it, then the priority of the
//! most important victim, then the number of victims.
//!
//! So ten ordinary allocations are better than one that asked not to be preempted, and two of low
//! priority are better than one of a higher priority. That does not permit unneeded victims: a set
//! from which one can be spared weighs more than the set without it.

use crate::allocations::Allocation;

/// The bit of a member that its gang needs.
const GANG: u8 = 1;
/// The bit of the first task of an application.
const ORIGINATOR: u8 = 4;
/// The bit of an allocation that asked not to be preempted.
const OPTED_OUT: u8 = 8;

/// Returns the bits of an allocation that do not depend on other victims. A held place has none,
/// since no work is lost with it.
pub(super) fn own_bits(allocation: &Allocation) -> u8 {
    if allocation.is_hold() {
        return 0;
    }
    let spec = &allocation.spec;
    let opted_out = if spec.preemption.of_itself() { 0 } else { OPTED_OUT };
    let originator = if spec.originator { ORIGINATOR } else { 0 };
    opted_out | originator
}

/// Returns the bit of a member of a group of which `real` members run and `needed` are needed.
pub(super) fn gang_bit(real: u32, needed: u32) -> u8 {
    if real <= needed { GANG } else { 0 }
}

/// The weight of a set. Smaller is better, in order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Weight {
    pub(super) bits: u8,
    /// The highest effective priority among the victims; `i64::MIN` if there are none.
    pub(super) priority: i64,
    /// The number of victims without held places.
    pub(super) victims: u32,
    /// The highest effective priority among the held places.
    pub(super) held_priority: i64,
    pub(super) holds: u32,
}

impl Default for Weight {
    /// The weight of an empty set.
    fn default() -> Self {
        Self { bits: 0, priority: i64::MIN, victims: 0, held_priority: i64::MIN, holds: 0 }
    }
}

impl Weight {
    /// The weight of one allocation with these bits.
    pub(super) fn of(bits: u8, priority: i64, is_hold: bool) -> Self {
        if is_hold {
            Self { held_priority: priority, holds: 1, ..Self::default() }
        } else {
            Self { bits, priority, victims: 1, ..Self::default() }
        }
    }

    /// The importance of the victims, however many they are.
    pub(super) fn importance(self) -> (u8, i64) {
        (self.bits, self.priority)
    }

    /// The weight of both sets together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
            priority: self.priority.max(other.priority),
            victims: self.victims + other.victims,
            held_priority: self.held_priority.max(other.held_priority),
            holds: self.holds + other.holds,
        }
    }
}
