//! The unit of `memory`, which no revision of the interface defines: RMs of the oldest revision
//! counted megabytes, later ones count bytes.
//!
//! Amounts are opaque to the scheduler, so a cluster works in either unit as long as all its
//! members use the same. This edge converts for an RM whose neighbours or configuration use the
//! other unit.
//!
//! # When an amount is too large
//! An item whose amount overflows in the conversion is refused; the other items of the message are
//! not affected. A truncated number would be worse than none.

use monoceros_proto::si::v1 as si;
use serde::Deserialize;

/// The resource to convert.
const MEMORY: &str = "memory";
const MEGABYTE: i64 = 1_000_000;

/// The unit in which a resource manager counts `memory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryUnit {
    /// Quantities pass unchanged.
    #[default]
    Raw,
    /// Megabytes (10⁶ bytes).
    Megabyte,
}

/// This number of megabytes overflows a quantity in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountOverflow(pub i64);

impl MemoryUnit {
    /// Parses the name of a unit.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "raw" => Some(Self::Raw),
            "megabyte" => Some(Self::Megabyte),
            _ => None,
        }
    }

    /// Converts an amount of the RM to the scheduler's unit.
    pub fn inward(self, resource: &mut Option<si::Resource>) -> Result<(), AmountOverflow> {
        if let Some(memory) = self.memory(resource) {
            let bytes = memory.value.checked_mul(MEGABYTE);
            memory.value = bytes.ok_or(AmountOverflow(memory.value))?;
        }
        Ok(())
    }

    /// Converts an amount of the scheduler to the RM's unit; fractions of a megabyte are dropped.
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
    fn only_memory_is_converted() {
        let mut amount = Some(resource(512));
        MemoryUnit::Megabyte.inward(&mut amount).unwrap();
        assert_eq!(amount, Some(resource(512_000_000)));
        MemoryUnit::Megabyte.outward(&mut amount);
        assert_eq!(amount, Some(resource(512)));
        MemoryUnit::Raw.inward(&mut amount).unwrap();
        assert_eq!(amount, Some(resource(512)));
    }

    #[test]
    fn overflow_is_refused_and_absence_is_kept() {
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
