//! Nominations to preemptors (`monoceros_rules::decide::preemption`), and what the node index shows of the
//! nodes on which they keep room.
//!
//! # Invariants
//! * After each step the index shows what a node has left without what gangs keep of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::pending::nominations::{Nomination, Nominations, Preemptor};
use monoceros_rules::pending::reservations::End;
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Baton;
use super::alarm::Alarm;
use super::op::Op;

/// The nodes on which a nomination keeps room.
fn nodes_of(nomination: &Nomination) -> BTreeSet<NodeSlot> {
    nomination.rooms.iter().map(|room| room.node).collect()
}

impl Baton {
    /// Records a nomination; a deadline ends it at the latest.
    pub(crate) fn nominate(&mut self, preemptor: Preemptor, nomination: Nomination) {
        let nodes = nodes_of(&nomination);
        if self.books.nominations.watch() {
            let timeout = self.settings.patience.wait_timeout;
            self.effects.remind(timeout, Alarm::NominationsWaited);
        }
        self.change_kept(&nodes, |nominations| nominations.make(preemptor, nomination));
    }

    /// A victim is gone. Whoever it left for has its room now.
    pub(crate) fn victim_left(&mut self, id: AllocationId, node: NodeSlot) {
        let Some(Preemptor::Gang(application)) = self.books.nominations.of_victim(id) else {
            self.books.nominations.confirmed(id);
            return;
        };
        let nodes = BTreeSet::from([node]);
        let confirmed = self.change_kept(&nodes, |nominations| nominations.confirmed(id));
        if confirmed.is_some_and(|confirmed| confirmed.is_last) {
            self.effects.revisit(application, Op::RoomsAreFree);
        }
    }

    /// A victim stays: whoever it was to leave for is nominated nothing any more, and looks again.
    pub(crate) fn victim_stays(&mut self, id: AllocationId) {
        if let Some(preemptor) = self.books.nominations.of_victim(id) {
            if let Preemptor::Ask(who) = preemptor {
                self.unreserve(who, End::VictimStays);
            }
            self.end_nomination(preemptor, false);
        }
        // Nor does it leave for nobody.
        self.books.nominations.confirmed(id);
    }

    /// A victim that has still to leave holds another amount now.
    pub(crate) fn victim_resized(&mut self, id: AllocationId, node: NodeSlot, to: &Resources) {
        let nodes = BTreeSet::from([node]);
        self.change_kept(&nodes, |nominations| nominations.resized(id, to));
    }

    /// The nomination of a preemptor is over: whoever made room for it is looked at again, and whoever
    /// waits for nodes that are nominated, once half of them are not.
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
        // Where it was placed, what was nominated is used now: nobody in its queues has more room.
        concerned.extend((!is_placed).then_some(preemptor.application()));
        concerned.retain(|slot| self.directory.application(*slot).is_some());
        for slot in concerned {
            self.effects.revisit(slot, Op::NominationEnded);
        }
        let left = self.books.nominations.len();
        for slot in self.directory.wake_for_nominations(left) {
            self.effects.revisit(slot, Op::MayPreempt { at_ns: None });
        }
    }

    /// Shows the index the room that a preemptor keeps, while it is tried there; or hides it again. A
    /// preemptor without a nomination keeps none.
    pub(crate) fn lift_nomination(&mut self, preemptor: Preemptor, lifted: bool) {
        let Some(nomination) = self.books.nominations.of(preemptor) else { return };
        let nodes = nodes_of(nomination);
        self.change_kept(&nodes, |nominations| nominations.lift(preemptor, lifted));
    }

    /// Nominations that have waited for too long are over; it is looked again when the next one has.
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

    /// A reservation for which others were to leave was refused its node.
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

    /// All rooms of gangs end that have some on this node.
    pub(crate) fn end_rooms_on(&mut self, node: NodeSlot) {
        for gang in self.books.nominations.on_node(node).collect::<Vec<_>>() {
            self.end_nomination(gang, false);
        }
    }

    /// Nodes have changed on which gangs have rooms: where they have less than is kept, or take
    /// nothing more, the rooms end. Only when the step is done is it known what is left.
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

    /// Changes what gangs keep of these nodes, and what the index shows of them with it.
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
