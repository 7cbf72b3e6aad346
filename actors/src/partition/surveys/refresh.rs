//! Queues take over a changed configuration, or a changed capacity of the partition: each gets its
//! facts from the directory, and keys and bounds are computed again from the leaves upward.
//! It is a survey and not a message to each queue, because an offer must never see some queues
//! before the change and some after it.
//!
//! # Invariants
//! * Every queue that is visited takes in the updates of the visited queues below it, and the
//!   queues above it are visited, too.
//! * Root is always visited: the capacity may have changed, and the loosening of a refresh is noted
//!   there.
//! * A queue that is not visited keeps its bounds, which stay true: nothing below it has changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::values::resources::Limits;

use super::{LeftBelow, Partition};
use crate::application::Application;
use crate::queue::{Queue, QueueFacts};
use crate::step::{Baton, QueueSlot, Route, RowUpdate, Survey};

/// The survey that has queues take over their facts from the directory.
pub(in crate::partition) struct Refresh {
    scope: Scope,
    /// The fair maxima of the visited queues, by slot.
    fair_max: Vec<Option<Limits>>,
    below: LeftBelow<RowUpdate>,
}

enum Scope {
    /// Every queue whose facts in the directory or whose fair maximum changed, these leaves with
    /// their applications, and all queues above.
    Changed { leaves: BTreeSet<QueueSlot> },
    /// One leaf and the queues above it, so that the cost does not depend on the number of queues.
    /// The applications of the leaf are visited if it treats them differently from now on.
    Path { leaf: QueueSlot, treats_otherwise: bool },
}

impl Refresh {
    /// Refreshes all queues that have changed, and the applications in these leaves.
    pub(in crate::partition) fn of_changed(leaves: BTreeSet<QueueSlot>) -> Self {
        Self::new(Scope::Changed { leaves })
    }

    /// Refreshes one leaf with other settings, and the queues above it.
    pub(in crate::partition) fn of_path(leaf: QueueSlot, treats_otherwise: bool) -> Self {
        Self::new(Scope::Path { leaf, treats_otherwise })
    }

    fn new(scope: Scope) -> Self {
        Self { scope, fair_max: Vec::new(), below: LeftBelow::default() }
    }
}

impl Survey for Refresh {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let (queues, fair_max) = match &self.scope {
            Scope::Changed { leaves } => changed(leaves, baton),
            Scope::Path { leaf, .. } => path(*leaf, baton),
        };
        self.fair_max = fair_max;
        let route = Route::default().queues(queues);
        match &self.scope {
            Scope::Changed { leaves } if !leaves.is_empty() => {
                route.applications_that(baton, |entry| leaves.contains(&entry.leaf))
            }
            Scope::Path { leaf, treats_otherwise: true } => {
                route.applications_that(baton, |entry| entry.leaf == *leaf)
            }
            Scope::Changed { .. } | Scope::Path { .. } => route,
        }
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        if let Some(update) = application.refresh(baton) {
            self.below.leave(application.leaf_facts.slot, update);
        }
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let slot = queue.slot();
        let fair_max = self.fair_max.get_mut(slot.0 as usize).and_then(Option::take);
        let update = queue.refresh(self.below.take(slot), fair_max, baton);
        if let (Some(above), Some(update)) = (queue.parent(), update) {
            self.below.leave(above, update);
        }
    }
}

/// Returns the queues to visit, and the fair maxima of all queues by slot: these are computed from
/// root downward.
fn changed(leaves: &BTreeSet<QueueSlot>, baton: &Baton) -> (Vec<QueueSlot>, Vec<Option<Limits>>) {
    let Baton { directory, books, .. } = baton;
    let n_slots = directory.queues.bound();
    let mut fair_max: Vec<Option<Limits>> = vec![None; n_slots];
    let mut is_visited = vec![false; n_slots];
    for entry in directory.all_queues() {
        let (facts, at) = (&entry.facts, entry.facts.slot.0 as usize);
        fair_max[at] = facts.fair_max_below(&fair_max, books.nodes.capacity());
        let is_root = facts.parent.is_none();
        is_visited[at] = is_root || entry.is_stale || fair_max[at] != facts.fair_max;
    }
    for leaf in leaves {
        is_visited[leaf.0 as usize] = true;
    }
    for entry in directory.all_queues().rev() {
        if let Some(parent) = entry.facts.parent {
            is_visited[parent.0 as usize] |= is_visited[entry.facts.slot.0 as usize];
        }
    }
    let slots = directory.all_queues().map(|entry| entry.facts.slot);
    (slots.filter(|slot| is_visited[slot.0 as usize]).collect(), fair_max)
}

/// Returns a leaf with the queues above it, and their fair maxima, by slot.
fn path(leaf: QueueSlot, baton: &Baton) -> (Vec<QueueSlot>, Vec<Option<Limits>>) {
    let mut path: Vec<&Arc<QueueFacts>> = baton.directory.upward(leaf).collect();
    path.reverse();
    let mut fair_max = vec![None; leaf.0 as usize + 1];
    for facts in &path {
        let capacity = baton.books.nodes.capacity();
        fair_max[facts.slot.0 as usize] = facts.fair_max_below(&fair_max, capacity);
    }
    (path.into_iter().map(|facts| facts.slot).collect(), fair_max)
}
