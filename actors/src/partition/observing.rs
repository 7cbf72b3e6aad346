//! What others measure of this partition's nodes and allocations: kept for a while, compared, never
//! accounted (`docs/admin.md#measured-use`). A decision must not depend on it, since it could not
//! be repeated otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::nodes::utilization::Observed;
use monoceros_rules::values::resources::Resources;

use super::Partition;
use super::reports::Reports;
use super::surveys::ObservedKind;
use crate::step::Baton;

/// The newest measurements, by the name under which they were reported.
#[derive(Default)]
pub(super) struct ObservedTable {
    nodes: BTreeMap<Arc<str>, Observed>,
    /// By UUID or by key.
    allocations: BTreeMap<Arc<str>, Observed>,
}

impl ObservedTable {
    /// Shows all that was measured.
    pub(super) fn amounts(&self, mut show: impl FnMut(&Resources)) {
        let all = self.nodes.values().chain(self.allocations.values());
        all.for_each(|observed| show(&observed.usage));
    }

    /// Forgets what is too old.
    fn expire(&mut self, now_ns: i64) {
        self.nodes.retain(|_, observed| observed.is_kept(now_ns));
        self.allocations.retain(|_, observed| observed.is_kept(now_ns));
    }
}

impl Partition {
    /// Keeps the measurements of what is known here: a node, else an allocation by its UUID, else
    /// one by its key.
    pub(super) fn observe(&mut self, reports: &Reports, baton: &Baton) {
        let now_ns = baton.now_ns;
        let at_ns = reports.at_ns.unwrap_or(now_ns);
        self.observed.expire(now_ns);
        let nodes = &baton.books.nodes;
        let names = reports.usages.iter().map(|(id, _)| &**id);
        let strange: BTreeSet<&str> = names.filter(|id| nodes.slot_of(id).is_none()).collect();
        let mut allocations: BTreeSet<Arc<str>> = BTreeSet::new();
        if !strange.is_empty() {
            // The table knows neither UUIDs nor keys by name: one pass for all of them.
            let names = baton.books.allocations.iter().flat_map(|(_, entry)| {
                [&entry.uuid, entry.key()].into_iter().filter(|name| strange.contains(&***name))
            });
            allocations.extend(names.cloned());
        }
        for (number, (id, usage)) in reports.usages.iter().enumerate() {
            let node = nodes.slot_of(id);
            let table = match node {
                Some(_) => &mut self.observed.nodes,
                None if allocations.contains(id) => &mut self.observed.allocations,
                None => continue,
            };
            let capacity = node.map(|slot| &**nodes.total(slot));
            let earlier = table.get(id);
            let observed = Observed::after(earlier, usage.clone(), at_ns, now_ns, capacity);
            if let Some(observed) = observed {
                table.insert(Arc::clone(id), observed);
            }
            reports.is_known(number);
        }
    }

    /// What is used by the next so many nodes or allocations behind one of them, as far as it was
    /// measured, and the last of them. Nothing behind the last.
    pub(super) fn observed_sum(
        &self,
        of: ObservedKind,
        behind: Option<&Arc<str>>,
        most: usize,
        now_ns: i64,
    ) -> Option<(Resources, Arc<str>)> {
        let table = match of {
            ObservedKind::Nodes => &self.observed.nodes,
            ObservedKind::Allocations => &self.observed.allocations,
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

    /// The newest measurement of a node, if it is not too old.
    pub(super) fn observed_of(&self, node: &str, now_ns: i64) -> Option<&Observed> {
        self.observed.nodes.get(node).filter(|observed| observed.is_kept(now_ns))
    }
}
