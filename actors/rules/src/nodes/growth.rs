//! The list of nodes that grew, newest first.
//!
//! The list answers "did a node that could hold this ask grow since?" for every pending ask. Each
//! node is listed once, at its last growth: so the list cannot become longer than the number of
//! nodes, and no entry has to be dropped while its node exists.

use serde::{Deserialize, Serialize};

use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;

/// The most grown nodes that are examined for one question. If there are more, the answer is that
/// of the maximum over all nodes.
pub(super) const LOOKED_AT: usize = 64;

/// Nodes in order of their last growth. The caller numbers the growths.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Growths {
    newest: Option<NodeSlot>,
    links: Vec<Link>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Link {
    /// The number of the node's last growth; [`Growth::NONE`] if the slot is not in the list.
    grown: Growth,
    newer: Option<NodeSlot>,
    older: Option<NodeSlot>,
}

impl Growths {
    /// Records a growth of a node. Its number is above all earlier ones.
    pub(super) fn log(&mut self, slot: NodeSlot, number: Growth) {
        if self.links.len() <= slot.index() {
            self.links.resize_with(slot.index() + 1, Link::default);
        }
        self.forget(slot);
        let older = self.newest.replace(slot);
        if let Some(older) = older {
            self.links[older.index()].newer = Some(slot);
        }
        self.links[slot.index()] = Link { grown: number, newer: None, older };
    }

    /// Removes a node from the list, if it is listed.
    pub(super) fn forget(&mut self, slot: NodeSlot) {
        let Some(link) = self.links.get_mut(slot.index()) else { return };
        let Link { grown, newer, older } = std::mem::take(link);
        if grown == Growth::NONE {
            return;
        }
        match newer {
            Some(newer) => self.links[newer.index()].older = older,
            None => self.newest = older,
        }
        if let Some(older) = older {
            self.links[older.index()].newer = newer;
        }
    }

    /// Returns the number of the last growth of a node; [`Growth::NONE`] if it is not in the list.
    pub(super) fn last_of(&self, slot: NodeSlot) -> Growth {
        self.links.get(slot.index()).map_or(Growth::NONE, |link| link.grown)
    }

    /// Returns the nodes that grew, newest first, each with the number of its last growth.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (NodeSlot, Growth)> {
        std::iter::successors(self.newest, |slot| self.links[slot.index()].older)
            .map(|slot| (slot, self.links[slot.index()].grown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_stands_once_where_its_last_growth_puts_it() {
        let mut growths = Growths::default();
        for (number, slot) in (1..).zip([5, 1, 2, 1, 3, 3]) {
            growths.log(NodeSlot::at(slot), Growth::numbered(number));
        }
        let listed = |growths: &Growths| -> Vec<(usize, u64)> {
            growths.newest_first().map(|(slot, grown)| (slot.index(), grown.number())).collect()
        };
        assert_eq!(listed(&growths), [(3, 6), (1, 4), (2, 3), (5, 1)]);
        growths.forget(NodeSlot::at(3));
        growths.forget(NodeSlot::at(2));
        growths.forget(NodeSlot::at(9));
        assert_eq!(listed(&growths), [(1, 4), (5, 1)]);
        growths.forget(NodeSlot::at(5));
        growths.forget(NodeSlot::at(1));
        assert_eq!(listed(&growths), []);
        growths.log(NodeSlot::at(2), Growth::numbered(7));
        assert_eq!(listed(&growths), [(2, 7)]);
    }
}
