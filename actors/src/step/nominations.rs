//! Nominations of preemptors (`monoceros_rules::decide::preemption`), and the capacity that the
//! node index shows on nominated nodes.
//!
//! # Invariants
//! * After each step, the index shows the available amount of a node without the capacity that is
//!   kept for gangs.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::pending::nominations::{Nomination, Nominations, Preemptor};
use monoceros_rules::pending::reservations::End;
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Baton;
use super::alarm::Alarm;
use super::op::{GangOp, Op, PreemptionOp};

/// Returns the nodes on which a nomination keeps capacity.
fn nodes_of(nomination: &Nomination) -> BTreeSet<NodeSlot> {
    nomination.rooms.iter().map(|room| room.node).collect()
}

impl Baton {
    /// Records a nomination. A deadline ends it at the latest.
    pub(crate) fn nominate(&mut self, preemptor: Preemptor, nomination: Nomination) {
        let nodes = nodes_of(&nomination);
        if self.books.nominations.watch() {
            let timeout = self.settings.patience.wait_timeout;
            self.effects.remind(timeout, Alarm::NominationsWaited);
        }
        self.change_kept(&nodes, |nominations| nominations.make(preemptor, nomination));
    }

    /// Notes that a victim is gone, so that its preemptor has its capacity now. After the last
    /// victim of a gang, the gang's application is visited.
    pub(crate) fn victim_left(&mut self, id: AllocationId, node: NodeSlot) {
        let Some(Preemptor::Gang(application)) = self.books.nominations.of_victim(id) else {
            self.books.nominations.confirmed(id);
            return;
        };
        let nodes = BTreeSet::from([node]);
        let confirmed = self.change_kept(&nodes, |nominations| nominations.confirmed(id));
        if confirmed.is_some_and(|confirmed| confirmed.is_last) {
            self.effects.revisit(application, Op::Gang(GangOp::RoomsAreFree));
        }
    }

    /// Notes that a victim stays: the nomination of its preemptor ends, and victims are searched
    /// again for it.
    pub(crate) fn victim_stays(&mut self, id: AllocationId) {
        if let Some(preemptor) = self.books.nominations.of_victim(id) {
            if let Preemptor::Ask(who) = preemptor {
                self.unreserve(who, End::VictimStays);
            }
            self.end_nomination(preemptor, false);
        }
        // Removes the victim even if its preemptor is gone already.
        self.books.nominations.confirmed(id);
    }

    /// Notes that a victim which is not gone yet was resized.
    pub(crate) fn victim_resized(&mut self, id: AllocationId, node: NodeSlot, to: &Resources) {
        let nodes = BTreeSet::from([node]);
        self.change_kept(&nodes, |nominations| nominations.resized(id, to));
    }

    /// Ends the nomination of a preemptor. The applications of its victims are visited, and its own
    /// unless it was placed. Applications that wait for nominations to end are visited once half of
    /// the nominations have ended.
    pub(crate) fn end_nomination(&mut self, preemptor: Preemptor, is_placed: bool) {
        let Some(nomination) = self.books.nominations.of(preemptor) else { return };
        let nodes = nodes_of(nomination);
        let Some(nomination) = self.change_kept(&nodes, |nominations| nominations.end(preemptor))
        else {
            return;
        };
        for node in nodes {
            self.books.nodes.touch(node);
            let id = Arc::clone(self.books.nodes.id(node));
            self.wake_named(node, &id);
        }
        let mut concerned = nomination.losers;
        // A preemptor that was placed uses its capacity now, so no application in its queues has
        // more headroom.
        concerned.extend((!is_placed).then_some(preemptor.application()));
        concerned.retain(|slot| self.directory.application(*slot).is_some());
        for slot in concerned {
            self.effects.revisit(slot, Op::Preemption(PreemptionOp::NominationEnded));
        }
        let left = self.books.nominations.len();
        for slot in self.directory.wake_for_nominations(left) {
            self.effects.revisit(slot, Op::Preemption(PreemptionOp::MayPreempt { at_ns: None }));
        }
    }

    /// Shows the index the capacity kept for a preemptor while the preemptor is tried there
    /// (`lifted`), or hides it again. Does nothing for a preemptor without a nomination.
    pub(crate) fn lift_nomination(&mut self, preemptor: Preemptor, lifted: bool) {
        let Some(nomination) = self.books.nominations.of(preemptor) else { return };
        let nodes = nodes_of(nomination);
        self.change_kept(&nodes, |nominations| nominations.lift(preemptor, lifted));
    }

    /// Ends nominations that have waited for too long. An alarm is set for the next nomination that
    /// will have.
    pub(crate) fn end_waited_nominations(&mut self) {
        let timeout = self.settings.patience.wait_timeout;
        let (waited, next_ns) = self.books.nominations.waited(self.now_ns, timeout);
        for preemptor in waited {
            self.end_nomination(preemptor, false);
        }
        if let Some(next_ns) = next_ns {
            self.effects.remind_at(next_ns, self.now_ns, Alarm::NominationsWaited);
        }
    }

    /// Ends the nomination of a preemptor whose reservation was refused its node, if no victims are
    /// left.
    pub(crate) fn nomination_refused(&mut self, preemptor: Preemptor) {
        let is_over = self
            .books
            .nominations
            .of(preemptor)
            .is_some_and(|nomination| nomination.victims.is_empty());
        if is_over {
            self.end_nomination(preemptor, false);
        }
    }

    /// Ends all nominations of gangs that keep capacity on this node.
    pub(crate) fn end_rooms_on(&mut self, node: NodeSlot) {
        for gang in self.books.nominations.on_node(node).collect::<Vec<_>>() {
            self.end_nomination(gang, false);
        }
    }

    /// Ends the nominations of gangs on nodes that changed, if the node has less capacity than is
    /// kept, or is closed. Called at the end of the step, when the available amounts are final.
    pub(crate) fn check_rooms(&mut self) {
        for node in std::mem::take(&mut self.effects.nominated_nodes) {
            let (nodes, nominations) = (&self.books.nodes, &self.books.nominations);
            if nominations.on_node(node).next().is_none() {
                continue;
            }
            if !nodes.is_open(node) || nodes.available(node).has_negative() {
                self.end_rooms_on(node);
            }
        }
    }

    /// Changes the capacity that is kept for gangs on these nodes, and with it the available
    /// amounts that the index shows.
    fn change_kept<T>(
        &mut self,
        nodes: &BTreeSet<NodeSlot>,
        change: impl FnOnce(&mut Nominations) -> T,
    ) -> T {
        let kept = |nominations: &Nominations, node| nominations.kept(node).unwrap_or_default();
        let nominations = &mut self.books.nominations;
        let before: Vec<_> = nodes.iter().map(|node| kept(nominations, *node)).collect();
        let changed = change(nominations);
        for (node, before) in nodes.iter().zip(before) {
            let after = kept(nominations, *node);
            if !before.same_amount(&after) {
                let left = self.books.nodes.available(*node).plus(&before).minus(&after);
                self.books.nodes.take_in(*node, &left.pruned());
            }
        }
        changed
    }
}
