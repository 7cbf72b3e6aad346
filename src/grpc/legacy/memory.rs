//! The unit of `memory`, which no revision of the interface says: RMs of the oldest revision
//! counted millions of bytes, later ones count bytes.
//!
//! Amounts are opaque to the scheduler, so a cluster works in either unit as long as everyone in it
//! uses the same. The conversion is here, at the edge, for an RM whose neighbours or whose
//! configuration count in the other one.
//!
//! # When an amount is too large
//! An item whose amount does not fit after the conversion is refused by itself: half a number would
//! be worse than none.

use monoceros_proto::si::v1 as si;
use serde::Deserialize;

/// The resource whose unit is meant.
const MEMORY: &str = "memory";
/// Bytes in a megabyte.
const MEGABYTE: i64 = 1_000_000;

/// The unit in which a resource manager counts `memory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryUnit {
    /// As everybody else: quantities pass as they are.
    #[default]
    Raw,
    /// In millions of bytes.
    Megabyte,
}

/// This number of megabytes does not fit a quantity in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountOverflow(pub i64);

impl MemoryUnit {
    /// The unit of that name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "raw" => Some(Self::Raw),
            "megabyte" => Some(Self::Megabyte),
            _ => None,
        }
    }

    /// What the RM sent, as the scheduler counts.
    pub fn inward(self, resource: &mut Option<si::Resource>) -> Result<(), AmountOverflow> {
        if let Some(memory) = self.memory(resource) {
            let bytes = memory.value.checked_mul(MEGABYTE);
            memory.value = bytes.ok_or(AmountOverflow(memory.value))?;
        }
        Ok(())
    }

    /// What the scheduler says, as the RM counts; a part of a megabyte is dropped.
    pub fn outward(self, resource: &mut Option<si::Resource>) {
        if let Some(memory) = self.memory(resource) {
            memory.value /= MEGABYTE;
        }
    }

    fn memory(self, resource: &mut Option<si::Resource>) -> Option<&mut si::Quantity> {
        match self {
            Self::Raw => None,
            Self::Megabyte => resource.as_mut()?.resources.get_mut(MEMORY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(memory: i64) -> si::Resource {
        let quantity = |value| si::Quantity { value };
        let entries = [("memory", memory), ("vcore", 7)];
        let entries = entries.map(|(name, value)| (name.to_owned(), quantity(value)));
        si::Resource { resources: entries.into() }
    }

    #[test]
    fn megabytes_become_bytes_and_come_back_and_nothing_else_changes() {
        let mut amount = Some(resource(512));
        MemoryUnit::Megabyte.inward(&mut amount).unwrap();
        assert_eq!(amount, Some(resource(512_000_000)));
        MemoryUnit::Megabyte.outward(&mut amount);
        assert_eq!(amount, Some(resource(512)));
        MemoryUnit::Raw.inward(&mut amount).unwrap();
        assert_eq!(amount, Some(resource(512)));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_absence_is_not_an_amount() {
        assert_eq!(
            MemoryUnit::Megabyte.inward(&mut Some(resource(i64::MAX))),
            Err(AmountOverflow(i64::MAX))
        );
        assert_eq!(
            MemoryUnit::Megabyte.inward(&mut Some(resource(i64::MIN))),
            Err(AmountOverflow(i64::MIN))
        );
        assert_eq!(MemoryUnit::Megabyte.inward(&mut None), Ok(()));
    }
}
