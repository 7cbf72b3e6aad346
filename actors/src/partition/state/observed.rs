//! The newest measurements of nodes and allocations, as the RM reported them
//! (`docs/admin.md#measured-use`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::nodes::utilization::Observed;
use monoceros_rules::values::resources::Resources;

/// The subject of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObservedKind {
    Nodes,
    Allocations,
}

/// The newest measurements, by the name under which they were reported.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(in crate::partition) struct ObservedTable {
    pub(in crate::partition) nodes: BTreeMap<Arc<str>, Observed>,
    /// Measurements of allocations, by UUID or by key.
    pub(in crate::partition) allocations: BTreeMap<Arc<str>, Observed>,
}

impl ObservedTable {
    /// Calls `show` with each measured amount.
    pub(in crate::partition) fn amounts(&self, mut show: impl FnMut(&Resources)) {
        let all = self.nodes.values().chain(self.allocations.values());
        all.for_each(|observed| show(&observed.usage));
    }

    /// Forgets measurements that are too old.
    pub(in crate::partition) fn expire(&mut self, now_ns: i64) {
        self.nodes.retain(|_, observed| observed.is_kept(now_ns));
        self.allocations.retain(|_, observed| observed.is_kept(now_ns));
    }

    /// Returns the measured use of at most `most` nodes or allocations after a name, with the last
    /// name that was read. `None` if none follow.
    pub(in crate::partition) fn sum(
        &self,
        of: ObservedKind,
        behind: Option<&Arc<str>>,
        most: usize,
        now_ns: i64,
    ) -> Option<(Resources, Arc<str>)> {
        let table = match of {
            ObservedKind::Nodes => &self.nodes,
            ObservedKind::Allocations => &self.allocations,
        };
        let behind = behind.map_or(Bound::Unbounded, |name| Bound::Excluded(&**name));
        let some = table.range::<str, _>((behind, Bound::Unbounded)).take(most);
        let (mut sum, mut last) = (Resources::new(), None);
        for (name, observed) in some {
            if observed.is_kept(now_ns) {
                sum.add(&observed.usage);
            }
            last = Some(Arc::clone(name));
        }
        last.map(|last| (sum, last))
    }

    /// Returns the newest measurement of a node, if it is not too old.
    pub(in crate::partition) fn of_node(&self, node: &str, now_ns: i64) -> Option<&Observed> {
        self.nodes.get(node).filter(|observed| observed.is_kept(now_ns))
    }
}
