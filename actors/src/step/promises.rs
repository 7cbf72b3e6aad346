//! Promises to preemptors (`monoceros_rules::decide::preemption`), and what the node index shows of the
//! nodes on which they keep room.
//!
//! # Invariants
//! * After each step the index shows what a node has left without what gangs keep of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::pending::promises::{Promise, Promisee, Promises};
use monoceros_rules::pending::reservations::End;
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Baton;
use super::alarm::Alarm;
use super::op::Op;

/// The nodes on which a promise keeps room.
fn nodes_of(promise: &Promise) -> BTreeSet<NodeSlot> {
    promise.rooms.iter().map(|room| room.node).collect()
}

impl Baton {
    /// Something is promised to an asker from now on; it is over after a while at the latest.
    pub(crate) fn promise(&mut self, promisee: Promisee, promise: Promise) {
        let nodes = nodes_of(&promise);
        if self.books.promises.watch() {
            let timeout = self.settings.patience.wait_timeout;
            self.effects.remind(timeout, Alarm::PromisesWaited);
        }
        self.change_kept(&nodes, |promises| promises.make(promisee, promise));
    }

    /// A victim is gone. Whoever it left for has its room now.
    pub(crate) fn victim_left(&mut self, id: AllocationId, node: NodeSlot) {
        let Some(Promisee::Gang(application)) = self.books.promises.of_victim(id) else {
            self.books.promises.confirmed(id);
            return;
        };
        let nodes = BTreeSet::from([node]);
        let confirmed = self.change_kept(&nodes, |promises| promises.confirmed(id));
        if confirmed.is_some_and(|confirmed| confirmed.is_last) {
            self.effects.revisit(application, Op::RoomsAreFree);
        }
    }

    /// A victim stays: whoever it was to leave for is promised nothing any more, and looks again.
    pub(crate) fn victim_stays(&mut self, id: AllocationId) {
        if let Some(promisee) = self.books.promises.of_victim(id) {
            if let Promisee::Ask(who) = promisee {
                self.unreserve(who, End::VictimStays);
            }
            self.end_promise(promisee, false);
        }
        // Nor does it leave for nobody.
        self.books.promises.confirmed(id);
    }

    /// A victim that has still to leave holds another amount now.
    pub(crate) fn victim_resized(&mut self, id: AllocationId, node: NodeSlot, to: &Resources) {
        let nodes = BTreeSet::from([node]);
        self.change_kept(&nodes, |promises| promises.resized(id, to));
    }

    /// The promise of an asker is over: whoever made room for it is looked at again, and whoever
    /// waits for nodes that are promised, once half of them are not.
    pub(crate) fn end_promise(&mut self, promisee: Promisee, is_placed: bool) {
        let Some(promise) = self.books.promises.of(promisee) else { return };
        let nodes = nodes_of(promise);
        let Some(promise) = self.change_kept(&nodes, |promises| promises.end(promisee)) else {
            return;
        };
        for node in nodes {
            self.books.nodes.touch(node);
            let id = Arc::clone(self.books.nodes.id(node));
            self.wake_named(node, &id);
        }
        let mut concerned = promise.losers;
        // Where it was placed, what was promised is used now: nobody in its queues has more room.
        concerned.extend((!is_placed).then_some(promisee.application()));
        concerned.retain(|slot| self.directory.application(*slot).is_some());
        for slot in concerned {
            self.effects.revisit(slot, Op::PromiseOver);
        }
        let left = self.books.promises.len();
        for slot in self.directory.wake_for_promises(left) {
            self.effects.revisit(slot, Op::MayPreempt { at_ns: None });
        }
    }

    /// Shows the index the room that a preemptor keeps, while it is tried there; or hides it again. A
    /// preemptor without a promise keeps none.
    pub(crate) fn lift_promise(&mut self, promisee: Promisee, lifted: bool) {
        let Some(promise) = self.books.promises.of(promisee) else { return };
        let nodes = nodes_of(promise);
        self.change_kept(&nodes, |promises| promises.lift(promisee, lifted));
    }

    /// Promises that have waited for too long are over; it is looked again when the next one has.
    pub(crate) fn end_waited_promises(&mut self) {
        let timeout = self.settings.patience.wait_timeout;
        let (waited, next_ns) = self.books.promises.waited(self.now_ns, timeout);
        for promisee in waited {
            self.end_promise(promisee, false);
        }
        if let Some(next_ns) = next_ns {
            self.effects.remind_at(next_ns, self.now_ns, Alarm::PromisesWaited);
        }
    }

    /// A reservation for which others were to leave was refused its node.
    pub(crate) fn promise_refused(&mut self, promisee: Promisee) {
        let is_over =
            self.books.promises.of(promisee).is_some_and(|promise| promise.victims.is_empty());
        if is_over {
            self.end_promise(promisee, false);
        }
    }

    /// All rooms of gangs end that have some on this node.
    pub(crate) fn end_rooms_on(&mut self, node: NodeSlot) {
        for gang in self.books.promises.on_node(node).collect::<Vec<_>>() {
            self.end_promise(gang, false);
        }
    }

    /// Nodes have changed on which gangs have rooms: where they have less than is kept, or take
    /// nothing more, the rooms end. Only when the step is done is it known what is left.
    pub(crate) fn check_rooms(&mut self) {
        for node in std::mem::take(&mut self.effects.nominated_nodes) {
            let (nodes, promises) = (&self.books.nodes, &self.books.promises);
            if promises.on_node(node).next().is_none() {
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
        change: impl FnOnce(&mut Promises) -> T,
    ) -> T {
        let kept = |promises: &Promises, node| promises.kept(node).unwrap_or_default();
        let promises = &mut self.books.promises;
        let before: Vec<_> = nodes.iter().map(|node| kept(promises, *node)).collect();
        let changed = change(promises);
        for (node, before) in nodes.iter().zip(before) {
            let after = kept(promises, *node);
            if !before.same_amount(&after) {
                let left = self.books.nodes.available(*node).plus(&before).minus(&after);
                self.books.nodes.take_in(*node, &left.pruned());
            }
        }
        changed
    }
}
