//! Measured use of this partition's nodes and allocations: kept for a while and compared, never
//! accounted (`docs/admin.md#measured-use`). No decision may depend on measurements, because they
//! are not among the inputs of a replay.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::nodes::utilization::Observed;

use super::Partition;
use super::reports::Reports;
use crate::step::Baton;

impl Partition {
    /// Keeps the measurements whose subject this partition knows: a node by its id, or else an
    /// allocation by its UUID or key.
    pub(super) fn observe(&mut self, reports: &Reports, baton: &Baton) {
        let now_ns = baton.now_ns;
        let at_ns = reports.at_ns.unwrap_or(now_ns);
        self.observed.expire(now_ns);
        let nodes = &baton.books.nodes;
        let names = reports.usages.iter().map(|(id, _)| &**id);
        let strange: BTreeSet<&str> = names.filter(|id| nodes.slot_of(id).is_none()).collect();
        let mut allocations: BTreeSet<Arc<str>> = BTreeSet::new();
        if !strange.is_empty() {
            // The table has no index by UUID or key: one pass finds all of them.
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
}
