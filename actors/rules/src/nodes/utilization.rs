//! Measured utilization of nodes, and the recommendations that follow from it.
//!
//! Measurements never change the accounts: the free amount of a node follows from its allocations,
//! whatever usage is measured on it. Measurements are kept for a while and compared. If decisions
//! depended on them, the same requests would no longer lead to the same decisions.
//!
//! # Invariants
//! * The newest measurement counts, whatever the order of arrival.
//! * A node counts as overloaded after three consecutive measurements of an overload, each of which
//!   arrived within [`KEPT_NS`] of the one before.
//!
//! ```
//! use monoceros_rules::values::resources::Resources;
//! use monoceros_rules::nodes::utilization::{RecommendationKind, NodeFigures, recommendations};
//! let vcores = |n| Resources::of(&[("vcore", n)]);
//! let node = NodeFigures {
//!     capacity: vcores(4),
//!     allocated: vcores(3),
//!     others: vcores(2),
//!     is_draining: false,
//!     is_empty: false,
//! };
//! assert_eq!(recommendations(&node, None), [(RecommendationKind::Overcommitted, vcores(5))]);
//! ```

use serde::{Deserialize, Serialize};

use crate::values::resources::Resources;

/// The time for which a measurement is kept, ns.
pub const KEPT_NS: i64 = 300_000_000_000;

/// The number of consecutive measurements that make an overload.
const OVERLOADS: u32 = 3;

/// The newest measurement of a node or an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The measured usage.
    pub usage: Resources,
    /// The time of the measurement according to its sender, ns since the epoch.
    pub at_ns: i64,
    /// The time at which the scheduler received it, ns since the epoch.
    heard_ns: i64,
    /// The number of consecutive measurements of an overload, this one included.
    overloads: u32,
}

impl Observed {
    /// Builds the measurement that follows `earlier`. `capacity` is given for a node, whose
    /// measurement may exceed it. `None` if the earlier measurement is newer and still kept.
    pub fn after(
        earlier: Option<&Self>,
        usage: Resources,
        at_ns: i64,
        now_ns: i64,
        capacity: Option<&Resources>,
    ) -> Option<Self> {
        let earlier = earlier.filter(|earlier| earlier.is_kept(now_ns));
        if earlier.is_some_and(|earlier| earlier.at_ns > at_ns) {
            return None;
        }
        let before = earlier.map_or(0, |earlier| earlier.overloads);
        let is_over = capacity.is_some_and(|capacity| is_over(&usage, capacity));
        let overloads = if is_over { before.saturating_add(1) } else { 0 };
        Some(Self { usage, at_ns, heard_ns: now_ns, overloads })
    }

    /// Whether it is still kept.
    pub fn is_kept(&self, now_ns: i64) -> bool {
        now_ns.saturating_sub(self.heard_ns) < KEPT_NS
    }
}

/// Whether the usage of some resource exceeds the capacity of the node. Resources that the node
/// does not have are ignored.
fn is_over(usage: &Resources, capacity: &Resources) -> bool {
    capacity.entries().any(|(name, quantity)| usage.get(name) > quantity)
}

/// The number of classes of [`tenth`].
pub const TENTHS: usize = 10;

/// Returns the tenth of a node of which this percentage is allocated: up to 10 is in the first, and
/// all above 90 in the last.
pub fn tenth(percent: i64) -> usize {
    let above = percent.saturating_sub(1).max(0) / 10;
    usize::try_from(above).unwrap_or(TENTHS).min(TENTHS - 1)
}

/// Why a node should have another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecommendationKind {
    /// The accounted amount exceeds the capacity.
    Overcommitted,
    /// The node drains and is empty: it can be removed.
    Drained,
    /// The measured usage exceeds the capacity.
    ObservedOverload,
}

impl RecommendationKind {
    /// The text of the kind, as clients know it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Overcommitted => "OVERCOMMITTED",
            Self::Drained => "DRAINED",
            Self::ObservedOverload => "OBSERVED_OVERLOAD",
        }
    }
}

/// The figures of a node by the accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFigures {
    /// The capacity of the node.
    pub capacity: Resources,
    /// The amount that this scheduler has placed on it.
    pub allocated: Resources,
    /// The amount that other users of the node take.
    pub others: Resources,
    /// Whether it takes no new allocations.
    pub is_draining: bool,
    /// Whether this scheduler has placed nothing on it.
    pub is_empty: bool,
}

/// Returns the recommended sizes of the node, with the reasons; `observed` is still kept.
pub fn recommendations(
    node: &NodeFigures,
    observed: Option<&Observed>,
) -> Vec<(RecommendationKind, Resources)> {
    let mut recommendations = Vec::new();
    let accounted = node.allocated.plus(&node.others).pruned();
    if accounted.entries().any(|(name, quantity)| quantity > node.capacity.get(name)) {
        recommendations.push((RecommendationKind::Overcommitted, accounted));
    }
    if node.is_draining && node.is_empty {
        recommendations.push((RecommendationKind::Drained, Resources::new()));
    }
    if let Some(observed) = observed.filter(|observed| observed.overloads >= OVERLOADS) {
        let mut left = Resources::new();
        for (name, quantity) in node.capacity.entries() {
            // Capacity that is used beyond the allocated amount is not available to any ask.
            let used = observed.usage.get(name).saturating_sub(node.allocated.get(name)).max(0);
            left.set(name, quantity.saturating_sub(used).max(0));
        }
        recommendations.push((RecommendationKind::ObservedOverload, left));
    }
    recommendations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vcores(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    fn measured(earlier: Option<&Observed>, usage: i64, at_ns: i64) -> Option<Observed> {
        Observed::after(earlier, vcores(usage), at_ns, at_ns, Some(&vcores(4)))
    }

    fn node() -> NodeFigures {
        NodeFigures { capacity: vcores(4), allocated: vcores(3), ..NodeFigures::default() }
    }

    #[test]
    fn a_tenth_ends_with_its_upper_bound_and_the_last_has_no_end() {
        for (percent, class) in [
            (-5, 0),
            (0, 0),
            (1, 0),
            (10, 0),
            (11, 1),
            (20, 1),
            (21, 2),
            (90, 8),
            (91, 9),
            (100, 9),
            (150, 9),
            (i64::MAX, 9),
        ] {
            assert_eq!(tenth(percent), class, "{percent}");
        }
    }

    #[test]
    fn the_newest_measurement_counts_and_nothing_older_than_five_minutes() {
        let first = measured(None, 1, 10).unwrap();
        assert_eq!(measured(Some(&first), 2, 9), None);
        assert_eq!(measured(Some(&first), 2, 10).unwrap().usage, vcores(2));
        assert!(first.is_kept(10 + KEPT_NS - 1));
        assert!(!first.is_kept(10 + KEPT_NS));
        let late = Observed::after(Some(&first), vcores(2), 9, 10 + KEPT_NS, None);
        assert_eq!(late.unwrap().usage, vcores(2), "the earlier one is not kept any more");
    }

    #[test]
    fn three_measurements_in_a_row_make_an_overload() {
        let mut last = None;
        let mut calls = Vec::new();
        for (at, usage) in [5, 5, 4, 5, 6, 7].into_iter().enumerate() {
            last = measured(last.as_ref(), usage, i64::try_from(at).unwrap());
            calls.push(recommendations(&node(), last.as_ref()));
        }
        let overload = vec![(RecommendationKind::ObservedOverload, vcores(0))];
        assert_eq!(calls.pop(), Some(overload), "4 without the 4 that nobody asked for");
        assert!(calls.iter().all(Vec::is_empty));
        let after = Observed::after(last.as_ref(), vcores(9), 9, 9 + KEPT_NS, Some(&vcores(4)));
        assert_eq!(recommendations(&node(), after.as_ref()), [], "it begins anew");
    }

    #[test]
    fn what_a_node_has_none_of_does_not_overload_it_and_less_use_gives_no_more() {
        let gpu = Resources::of(&[("gpu", 9)]);
        let observed = Observed::after(None, gpu, 0, 0, Some(&vcores(4))).unwrap();
        assert_eq!(observed.overloads, 0);
        let capacity = Resources::of(&[("vcore", 4), ("memory", 8)]);
        let node = NodeFigures {
            allocated: Resources::of(&[("vcore", 1), ("memory", 8)]),
            capacity: capacity.clone(),
            ..NodeFigures::default()
        };
        let usage = Resources::of(&[("vcore", 5), ("memory", 1)]);
        let mut last = None;
        for at in 0..3 {
            last = Observed::after(last.as_ref(), usage.clone(), at, at, Some(&capacity));
        }
        let left = Resources::of(&[("vcore", 0), ("memory", 8)]);
        assert_eq!(
            recommendations(&node, last.as_ref()),
            [(RecommendationKind::ObservedOverload, left)]
        );
    }

    #[test]
    fn a_node_that_is_full_is_not_overcommitted_and_one_that_drains_goes_when_it_is_empty() {
        let full = NodeFigures { others: vcores(1), ..node() };
        assert_eq!(recommendations(&full, None), []);
        let over = NodeFigures { others: Resources::of(&[("gpu", 1)]), ..node() };
        let all = Resources::of(&[("vcore", 3), ("gpu", 1)]);
        assert_eq!(recommendations(&over, None), [(RecommendationKind::Overcommitted, all)]);
        let drains = NodeFigures { is_draining: true, ..node() };
        assert_eq!(recommendations(&drains, None), []);
        let empty = NodeFigures { is_empty: true, allocated: Resources::new(), ..drains };
        assert_eq!(
            recommendations(&empty, None),
            [(RecommendationKind::Drained, Resources::new())]
        );
    }
}
