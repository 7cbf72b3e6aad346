//! The list of the last growths, each with the available amount of the node at that time, and the
//! count of consecutive growths that passed an ask by, that is, left too little for it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;

/// The number of consecutive growths that left too little, after which an ask counts as passed by.
pub const PASSED_BY: u8 = 3;
/// The most growths that are listed.
pub(super) const LISTED: usize = 64;

/// The last growths, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LastGrowths(pub(super) VecDeque<Grown>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Grown {
    pub(super) number: Growth,
    pub(super) node: NodeSlot,
    /// The available amount of the node at that time.
    pub(super) available: Resources,
}

impl LastGrowths {
    /// Records a growth of a node, which has this available amount. The number is above all earlier
    /// ones.
    pub(super) fn note(&mut self, number: Growth, node: NodeSlot, available: &Resources) {
        // A dropped entry is used again, since it has its memory already.
        let mut grown = if self.0.len() < LISTED { None } else { self.0.pop_front() };
        if let Some(grown) = &mut grown {
            (grown.number, grown.node) = (number, node);
            grown.available.clone_from(available);
        }
        let grown = grown.unwrap_or_else(|| Grown { number, node, available: available.clone() });
        self.0.push_back(grown);
    }

    /// Removes a node that is removed from the index; its slot may be given to another.
    pub(super) fn forget(&mut self, node: NodeSlot) {
        self.0.retain(|grown| grown.node != node);
    }

    pub(super) fn newest_since(&self, mark: Growth) -> impl Iterator<Item = &Grown> {
        self.0.iter().rev().take_while(move |grown| grown.number > mark)
    }
}

/// The consecutive growths that left too little for an ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedBy {
    /// The number of the last growth up to which they were counted.
    pub at: Growth,
    /// The number of these growths, up to [`PASSED_BY`].
    pub times: u8,
}

impl PassedBy {
    /// Whether there are enough of them for the ask to reserve a node.
    pub fn is_enough(self) -> bool {
        self.times >= PASSED_BY
    }
}
