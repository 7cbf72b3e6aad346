//! Handling of an RM's requests in a partition: which tasks the step gets, which items must wait,
//! and which are refused.
//!
//! The [reorder buffer](super::reorder) decides whether an item waits. A waiting item is carried
//! out after the application or node that it names has joined. It is then treated like a new item,
//! so that there is one way for all items; only its remaining time to wait is shorter.

use std::sync::Arc;

use monoceros_rules::applications::ended::Ended;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::ids::ApplicationSlot;

use super::admission::count_rejected;
use super::input::{NewNode, RefusedItem, Request};
use super::reorder::{
    Item, ReleasedItems, Waiting, weight_of_change, weight_of_node, weight_of_op,
};
use super::{Partition, Task};
use crate::step::{Alarm, Baton, NodeChange, Notice, Op, Released, WaitsFor};

impl Partition {
    pub(super) fn request(&mut self, request: Request, baton: &mut Baton) {
        match request {
            Request::AddApplication(new) => self.add_application(*new, baton),
            Request::RemoveApplication(id) => {
                if let Some(slot) = baton.directory.application_slot(&id) {
                    self.agenda.push_back(Task::Visit(slot, vec![Op::Remove]));
                } else {
                    baton.effects.notify(Notice::Ignored(Ignored::RemovalOfUnknown));
                }
                self.application_gone(&id, baton);
            }
            Request::Application { id, ops } => self.application_request(&id, ops, None, baton),
            Request::CreateNode(new) => self.create_node(new, None, baton),
            Request::ChangeNode { id, change } => self.change_node(&id, *change, baton),
            Request::RemoveNode(id) => self.remove_node(&id, baton),
            Request::Foreign(foreign) => self.foreign(*foreign, baton),
            Request::ForeignGone(key) => self.foreign_gone(&key, baton),
            Request::Refused(item) => self.refused(*item, baton),
        }
    }

    /// Answers an item that the translation refused.
    fn refused(&mut self, item: RefusedItem, baton: &mut Baton) {
        match &item {
            RefusedItem::Application { id, queue, reason } => {
                // An impossible id is not remembered, nor is one of a partition that the RM does
                // not have.
                let is_of_none = matches!(
                    reason,
                    Rejection::ApplicationId(_) | Rejection::PartitionOfApplication { .. }
                );
                if !is_of_none {
                    let kept = Ended::rejected(id, queue, "", &[], reason, baton.now_ns);
                    self.keep_ended(kept, baton);
                }
                count_rejected(queue, baton);
                if baton.directory.application_slot(id).is_none() {
                    self.application_gone(id, baton);
                }
            }
            RefusedItem::Ask { .. } => baton.tally.ask_rejected(false),
            RefusedItem::Node { reason: Rejection::NodeAction { .. }, .. } => {}
            RefusedItem::Node { id, .. } => {
                if baton.books.nodes.slot_of(id).is_none() {
                    self.node_gone(id, baton);
                }
            }
        }
        baton.effects.notify(item.into());
    }

    /// Takes the orders to an application. An order that names an unknown application or node
    /// waits, if the reorder buffer takes it: until `until_ns`, or else for the whole window.
    fn application_request(
        &mut self,
        id: &Arc<str>,
        ops: Vec<Op>,
        until_ns: Option<i64>,
        baton: &mut Baton,
    ) {
        if let Some(slot) = self.report_slot(id, &ops, baton) {
            self.agenda.push_back(Task::Visit(slot, ops));
            return;
        }
        let mut ops = self.may_ask(id, ops, baton);
        let n_found = self.release_waiting(id, &mut ops, baton);
        let Some(slot) = baton.directory.application_slot(id) else {
            self.unknown_application(id, ops, n_found, until_ns, baton);
            return;
        };
        let mut here = ops;
        if here.iter().any(|op| unknown_node(op, baton).is_some()) {
            for op in std::mem::take(&mut here) {
                match unknown_node(&op, baton)
                    .filter(|node| self.reorder.may_wait(node, weight_of_op(&op)))
                {
                    // Also an order whose node is unknown and not expected: the application rejects
                    // it.
                    None => here.push(op),
                    Some(node) => {
                        let until_ns = until_ns.unwrap_or(self.reorder.until_ns(baton.now_ns));
                        self.wait(node, Item::Op(Arc::clone(id), op), until_ns, baton);
                    }
                }
            }
        }
        if !here.is_empty() {
            self.agenda.push_back(Task::Visit(slot, here));
        }
    }

    /// Returns the application that these orders can be taken to as they are: they are plain reports,
    /// no item waits, and the application and all nodes are known.
    pub(super) fn report_slot(
        &self,
        id: &Arc<str>,
        ops: &[Op],
        baton: &Baton,
    ) -> Option<ApplicationSlot> {
        let is_known = |op: &Op| op.is_plain_report() && unknown_node(op, baton).is_none();
        let may_come = self.reorder.is_empty() && self.state != ObjectState::Stopped;
        let slot = baton.directory.application_slot(id).filter(|_| may_come)?;
        ops.iter().all(is_known).then_some(slot)
    }

    /// Releases waiting items that these orders name, and returns how many orders found any. A
    /// waiting reported allocation ends like one in the books: the RM is notified, unless the
    /// release confirms what the scheduler asked for.
    fn release_waiting(&mut self, id: &Arc<str>, ops: &mut [Op], baton: &mut Baton) -> usize {
        if self.reorder.is_empty() {
            return 0;
        }
        let mut n_found = 0;
        for op in ops {
            let ReleasedItems { any, existing, freed } = self.reorder.release(id, op);
            n_found += usize::from(any);
            if let Op::Release { cause, had_waiting, .. } = op {
                *had_waiting = any;
                if cause.is_stop() {
                    let releases =
                        existing.iter().map(|it| Released::of_waiting(id, &it.spec, &it.uuid));
                    baton.effects.notices.extend(releases.map(|it| Notice::Released(Box::new(it))));
                }
            }
            self.do_again(freed, baton);
        }
        n_found
    }

    fn unknown_application(
        &mut self,
        id: &Arc<str>,
        ops: Vec<Op>,
        n_found: usize,
        until_ns: Option<i64>,
        baton: &mut Baton,
    ) {
        let (asks, others): (Vec<Op>, Vec<Op>) =
            ops.into_iter().partition(|op| op.spec().is_some());
        let n_unknown = others.len().saturating_sub(n_found);
        let ignored = (0..n_unknown).map(|_| Notice::Ignored(Ignored::ReleaseOfUnknown));
        baton.effects.notices.extend(ignored);
        let awaited = WaitsFor::Application(Arc::clone(id));
        if !self.reorder.may_wait(&awaited, asks.iter().map(weight_of_op).sum()) {
            reject(id, &asks, baton, |_| Rejection::ApplicationUnknown(Arc::clone(id)));
            return;
        }
        let until_ns = until_ns.unwrap_or(self.reorder.until_ns(baton.now_ns));
        for op in asks {
            self.wait(awaited.clone(), Item::Op(Arc::clone(id), op), until_ns, baton);
        }
    }

    /// Has a node wait that names an unknown application. Returns the node if it may not wait.
    pub(super) fn node_waits(
        &mut self,
        new: Box<NewNode>,
        application: &Arc<str>,
        until_ns: Option<i64>,
        baton: &mut Baton,
    ) -> Result<(), Box<NewNode>> {
        let awaited = WaitsFor::Application(Arc::clone(application));
        if !self.reorder.may_wait(&awaited, weight_of_node(&new)) {
            return Err(new);
        }
        let until_ns = until_ns.unwrap_or(self.reorder.until_ns(baton.now_ns));
        self.wait(awaited, Item::Node(new), until_ns, baton);
        Ok(())
    }

    /// Has the change of an absent node wait. Returns the change if the node does not wait itself,
    /// or if the buffer has no room for it.
    pub(super) fn change_waits(
        &mut self,
        id: &Arc<str>,
        change: NodeChange,
        baton: &mut Baton,
    ) -> Option<NodeChange> {
        let Some(awaited) = self.reorder.awaited_by_node(id) else { return Some(change) };
        if !self.reorder.has_room(weight_of_change(&change)) {
            self.waiting_node_leaves(id, baton);
            return Some(change);
        }
        let until_ns = self.reorder.until_ns(baton.now_ns);
        self.wait(awaited, Item::NodeChange(Arc::clone(id), change), until_ns, baton);
        None
    }

    /// Rejects a waiting node of this name, because its RM removes it. Returns whether there was
    /// one.
    pub(super) fn waiting_node_leaves(&mut self, id: &Arc<str>, baton: &mut Baton) -> bool {
        if self.reorder.awaited_by_node(id).is_none() {
            return false;
        }
        for waiting in self.reorder.take_node(id) {
            self.refuse(waiting, baton);
        }
        true
    }

    /// Carries out the items that waited for an application or node which has now joined.
    pub(super) fn do_what_waited(&mut self, awaited: &WaitsFor, baton: &mut Baton) {
        let waited = self.reorder.came(awaited);
        self.do_again(waited, baton);
    }

    /// Handles items that have waited as if they arrived now.
    fn do_again(&mut self, waited: Vec<Waiting>, baton: &mut Baton) {
        let mut ops: Option<(Arc<str>, i64, Vec<Op>)> = None;
        for Waiting { item, until_ns, .. } in waited {
            match item {
                Item::Op(id, op) => match &mut ops {
                    Some((of, _, ops)) if *of == id => ops.push(op),
                    _ => {
                        if let Some((id, until_ns, ops)) = ops.replace((id, until_ns, vec![op])) {
                            self.application_request(&id, ops, Some(until_ns), baton);
                        }
                    }
                },
                Item::Node(new) => self.create_node(new, Some(until_ns), baton),
                Item::NodeChange(id, change) => self.change_node(&id, change, baton),
            }
        }
        if let Some((id, until_ns, ops)) = ops {
            self.application_request(&id, ops, Some(until_ns), baton);
        }
    }

    /// Refuses the items that wait for an application that was rejected or removed, or has ended.
    pub(super) fn application_gone(&mut self, id: &Arc<str>, baton: &mut Baton) {
        self.is_gone(&WaitsFor::Application(Arc::clone(id)), baton);
    }

    /// Refuses the items that wait for a node that was rejected or removed.
    pub(super) fn node_gone(&mut self, id: &Arc<str>, baton: &mut Baton) {
        self.is_gone(&WaitsFor::Node(Arc::clone(id)), baton);
    }

    fn is_gone(&mut self, awaited: &WaitsFor, baton: &mut Baton) {
        for waiting in self.reorder.gone(awaited.clone()) {
            self.refuse(waiting, baton);
        }
    }

    /// Refuses all waiting items, because the partition closes.
    pub(super) fn refuse_waiting(&mut self, baton: &mut Baton) {
        for waiting in self.reorder.take_all() {
            self.refuse(waiting, baton);
        }
    }

    /// Refuses the items that have waited as long as they may.
    pub(super) fn expire_waiting(&mut self, baton: &mut Baton) {
        let (expired, next_ns) = self.reorder.expire(baton.now_ns);
        for waiting in expired {
            self.refuse(waiting, baton);
        }
        remind(next_ns, baton);
    }

    fn wait(&mut self, awaited: WaitsFor, item: Item, until_ns: i64, baton: &mut Baton) {
        let due_ns = self.reorder.put(awaited, item, until_ns);
        remind(due_ns, baton);
    }

    /// Refuses an item whose application or node did not arrive.
    fn refuse(&mut self, Waiting { awaited, item, .. }: Waiting, baton: &mut Baton) {
        match (item, &awaited) {
            (Item::Op(id, op), WaitsFor::Application(_)) => {
                reject(&id, &[op], baton, |_| Rejection::ApplicationUnknown(Arc::clone(&id)));
            }
            (Item::Op(id, op), WaitsFor::Node(node)) => {
                reject(&id, &[op], baton, |_| Rejection::NodeUnknown(Arc::clone(node)));
            }
            (Item::Node(new), WaitsFor::Application(id) | WaitsFor::Node(id)) => {
                baton.tally.shared().nodes.failed.inc();
                let (node, reason) = (new.id, Rejection::ApplicationUnknown(Arc::clone(id)));
                baton.effects.notify(Notice::NodeRejected {
                    id: Arc::clone(&node),
                    reason: Box::new(reason),
                });
                self.node_gone(&node, baton);
            }
            (Item::NodeChange(node, _), _) => self.node_unknown(&node, baton),
        }
    }
}

/// Returns the node that an op names, if the partition does not have it.
fn unknown_node(op: &Op, baton: &Baton) -> Option<WaitsFor> {
    match op {
        Op::Existing(existing) if baton.books.nodes.slot_of(&existing.node).is_none() => {
            Some(WaitsFor::Node(Arc::clone(&existing.node)))
        }
        _ => None,
    }
}

/// Arms a deadline for the next check of the reorder buffer.
fn remind(due_ns: Option<i64>, baton: &mut Baton) {
    if let Some(due_ns) = due_ns {
        baton.effects.remind_at(due_ns, baton.now_ns, Alarm::ReorderWindow);
    }
}

/// Rejects all asks and allocations in these orders to an application, for the reason given.
pub(super) fn reject(
    id: &Arc<str>,
    ops: &[Op],
    baton: &mut Baton,
    reason: impl Fn(&AskSpec) -> Rejection,
) {
    for notice in ops.iter().filter_map(|op| op.rejected(id, &reason)) {
        baton.tally.ask_rejected(false);
        baton.effects.notify(notice);
    }
}
