//! A survey after limits of users and groups were loosened: each leaf concerned computes the bounds
//! of its lanes again, then each queue above computes its own from those of its children.
//!
//! Each queue is visited once, however many of its children changed, so that a burst of releases
//! costs one pass. A queue takes in only the children whose update differs from what it has.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_rules::limits::LaneId;

use super::{LeftBelow, Partition};
use crate::queue::Queue;
use crate::step::{Baton, QueueSlot, Route, RowUpdate, Survey};

/// Computes the bounds of lanes again whose limits were loosened.
pub(in crate::partition) struct LoosenedLanes {
    /// The lanes concerned, by leaf.
    lanes: BTreeMap<QueueSlot, Vec<LaneId>>,
    below: LeftBelow<RowUpdate>,
}

impl LoosenedLanes {
    /// Returns a survey of these lanes, by leaf.
    pub(in crate::partition) fn at(lanes: BTreeMap<QueueSlot, Vec<LaneId>>) -> Self {
        Self { lanes, below: LeftBelow::default() }
    }
}

impl Survey for LoosenedLanes {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let mut slots = BTreeSet::new();
        for leaf in self.lanes.keys() {
            let path = baton.directory.upward(*leaf).map(|facts| facts.slot);
            // If a queue is in the set already, so are the queues above it.
            slots.extend(path.take_while(|slot| !slots.contains(slot)).collect::<Vec<_>>());
        }
        Route::default().queues(slots)
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let lanes = self.lanes.remove(&queue.slot()).unwrap_or_default();
        let below = self.below.take(queue.slot());
        let update = queue.look_again(below, &lanes, baton);
        if let (Some(above), Some(update)) = (queue.parent(), update) {
            self.below.leave(above, update);
        }
    }
}
