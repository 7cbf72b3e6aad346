//! Performs the tasks of a step: each sends the baton out once, or is done at home.
//!
//! A step is a list of tasks because the consequences of a task are known only when the baton is
//! back: an application that ended has to be removed from its leaf, and its leaf perhaps from the
//! tree.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::quotas::Held;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use super::input::Input;
use super::queue_lifecycle::removal_if_over;
use super::surveys::{Everything, LoosenedLanes, VictimSearch, VictimsOnNode};
use super::{AtHome, Partition, Task};
use crate::api::outcomes::Removed;
use crate::application::ApplicationMail;
use crate::metrics::ActorKind;
use crate::step::{
    Baton, GangOp, NodeChange, Notice, Op, PartitionClosed, PreemptionOp, PreemptionRequest,
    ReservationOp, RowSlot, Survey,
};

impl Task {
    pub(super) fn survey(survey: impl Survey) -> Self {
        Self::Survey(Box::new(survey))
    }
}

impl Partition {
    /// Sends the baton out for one task of the step, or does it here.
    pub(super) fn perform(&mut self, task: Task, mut baton: Box<Baton>) -> AtHome {
        if let Task::Visit(_, ops) = &task {
            self.plan_visit(ops, &mut baton);
        } else {
            (baton.gathered.goes_on, baton.gathered.reports_on) = (false, false);
        }
        match task {
            Task::Visit(slot, ops) => return Self::visit(slot, ops, baton),
            Task::VisitNode(slot, change) => return Self::visit_node(slot, change, baton),
            Task::TakeAnswers(answers) => {
                baton.take_answers(answers);
                return None;
            }
            Task::Survey(survey) => return self.survey(survey, baton),
            Task::Attach(slot) => return Self::attach(slot, baton),
            Task::Detach(slot, row) => return self.detach(slot, row, baton),
            Task::AddQueue(config) => return self.add_queue(config, baton),
            Task::RemoveQueue(slot) => return self.remove_queue(slot, baton),
            Task::Join(new, path) => self.join_at(*new, &path, &mut baton),
            Task::ForgetNode(slot) => Self::forget_node(slot, &mut baton),
            Task::EndOfAnswers => baton.books.unsettled.window.end_of_answers(),
            Task::Reloaded { since } => self.reloaded(since),
        }
        Some(baton)
    }

    fn visit(slot: ApplicationSlot, ops: Vec<Op>, baton: Box<Baton>) -> AtHome {
        let Some(entry) = baton.directory.application(slot) else {
            // The application was removed after this task was put on the agenda.
            return Some(baton);
        };
        let address = Arc::clone(&entry.address);
        address.hand(baton, ApplicationMail::Visit(ops));
        None
    }

    fn visit_node(slot: NodeSlot, change: NodeChange, baton: Box<Baton>) -> AtHome {
        let Some(address) = baton.directory.node(slot).cloned() else { return Some(baton) };
        address.do_send(crate::node::Visit { baton, change });
        None
    }

    fn attach(slot: ApplicationSlot, baton: Box<Baton>) -> AtHome {
        let entry = baton.directory.application(slot).expect("just entered");
        let address = Arc::clone(&entry.address);
        let leaf = Arc::clone(&baton.directory.queue(entry.leaf).address);
        leaf.do_send(crate::queue::Attach { baton, address });
        None
    }

    fn detach(&mut self, slot: ApplicationSlot, row: RowSlot, mut baton: Box<Baton>) -> AtHome {
        let entry = baton.directory.forget_application(slot);
        baton.books.quotas.change(entry.held, Held::default());
        baton.books.evictions.forget(slot);
        baton.end_nomination(Preemptor::Gang(slot), false);
        let id = Arc::clone(&entry.id);
        baton.effects.notify(Notice::ApplicationPlaced { id, queue: None });
        self.agenda.extend(removal_if_over(entry.leaf, &baton));
        self.may_be_empty(entry.leaf, &mut baton);
        entry.address.do_send(crate::Halt);
        let leaf = Arc::clone(&baton.directory.queue(entry.leaf).address);
        leaf.do_send(crate::queue::Detach { baton, row });
        None
    }

    /// Takes in a baton that comes home from a task, and continues the step.
    pub(super) fn take_home(
        &mut self,
        mut baton: Box<Baton>,
        ctx: &mut Context<Self>,
        take_in: impl FnOnce(&mut Self, &mut Baton),
    ) {
        let _timer = baton.tally.message(ActorKind::Partition);
        take_in(self, &mut baton);
        self.baton = Some(baton);
        self.turn(ctx);
    }

    /// Puts the follow-ups of the step on the agenda. Returns whether there are any.
    pub(super) fn agenda_from(&mut self, baton: &mut Baton) -> bool {
        for (slot, row) in std::mem::take(&mut baton.effects.ended.rows) {
            if let Some(row) = row {
                self.agenda.push_back(Task::Detach(slot, row));
            }
        }
        for (slot, key, why) in std::mem::take(&mut baton.effects.follow_ups.unreserved) {
            let replaced = why == End::Replaced;
            self.agenda.push_back(Task::Visit(
                slot,
                vec![Op::Reservation(ReservationOp::Unreserved { key, replaced })],
            ));
        }
        if let Some(bundle) = baton.books.unsettled.bundle
            && bundle.to_ask > 0
            && baton.books.unsettled.room() > 0
        {
            // More questions may be open: some were answered or withdrawn.
            baton.effects.revisit(bundle.application, Op::Gang(GangOp::AskMembers));
        }
        self.may_decide |= !baton.effects.follow_ups.revisits.is_empty();
        for (slot, ops) in
            std::mem::take(&mut baton.effects.follow_ups.unfinished).into_iter().rev()
        {
            self.inbox.push_first(Input::Unfinished(slot, ops));
        }
        // Searches for victims wait while an application is still releasing: its releases may be
        // enough.
        if baton.books.changes() != self.changes_at_search && !self.inbox.has_unfinished() {
            for slot in std::mem::take(&mut baton.directory.preempt_later) {
                baton
                    .effects
                    .revisit(slot, Op::Preemption(PreemptionOp::MayPreempt { at_ns: None }));
            }
        }
        if !self.inbox.has_unfinished() {
            self.changes_at_search = baton.books.changes();
        }
        if self.agenda.is_empty() && baton.effects.follow_ups.revisits.is_empty() {
            baton.check_rooms();
            self.may_decide |= !baton.effects.follow_ups.revisits.is_empty();
        }
        for (slot, op) in std::mem::take(&mut baton.effects.follow_ups.revisits) {
            self.agenda.push_back(Task::Visit(slot, vec![op]));
        }
        for (node, by_return) in baton.books.nodes.take_woken_by_name() {
            let id = Arc::clone(baton.books.nodes.id(node));
            if by_return {
                baton.wake_named_by_return(node, &id);
            } else {
                baton.wake_named(node, &id);
            }
        }
        for (slot, node) in std::mem::take(&mut baton.effects.follow_ups.woken) {
            self.agenda.push_back(Task::Visit(
                slot,
                vec![Op::Reservation(ReservationOp::WakeNamed(node))],
            ));
        }
        for (slot, node) in std::mem::take(&mut baton.effects.follow_ups.woken_by_return) {
            self.agenda.push_back(Task::Visit(
                slot,
                vec![Op::Reservation(ReservationOp::WakeNamedByReturn(node))],
            ));
        }
        self.inquiries.extend(baton.now_ns, baton.effects.preemptors.drain(..));
        let reopened = baton.books.trackers.take_reopened();
        if !reopened.is_empty() {
            let by_path = &baton.directory.queue_by_path;
            let leaves = reopened.into_iter();
            let slots = leaves.filter_map(|(leaf, lanes)| Some((*by_path.get(&leaf)?, lanes)));
            self.agenda.push_back(Task::survey(LoosenedLanes::at(slots.collect())));
        }
        // Searches for victims must not delay the input.
        if self.agenda.is_empty()
            && !self.inquiries.has_just_searched()
            && self.may_search()
            && let Some(preemptor) = self.inquiries.next()
        {
            self.agenda.push_back(match preemptor {
                PreemptionRequest::ForGuarantee { who, nodes_were_tried } => {
                    let timer = baton.tally.preemption_try();
                    Task::survey(VictimSearch::for_one(who, nodes_were_tried, timer))
                }
                PreemptionRequest::ForNode(who, node) => {
                    Task::survey(VictimsOnNode::for_ask(who, node))
                }
            });
        }
        !self.agenda.is_empty()
    }

    /// Whether the next search for victims may begin. Victims are searched only when every ask that
    /// can be placed without them has been placed.
    pub(super) fn may_search(&self) -> bool {
        let is_at_rest = !self.may_decide && !self.inbox.has_unfinished();
        is_at_rest && self.decides() && self.inquiries.has_next()
    }

    /// Gathers the facts of all actors, for the oracle.
    pub(super) fn foresee(&mut self) {
        self.agenda.push_back(Task::survey(Everything::for_oracle()));
    }

    /// Stops every actor of the partition.
    pub(super) fn dissolve(&mut self, mut baton: Box<Baton>, ctx: &mut Context<Self>) {
        baton.guard.armed = false;
        baton.tally.flush();
        baton.directory.halt_all();
        let directory = &baton.directory;
        let removed = Removed {
            allocations: baton.books.n_booked() as u64,
            nodes: baton.books.nodes.len() as u64,
            applications: directory.application_by_id.len() as u64,
        };
        let closed = PartitionClosed { partition: Arc::clone(&self.name), removed };
        // Run times are on the shelf when the session learns that the partition has closed.
        drop(baton);
        self.outlet.close(closed);
        ctx.stop();
    }
}
