//! The table of foreign allocations. The partition owns it, since a foreign allocation is known by
//! its key alone and may move to another node.
//!
//! # Invariant
//! * The amounts of the whole table add up to quantities: no node's sum can leave their range.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::specs::rejection::{Overflow, Rejection};
use monoceros_rules::values::ids::NodeSlot;
use monoceros_rules::values::resources::{Resources, Sum};

/// The foreign allocations of a partition: by key, the node and the amount.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(in crate::partition) struct ForeignTable {
    entries: BTreeMap<Arc<str>, (NodeSlot, Resources)>,
    sum: Resources,
}

impl ForeignTable {
    /// Checks that the allocation of this key may have this amount: a new one must not be empty,
    /// and the sum of the table has to stay a quantity.
    pub(in crate::partition) fn check(
        &self,
        key: &Arc<str>,
        resources: &Resources,
    ) -> Result<(), Rejection> {
        let old = self.entries.get(key).map(|(_, old)| old);
        if old.is_none() && resources.is_zero() {
            return Err(Rejection::NoResource(Arc::clone(key)));
        }
        let others = self.sum.minus(old.unwrap_or(&Resources::NONE));
        match Overflow::of_sum(&others, &Sum::from(resources), "of other foreign allocations") {
            None => Ok(()),
            Some(why) => Err(Rejection::Overflow { id: Arc::clone(key), why }),
        }
    }

    /// Enters or changes an allocation. Returns its earlier node, if it was known.
    pub(in crate::partition) fn put(
        &mut self,
        key: Arc<str>,
        node: NodeSlot,
        resources: Resources,
    ) -> Option<NodeSlot> {
        let old = self.remove(&key);
        self.sum.add(&resources);
        self.entries.insert(key, (node, resources));
        old
    }

    pub(in crate::partition) fn remove(&mut self, key: &Arc<str>) -> Option<NodeSlot> {
        let (node, resources) = self.entries.remove(key)?;
        self.sum.subtract(&resources);
        Some(node)
    }

    pub(in crate::partition) fn forget_node(&mut self, node: NodeSlot) {
        let sum = &mut self.sum;
        self.entries.retain(|_, (at, resources)| {
            if *at == node {
                sum.subtract(resources);
            }
            *at != node
        });
    }
}
