//! Changes of a node by its RM: its capacity, whether it is open, and its use by others.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::nodes::attributes;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::values::ids::AllocationId;
use monoceros_rules::values::resources::Resources;

use super::{Foreign, Node, NodeReport, is_ready};
use crate::events::{Event, EventKind, Message};
use crate::step::{Baton, ForeignReport, NodeChange};

impl Node {
    /// Makes a change. Returns the consequences for the allocations here.
    pub(super) fn change(&mut self, change: NodeChange, baton: &mut Baton) -> NodeReport {
        match change {
            NodeChange::Update { total, occupied, attributes } => {
                self.update(total, occupied, attributes, baton);
            }
            NodeChange::Drain(draining) => self.drain(draining, baton),
            NodeChange::Leave => {
                let mut stranded = std::mem::take(&mut self.holds);
                stranded.sort_unstable();
                return NodeReport::Leaves { stranded };
            }
            NodeChange::Foreign(report) => self.put_foreign(*report, baton),
            NodeChange::ForeignGone(key) => self.remove_foreign(&key, baton),
        }
        if baton.books.nodes.is_reserved(self.slot) {
            // Growth is noted only for a node that is open to all; victims may be found on this
            // node, too.
            baton.books.note_change();
        }
        NodeReport::Changed { given_up: self.given_up(baton) }
    }

    /// Applies capacity, use by others and attributes as reported.
    fn update(
        &mut self,
        total: Option<Resources>,
        occupied: Option<Resources>,
        attributes: BTreeMap<String, String>,
        baton: &mut Baton,
    ) {
        self.note_ready(&attributes, baton);
        let mut known = self.attributes.to_map();
        attributes::update(&mut known, attributes);
        self.attributes = Arc::new(known.into());
        baton.books.nodes.set_attributes(self.slot, &self.attributes);
        baton.directory.note_instance_type(self.slot, &self.attributes);
        baton.books.nodes.set_open(self.slot, self.is_open());
        baton.books.nodes.note_drained(self.slot, self.draining && self.ready);
        baton.effects.nominated_nodes.insert(self.slot);
        baton.books.nodes.touch(self.slot);
        let is_new = |new: &Resources| !new.same_amount(&self.others.occupied);
        if let Some(occupied) = occupied.filter(is_new) {
            self.others.make().occupied = occupied;
            let event = |at| Event::of(EventKind::NodeOccupied, &self.id, at);
            baton.happens(|at| event(at).amount(&self.others.occupied));
        }
        if let Some(total) = total {
            let changed = !total.same_amount(&self.total);
            self.total = Arc::new(total);
            if changed {
                let event = |at| Event::of(EventKind::NodeCapacity, &self.id, at);
                baton.happens(|at| event(at).amount(&self.total));
            }
        }
        self.recount(baton);
        let books = &baton.books;
        for who in books.reservations.too_large_for(&books.nodes, self.slot) {
            baton.unreserve(who, End::NodeTooSmall);
        }
        self.unreserve_if_closed(baton);
    }

    fn note_ready(&mut self, attributes: &BTreeMap<String, String>, baton: &mut Baton) {
        let was_ready = self.ready;
        self.set_ready(is_ready(attributes.get(attributes::READY).map(String::as_str)));
        if was_ready != self.ready {
            let text = if self.ready { "ready: true" } else { "ready: false" };
            let event = |at| Event::of(EventKind::NodeReady, &self.id, at);
            baton.happens(|at| event(at).with_message(Message::Says(text)));
        }
    }

    fn drain(&mut self, draining: bool, baton: &mut Baton) {
        if self.draining != draining {
            baton.happens(|at| Event::schedulable(&self.id, !draining, at));
        }
        self.set_draining(draining);
        baton.books.nodes.set_open(self.slot, self.is_open());
        baton.books.nodes.note_drained(self.slot, self.draining && self.ready);
        baton.effects.nominated_nodes.insert(self.slot);
        self.unreserve_if_closed(baton);
        if baton.books.nodes.is_reserved(self.slot) {
            baton.wake_named(self.slot, &self.id);
        }
    }

    fn put_foreign(&mut self, report: ForeignReport, baton: &mut Baton) {
        let ForeignReport { key, resources, tags, priority, preemptable, created_ns } = report;
        let before = self.others.foreign.get(&key).map(|before| before.since_ns);
        if before.is_none() {
            let event = |at| Event::of(EventKind::NodeAllocationAdded, &self.id, at);
            let pod = tags.as_ref().and_then(|tags| tags.pod());
            baton.happens(|at| event(at).referring(&key).of_pod(pod).amount(&resources));
        }
        let since_ns = created_ns.or(before).unwrap_or(baton.now_ns);
        let foreign = Foreign { resources, tags, priority, preemptable, since_ns };
        self.others.make().put(&key, foreign);
        self.recount(baton);
    }

    fn remove_foreign(&mut self, key: &Arc<str>, baton: &mut Baton) {
        let Some(gone) = self.others.find_mut().and_then(|others| others.remove(key)) else {
            return;
        };
        let event = |at| Event::of(EventKind::NodeAllocationRemoved, &self.id, at);
        let pod = gone.tags.as_ref().and_then(|tags| tags.pod());
        let event = |at| event(at).referring(key).of_pod(pod);
        baton.happens(|at| event(at).amount(&gone.resources));
        self.recount(baton);
    }

    /// Updates the available amount and the index after a change of the capacity or of use by
    /// others, and wakes the applications that wait for the node.
    fn recount(&mut self, baton: &mut Baton) {
        self.available = self.computed_available();
        let total = Arc::clone(&self.total);
        self.tell_index(baton, Some(&total));
        self.total = Arc::clone(baton.books.nodes.total(self.slot));
        baton.wake_named(self.slot, &self.id);
        if let Some((name, _)) = self.available.entries().find(|(_, quantity)| *quantity < 0) {
            tracing::info!(node = %self.id, resource = %name, "node is over-committed");
        }
    }

    /// Ends reservations by asks that may use other nodes, if the node is closed: such an ask
    /// should search there.
    fn unreserve_if_closed(&self, baton: &mut Baton) {
        if self.is_open() {
            return;
        }
        for who in baton.books.reservations.not_bound_to(self.slot) {
            baton.unreserve(who, End::NodeClosed);
        }
    }

    /// Returns the allocations that have to end without a question to the RM. Placements that wait
    /// for their predicate: if the node is closed, those that may use other nodes; if it has less
    /// than it holds, those that use a resource of which it has too little. Places held for
    /// members: as many as the node lacks capacity for.
    fn given_up(&self, baton: &Baton) -> Vec<AllocationId> {
        let is_short = self.available.has_negative();
        if self.is_open() && !is_short {
            return Vec::new();
        }
        let waits = baton.books.unsettled.placements() > 0;
        let mut given_up: Vec<AllocationId> = if waits { self.holds.clone() } else { Vec::new() };
        given_up.retain(|id| {
            let Some(entry) = baton.books.allocations.get(*id) else {
                debug_assert!(false, "what a node holds is in the table");
                return false;
            };
            let question = entry.question.and_then(|number| baton.books.unsettled.get(number));
            let required = match question {
                Some(question) => question.required,
                None if entry.is_in_bundle() => entry.spec.required_node.is_some(),
                None => return false,
            };
            (!self.is_open() && !required) || entry.resources().overdraws(&self.available)
        });
        given_up.sort_unstable();
        if is_short {
            let table = &baton.books.allocations;
            let gone = given_up.iter().filter_map(|id| table.get(*id));
            let left = gone.fold(self.available.clone(), |left, it| left.plus(it.resources()));
            given_up.extend(self.shed(left, baton));
        }
        given_up
    }

    /// Returns the held places that the node has to give up, the newest first, until the available
    /// amount is not negative.
    fn shed(&self, mut left: Resources, baton: &Baton) -> Vec<AllocationId> {
        let place = |id: &AllocationId| {
            let entry = baton.books.allocations.get(*id)?;
            (entry.is_hold() && !entry.is_in_bundle()).then_some((*id, entry))
        };
        let mut places: Vec<_> = self.holds.iter().filter_map(place).collect();
        places.sort_unstable_by(|(_, one), (_, other)| other.newness().cmp(&one.newness()));
        places.retain(|(_, entry)| {
            let goes = entry.resources().overdraws(&left);
            if goes {
                left.add(entry.resources());
            }
            goes
        });
        places.into_iter().map(|(id, _)| id).collect()
    }
}
