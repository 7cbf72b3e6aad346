//! Adding, changing and removing nodes: `docs/nodes.md#a-node-that-comes`,
//! `docs/nodes.md#another-capacity` and `docs/nodes.md#a-node-that-goes`.
//!
//! The capacity of the partition follows its nodes, and with it the headroom of every queue.
//! Therefore a removed node gives up its allocations first, and queues are refreshed once for many
//! nodes of one request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::nodes::attributes::READY;
use monoceros_rules::nodes::units::UnitWarning;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::quotas::Quota;
use monoceros_rules::specs::rejection::{Ignored, Overflow, Rejection};
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use monoceros_rules::values::resources::{Resources, Sum};
use monoceros_rules::values::texts::Texts;

use super::input::{NewNode, UnknownNodes};
use super::{NodeReported, Partition, Task};
use crate::events::{Event, EventKind, Message};
use crate::node::{Node, NodeReport};
use crate::step::{Baton, BatonAddress, NodeChange, Notice, Op, WaitsFor};

impl Partition {
    /// Adds a node with all its allocations, or not at all. The node may wait for an application
    /// that it names, until `until_ns` or else for the whole window.
    pub(super) fn create_node(
        &mut self,
        mut new: Box<NewNode>,
        until_ns: Option<i64>,
        baton: &mut Baton,
    ) {
        let checked = self.may_create(&new, baton);
        if let Err(Rejection::ApplicationUnknown(application)) = &checked {
            match self.node_waits(new, application, until_ns, baton) {
                Ok(()) => return,
                Err(refused) => new = refused,
            }
        }
        baton.happens(|at| Event::schedulable(&new.id, !new.draining, at));
        if let Err(reason) = checked {
            baton.happens(|at| added(&new.id, &new.total, at));
            baton.tally.shared().nodes.failed.inc();
            let (id, exists) = (new.id, matches!(reason, Rejection::NodeExists { .. }));
            baton
                .effects
                .notify(Notice::NodeRejected { id: Arc::clone(&id), reason: Box::new(reason) });
            if !exists {
                self.node_gone(&id, baton);
            }
            return;
        }
        let NewNode { id, attributes, total, occupied, existing, draining } = *new;
        let attributes = Arc::new(Texts::from(attributes));
        let total = total.pruned();
        // The event of the node comes first. Its slot is known only once the index has the node.
        baton.happens(|at| added(&id, &total, at));
        let available = total.minus(&occupied).pruned();
        let open = !draining && crate::node::is_ready(attributes.get(READY));
        let inserted = baton.books.nodes.insert(Arc::clone(&id), total, available, open);
        let slot = inserted.expect("checked that the id is free");
        baton.books.unsettled.changed(slot);
        baton.directory.note_instance_type(slot, &attributes);
        baton.note_node(slot, Node::counted(&attributes));
        let total = Arc::clone(baton.books.nodes.total(slot));
        let metrics = Arc::clone(baton.tally.shared());
        let mut node =
            Node::new(slot, Arc::clone(&id), attributes, total, occupied, draining, metrics);
        node.imaged = baton.imaging.of_new();
        baton.books.nodes.set_attributes(slot, &node.attributes);
        baton.books.nodes.note_drained(slot, node.draining && node.ready);
        baton.directory.nodes.insert_at(slot, BatonAddress::start(node));
        baton.wake_named(slot, &id);
        let warning = UnitWarning::about(baton.books.nodes.total(slot));
        if let Some(warning) = &warning {
            tracing::warn!(node = %id, %warning, "probable mistake in the units of a node");
        }
        baton.effects.notify(Notice::NodeAccepted { id: Arc::clone(&id), warning });
        let mut by_application: BTreeMap<ApplicationSlot, Vec<Op>> = BTreeMap::new();
        for (application, existing) in existing {
            let slot = baton.directory.application_slot(&application);
            let slot = slot.expect("it was looked for before the node came");
            by_application.entry(slot).or_default().push(Op::Existing(Box::new(existing)));
        }
        for (slot, ops) in by_application {
            self.agenda.push_back(Task::Visit(slot, ops));
        }
        self.do_what_waited(&WaitsFor::Node(id), baton);
        self.capacity_changed = true;
    }

    fn may_create(&self, new: &NewNode, baton: &Baton) -> Result<(), Rejection> {
        self.takes_new("node", &new.id)?;
        if baton.books.nodes.slot_of(&new.id).is_some() {
            let (id, partition) = (Arc::clone(&new.id), Arc::clone(&self.name));
            return Err(Rejection::NodeExists { id, partition });
        }
        let over = |over| Rejection::OverQuota { id: Arc::clone(&new.id), over };
        baton.quotas().takes(Quota::Nodes, 1).map_err(over)?;
        check_capacity(&new.id, baton.books.nodes.capacity(), &Resources::new(), &new.total)?;
        let mut reported = Resources::new();
        let mut named = BTreeSet::new();
        for (application, existing) in &new.existing {
            if !named.insert((application, &existing.uuid)) {
                let id = Arc::clone(&new.id);
                let why = format!("allocation `{}` is named twice", existing.uuid);
                return Err(Rejection::NodeInvalid { id, why });
            }
            let Some(slot) = baton.directory.application_slot(application) else {
                return Err(Rejection::ApplicationUnknown(Arc::clone(application)));
            };
            baton.directory.applications[slot].may_take(&existing.spec)?;
            let spec = &existing.spec;
            if let Some(why) = baton.books.overflows(&reported, &Sum::from(&*spec.resources)) {
                return Err(Rejection::Overflow { id: Arc::clone(&spec.key), why });
            }
            reported.add(&spec.resources);
        }
        Ok(())
    }

    pub(super) fn change_node(&mut self, id: &Arc<str>, change: NodeChange, baton: &mut Baton) {
        let Some(slot) = baton.books.nodes.slot_of(id) else {
            if self.change_waits(id, change, baton).is_some() {
                self.node_unknown(id, baton);
            }
            return;
        };
        if let NodeChange::Update { total: Some(total), .. } = &change {
            let (capacity, old) = (baton.books.nodes.capacity(), baton.books.nodes.total(slot));
            if let Err(reason) = check_capacity(id, capacity, old, total) {
                tracing::warn!(node = %id, %reason, "node update ignored");
                baton.effects.notify(Notice::Ignored(Ignored::NodeUpdate));
                return;
            }
        }
        if let NodeChange::Update { total: Some(total), .. } = &change {
            self.capacity_changed |= !total.same_amount(baton.books.nodes.total(slot));
        }
        self.agenda.push_back(Task::VisitNode(slot, change));
    }

    /// Answers a change of an unknown node: it is rejected or only counted, depending on the
    /// setting `nodes.reject_updates`.
    pub(super) fn node_unknown(&self, id: &Arc<str>, baton: &mut Baton) {
        if self.unknown_nodes == UnknownNodes::Rejected {
            let (id, reason) = (Arc::clone(id), Rejection::NodeUnknown(Arc::clone(id)));
            baton.effects.notify(Notice::NodeRejected { id, reason: Box::new(reason) });
        } else {
            tracing::warn!(node = %id, "change of an unknown node ignored");
            baton.effects.notify(Notice::Ignored(Ignored::NodeUnknown));
        }
    }

    /// Removes a node: its allocations first, then its capacity, so that headroom never dips.
    pub(super) fn remove_node(&mut self, id: &Arc<str>, baton: &mut Baton) {
        // A node of the same name may wait in the buffer, and would be added when its application
        // joins.
        let waited = self.waiting_node_leaves(id, baton);
        let Some(slot) = baton.books.nodes.slot_of(id) else {
            if !waited {
                self.node_unknown(id, baton);
            }
            return;
        };
        baton.books.nodes.set_open(slot, false);
        baton.happens(|at| Event::schedulable(id, false, at));
        let reservers: Vec<_> =
            baton.books.reservations.on_node(slot).map(|(who, _)| who).collect();
        for who in reservers {
            baton.unreserve(who, End::NodeRemoved);
        }
        baton.end_rooms_on(slot);
        self.foreign.forget_node(slot);
        self.node_gone(id, baton);
        self.agenda.push_back(Task::VisitNode(slot, NodeChange::Leave));
        self.agenda.push_back(Task::ForgetNode(slot));
        self.capacity_changed = true;
    }

    /// Groups the allocations of a removed node by application. The applications are visited before
    /// the node is removed from the directory.
    fn strand(&mut self, stranded: Vec<AllocationId>, baton: &Baton) {
        let mut by_application: BTreeMap<ApplicationSlot, Vec<AllocationId>> = BTreeMap::new();
        for id in stranded {
            if let Some(entry) = baton.books.allocations.get(id) {
                by_application.entry(entry.application).or_default().push(id);
            }
        }
        for (slot, ids) in by_application.into_iter().rev() {
            self.agenda.push_front(Task::Visit(slot, vec![Op::Stranded(ids)]));
        }
    }

    pub(super) fn forget_node(slot: NodeSlot, baton: &mut Baton) {
        // The releases of all applications are sent in one message, before the other effects of the
        // loss of the node.
        baton.effects.notices.sort_by_key(|notice| !matches!(notice, Notice::Released(_)));
        let id = Arc::clone(baton.books.nodes.id(slot));
        let removed = Message::Says("node removed from its partition");
        baton.happens(|at| Event::of(EventKind::NodeRemoved, &id, at).with_message(removed));
        baton.books.unsettled.changed(slot);
        baton.books.nodes.remove(slot);
        baton.tally.shared().nodes.decommissioned.inc();
        baton.directory.instance_types.take(slot);
        baton.forget_held_by_node(slot);
        if let Some(address) = baton.directory.nodes.take(slot) {
            address.do_send(crate::Halt);
        }
    }
}

impl Handler<NodeReported> for Partition {
    type Result = ();

    fn handle(&mut self, reported: NodeReported, ctx: &mut Self::Context) {
        let NodeReported { baton, report } = reported;
        self.take_home(baton, ctx, |partition, baton| match report {
            NodeReport::Changed { given_up } => partition.give_up(given_up, baton),
            NodeReport::Leaves { stranded } => partition.strand(stranded, baton),
        });
    }
}

/// Builds the event of a new node; also used if the node is rejected.
fn added(id: &Arc<str>, total: &Resources, at_ns: i64) -> Event {
    let text = Message::Says("node added to its partition");
    Event::of(EventKind::NodeAdded, id, at_ns).amount(total).with_message(text)
}

/// Checks that the capacity of all nodes together stays a quantity.
fn check_capacity(
    id: &Arc<str>,
    capacity: &Resources,
    old: &Resources,
    new: &Resources,
) -> Result<(), Rejection> {
    match Overflow::of_sum(&capacity.minus(old), &Sum::from(new), "that other nodes have") {
        None => Ok(()),
        Some(why) => Err(Rejection::Overflow { id: Arc::clone(id), why }),
    }
}
