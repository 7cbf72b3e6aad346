//! How much a set of victims hurts: first what kind of allocations are among them, then how many
//! there are.
//!
//! The higher bits of a score say that somebody is among the victims who should be spared where
//! possible; the lower ones count. So a set of ten ordinary allocations is better than one that asked
//! not to be preempted.

use crate::work::allocations::Allocation;

/// Among the victims is a member that its gang needs.
const GANG: u8 = 1;
/// Among the victims is the first task of its application.
const ORIGINATOR: u8 = 4;
/// Among the victims is one that asked not to be preempted.
const OPTED_OUT: u8 = 8;
/// The lowest bit above the count.
const SHIFT: u32 = 31;

/// A score that is worth no second look: no first task, and nobody who asked not to be preempted.
pub const GOOD: u64 = 1 << 32;

/// The bits of an allocation that do not depend on what else is taken. Nobody loses work with a place
/// that is held, so it has none.
pub(super) fn own_bits(allocation: &Allocation) -> u8 {
    if allocation.is_hold() {
        return 0;
    }
    let spec = &allocation.spec;
    let opted_out = if spec.preemption.of_itself() { 0 } else { OPTED_OUT };
    let originator = if spec.originator { ORIGINATOR } else { 0 };
    opted_out | originator
}

/// The bit of a member of a group of which so many run, and so many are needed.
pub(super) fn gang_bit(real: u32, needed: u32) -> u8 {
    if real <= needed { GANG } else { 0 }
}

/// What is weighed of a set. Smaller is better, in order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Weight {
    pub(super) bits: u8,
    /// Without places that are held.
    pub(super) victims: u32,
    /// Places that are held.
    pub(super) holds: u32,
}

impl Weight {
    /// The score; places that are held are not in it.
    pub(super) fn score(self) -> u64 {
        u64::from(self.bits) << SHIFT | u64::from(self.victims)
    }

    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
            victims: self.victims + other.victims,
            holds: self.holds + other.holds,
        }
    }
}
