//! The best fit: the node that lacks the least for an ask. An ask that found no node may reserve
//! it.
//!
//! # The score
//! The score adds up, for each requested resource, the part of the request that a node lacks: 0 if
//! the node has enough, 1 if nothing of the resource is left. Parts are counted in units of 2⁻⁶⁴
//! and not in floating point, whose sums would depend on the order of the names. The sum is rounded
//! to 2⁻⁴⁸, so that two thirds of one resource are as much as a third of each of two.

use super::index::NodeIndex;
use super::request::NodeRequest;
use super::room::Room;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

impl NodeIndex {
    /// Returns the node to reserve for an ask that found none. It is one that is open to all, could
    /// hold the ask when empty and is not passed over. Of these it is the one that lacks least, and
    /// of several the first in order. A request that requires a node gets that one, open or not,
    /// reserved or not, if it is large enough.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest};
    /// use monoceros_rules::values::resources::Resources;
    ///
    /// let of = |vcore, memory| Resources::of(&[("vcore", vcore), ("memory", memory)]);
    /// let mut nodes = NodeIndex::new(NodeOrder::default());
    /// nodes.insert(Arc::from("half"), of(4, 4), of(2, 4), true)?;
    /// let n2 = nodes.insert(Arc::from("nearly"), of(4, 4), of(3, 3), true)?;
    /// nodes.insert(Arc::from("small"), of(3, 9), of(3, 9), true)?;
    /// assert_eq!(nodes.best_fit(&NodeRequest::of(&of(4, 3))), Some(n2), "it lacks a quarter");
    /// # Ok::<(), monoceros_rules::nodes::NodeExists>(())
    /// ```
    pub fn best_fit(&self, request: &NodeRequest<'_>) -> Option<NodeSlot> {
        let wanted = request.resources;
        if let Some(id) = request.required {
            let may_be = |slot: &NodeSlot| self.may_ever_hold(*slot, request);
            return self.slot_of(id).filter(may_be);
        }
        let found = self.tree.least(
            |room| room.least_lack(wanted),
            |_, slot, _| {
                let node = self.entry(*slot);
                let may_be = node.is_open_to_all() && self.may_ever_hold(*slot, request);
                may_be.then(|| lack(wanted, &node.available))
            },
        );
        found.map(|(_, _, slot, _)| *slot)
    }

    /// Whether the request may use the node, and an empty node of its capacity would hold it.
    pub fn may_ever_hold(&self, slot: NodeSlot, request: &NodeRequest<'_>) -> bool {
        self.total(slot).holds(request.resources) && self.admits(slot, request)
    }
}

impl Room {
    /// Returns a lower bound of the lack of the nodes in this room; `None` if none of them is open.
    fn least_lack(&self, wanted: &Resources) -> Option<u128> {
        self.kinds().map(|free| lack(wanted, free)).min()
    }
}

/// Returns the missing part of a requested amount, in units of 2⁻⁴⁸; 0 if nothing is missing.
fn lack(wanted: &Resources, available: &Resources) -> u128 {
    let lacks = wanted.entries().map(|(name, wanted)| {
        let missing = wanted.saturating_sub(available.get(name).max(0));
        match (u128::try_from(missing), u128::try_from(wanted)) {
            (Ok(missing), Ok(wanted)) if missing > 0 => (missing << 64) / wanted,
            _ => 0,
        }
    });
    (lacks.sum::<u128>() + (1 << 15)) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u128 = 1 << 48;

    #[test]
    fn what_is_missing_is_counted_in_parts_of_what_is_wanted() {
        let of = |vcore, memory| Resources::of(&[("vcore", vcore), ("memory", memory)]);
        let wanted = of(8, 4);
        for (available, missing) in [
            (of(8, 4), 0),
            (of(99, 99), 0),
            (of(6, 4), WHOLE / 4),
            (of(6, 1), WHOLE),
            (of(0, 4), WHOLE),
            (of(-5, 0), 2 * WHOLE),
            (Resources::new(), 2 * WHOLE),
            (Resources::of(&[("gpu", 1), ("vcore", 8)]), WHOLE),
        ] {
            assert_eq!(lack(&wanted, &available), missing, "{available}");
        }
        assert_eq!(lack(&of(0, 0), &Resources::new()), 0, "nothing is wanted");
        assert_eq!(lack(&of(i64::MAX, 0), &Resources::new()), WHOLE);
        assert_eq!(lack(&of(3, 3), &of(2, 2)), lack(&of(3, 3), &of(1, 3)), "two thirds");
    }
}
