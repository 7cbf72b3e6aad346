//! The number of requests that each node refused: predicates that said no, and starts that failed
//! there. People look for a broken node by it; no decision depends on it.

use super::index::NodeIndex;
use crate::values::ids::NodeSlot;

impl NodeIndex {
    /// Counts a refusal of each of these nodes. Unknown ids are left out: the node was removed
    /// before the answer came.
    pub fn count_refusals<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) {
        for id in ids {
            if let Some(slot) = self.slot_of(id) {
                self.nodes[slot].refusals += 1;
            }
        }
    }

    /// The number of refusals of a node since it was added.
    pub fn refusals(&self, slot: NodeSlot) -> u64 {
        self.entry(slot).refusals
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::nodes::NodeOrder;
    use crate::values::resources::Resources;

    #[test]
    fn a_node_that_is_added_again_has_refused_nothing() {
        let one = Resources::of(&[("vcore", 1)]);
        let mut index = NodeIndex::new(NodeOrder::default());
        let add = |index: &mut NodeIndex| {
            index.insert(Arc::from("n1"), one.clone(), one.clone(), true).unwrap()
        };
        let slot = add(&mut index);
        index.count_refusals(["n1", "n2", "n1"]);
        assert_eq!(index.refusals(slot), 2);
        index.remove(slot);
        let slot = add(&mut index);
        assert_eq!(index.refusals(slot), 0);
    }
}
