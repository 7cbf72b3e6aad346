//! The weight of a set of victims: first which kinds of allocations are among them, then how
//! important the most important of them is, then how many there are.
//!
//! So ten ordinary allocations are better than one that asked not to be preempted, and two of low
//! priority are better than one of a higher. That is no licence to take more than it needs: a set
//! of which one can be spared weighs more than the set without it.

use crate::allocations::Allocation;

/// Among the victims is a member that its gang needs.
const GANG: u8 = 1;
/// Among the victims is the first task of its application.
const ORIGINATOR: u8 = 4;
/// Among the victims is one that asked not to be preempted.
const OPTED_OUT: u8 = 8;

/// The bits of an allocation that do not depend on what else is taken. Nobody loses work with a
/// place that is held, so it has none.
pub(super) fn own_bits(allocation: &Allocation) -> u8 {
    if allocation.is_hold() {
        return 0;
    }
    let spec = &allocation.spec;
    let opted_out = if spec.preemption.of_itself() { 0 } else { OPTED_OUT };
    let originator = if spec.originator { ORIGINATOR } else { 0 };
    opted_out | originator
}

/// The bit of a member of a group of which `real` members run, and `needed` are needed.
pub(super) fn gang_bit(real: u32, needed: u32) -> u8 {
    if real <= needed { GANG } else { 0 }
}

/// The weight of a set. Smaller is better, in order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Weight {
    pub(super) bits: u8,
    /// The highest effective priority among the victims; the lowest number where there are none.
    pub(super) priority: i64,
    /// Without places that are held.
    pub(super) victims: u32,
    /// The same of places that are held.
    pub(super) held_priority: i64,
    pub(super) holds: u32,
}

impl Default for Weight {
    /// That of a set without anybody.
    fn default() -> Self {
        Self { bits: 0, priority: i64::MIN, victims: 0, held_priority: i64::MIN, holds: 0 }
    }
}

impl Weight {
    /// That of one allocation with these bits.
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

    /// Both together.
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
