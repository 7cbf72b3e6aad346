//! Amounts of the three resources in a trace.
//!
//! The scheduler accepts any resource name; a trace has CPU time, memory and GPUs. A fixed array of
//! three keeps the simulator's own counts (free amounts per node, pending totals) free of maps, and
//! gives every table of the report the same order.

use std::ops::Index;

use monoceros_proto::si::v1 as si;

/// A resource of a trace, in the order of the scheduler's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResourceKind {
    /// Main memory, in bytes.
    Memory,
    /// GPUs, in thousandths of one GPU.
    Gpu,
    /// CPU time, in thousandths of a core.
    Vcore,
}

impl ResourceKind {
    /// All kinds, in the order of the variants.
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Gpu, Self::Vcore];

    /// All kinds, in the order of tables and charts.
    pub(crate) const SHOWN: [Self; 3] = [Self::Vcore, Self::Memory, Self::Gpu];

    /// Returns the scheduler's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Gpu => "nvidia.com/gpu-milli",
            Self::Vcore => "vcore",
        }
    }
}

/// A quantity of each [`ResourceKind`]. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount([i64; 3]);

impl Amount {
    /// Makes an amount of memory in bytes, and GPUs and cores in thousandths.
    pub(crate) const fn new(memory: i64, gpu_milli: i64, vcore_milli: i64) -> Self {
        Self([memory, gpu_milli, vcore_milli])
    }

    /// Makes an amount from a function of the kind.
    pub(crate) fn of_kinds(quantity: impl Fn(ResourceKind) -> i64) -> Self {
        Self(ResourceKind::ALL.map(quantity))
    }

    /// Makes an amount from pairs of name and quantity. Other names are ignored.
    pub(crate) fn of_named<T: AsRef<str>>(named: impl IntoIterator<Item = (T, i64)>) -> Self {
        let mut amount = Self::default();
        for (name, quantity) in named {
            for kind in ResourceKind::ALL {
                if name.as_ref() == kind.name() {
                    amount.0[kind as usize] = quantity;
                }
            }
        }
        amount
    }

    /// Whether `ask` fits into this amount.
    pub(crate) fn holds(&self, ask: &Self) -> bool {
        ResourceKind::ALL.iter().all(|&kind| ask[kind] <= self[kind])
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_sub(theirs);
        }
    }

    /// Returns the largest share of `capacity` that this amount takes of any resource. A share of
    /// zero capacity is zero.
    pub(crate) fn dominant_share(&self, capacity: &Self) -> f64 {
        let shares = ResourceKind::ALL.iter().map(|&kind| ratio(self[kind], capacity[kind]));
        shares.fold(0.0, f64::max)
    }

    /// Converts to the wire form. Resources with zero are omitted.
    pub(crate) fn to_wire(self) -> si::Resource {
        let named = ResourceKind::ALL.iter().filter(|&&kind| self[kind] != 0);
        let resources = named
            .map(|&kind| (kind.name().to_owned(), si::Quantity { value: self[kind] }))
            .collect();
        si::Resource { resources }
    }
}

impl Index<ResourceKind> for Amount {
    type Output = i64;

    fn index(&self, kind: ResourceKind) -> &i64 {
        &self.0[kind as usize]
    }
}

/// Returns `part / whole`, or zero if `whole` is zero.
pub(crate) fn ratio(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ask_fits_only_where_every_resource_suffices() {
        let free = Amount::new(10, 500, 4);
        assert!(free.holds(&Amount::new(10, 500, 4)));
        assert!(!free.holds(&Amount::new(0, 501, 0)));
    }

    #[test]
    fn the_dominant_share_is_the_largest_one() {
        let capacity = Amount::new(100, 0, 10);
        assert!((Amount::new(10, 0, 5).dominant_share(&capacity) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_wire_form_omits_zeros_and_round_trips() {
        let wire = Amount::new(5, 0, 7).to_wire();
        assert_eq!(wire.resources.keys().collect::<Vec<_>>(), ["memory", "vcore"]);
        let named = wire.resources.iter().map(|(name, quantity)| (name, quantity.value));
        assert_eq!(Amount::of_named(named), Amount::new(5, 0, 7));
    }
}
