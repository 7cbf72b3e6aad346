//! Controls: settings that a session changes besides the requests of its RM. They set how
//! predicates are asked, which earlier answers may be wrong, and when decisions are on hold.
//!
//! Some controls arrive while a remote RM cannot be reached. Placements that wait for its answer
//! would then hold their capacity for nothing, so they are withdrawn at once.
//!
//! # Invariant
//! * No placement waits for an answer while predicates are not remote or the partition is on hold:
//!   placements that wait are withdrawn in the step that changes one or the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::pending::unsettled::Window;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};

use super::input::{Control, Input};
use super::{Partition, Task};
use crate::api::predicates::{Invalidation, Predicates, QuestionId};
use crate::mailbox::Receive;
use crate::step::{Baton, ClaimAnswer, GangOp, Op, ReservationOp};

/// A changed setting of a session. Sent by its [`ResourceManagerControl`], and by the session to
/// each of its partitions.
///
/// [`ResourceManagerControl`]: crate::ResourceManagerControl
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ApplyControl(pub(crate) Control);

impl Partition {
    /// Returns the number of placements that the next offer may decide; 0: there must be no offer.
    pub(super) fn budget(&self, baton: &Baton) -> u32 {
        let most = self.watch.decisions_per_trip;
        match self.controls.predicates {
            Predicates::Local => most,
            Predicates::Remote { .. } => {
                most.min(u32::try_from(baton.books.unsettled.room()).unwrap_or(u32::MAX))
            }
            Predicates::Hold => 0,
        }
    }

    pub(super) fn control(&mut self, control: Control, baton: &mut Baton) {
        let was_on_hold = self.controls.is_on_hold();
        match control {
            Control::Hold(hold) => self.controls.on_hold = hold,
            Control::Predicates(predicates) => self.set_predicates(predicates, baton),
            Control::Invalidate(invalidation) => self.invalidate(invalidation, baton),
            Control::ReorderWindow(window) => {
                self.reorder.set_window(window);
                return;
            }
            Control::ReorderItems(items) => {
                self.reorder.set_weight_max(items);
                return;
            }
            Control::Elsewhere(held) => {
                baton.books.quotas.elsewhere = held;
                return;
            }
            // The `Rm` carries this control out itself.
            Control::StrictEnums(_) => return,
        }
        if self.controls.is_on_hold() && !was_on_hold {
            self.controls.held_since_ns = baton.now_ns;
        }
        if self.controls.is_on_hold() || !self.controls.asks_later() {
            self.give_up_all(baton);
        }
        self.may_decide = true;
    }

    /// Cancels every placement that waits for its predicate, and every other open question.
    pub(super) fn give_up_all(&mut self, baton: &mut Baton) {
        self.give_up_inquiry(baton);
        // Withdrawn first, so that its members are not placed on other nodes.
        if let Some(bundle) = baton.books.unsettled.bundle {
            self.agenda
                .push_back(Task::Visit(bundle.application, vec![Op::Gang(GangOp::WithdrawBundle)]));
        }
        let all = baton.books.unsettled.iter().map(|(_, question)| question.allocation);
        self.give_up(all.collect(), baton);
        for (number, claim) in baton.books.unsettled.claims() {
            let (question, answer) = (QuestionId(number), ClaimAnswer::Cancelled);
            let op = Op::Reservation(ReservationOp::Claimed { question, answer });
            self.agenda.push_back(Task::Visit(claim.application, vec![op]));
        }
    }

    fn set_predicates(&mut self, predicates: Predicates, baton: &mut Baton) {
        let before = std::mem::replace(&mut self.controls.predicates, predicates);
        let unsettled = &mut baton.books.unsettled;
        if let Predicates::Remote { in_flight, .. } = predicates
            && unsettled.window.most() != in_flight.max(1)
        {
            unsettled.window = Window::new(in_flight);
        }
        if std::mem::discriminant(&before) != std::mem::discriminant(&predicates) {
            // Predicates are answered in another way from now on, so earlier answers may be wrong.
            unsettled.begin_era();
            self.invalidate(Invalidation { all: true, ..Invalidation::default() }, baton);
        }
    }

    /// Has asks tried again whose refusals may be out of date.
    fn invalidate(&mut self, invalidation: Invalidation, baton: &mut Baton) {
        for node in &invalidation.nodes {
            if let Some(slot) = baton.books.nodes.slot_of(node) {
                baton.books.nodes.touch(slot);
                let id = Arc::clone(baton.books.nodes.id(slot));
                baton.wake_named(slot, &id);
            }
        }
        if !invalidation.all && invalidation.keys.is_empty() {
            return;
        }
        let invalidation = Arc::new(invalidation);
        for slot in std::mem::take(&mut baton.directory.refused) {
            let op = Op::Invalidated(Arc::clone(&invalidation));
            self.agenda.push_back(Task::Visit(slot, vec![op]));
        }
    }

    /// Cancels placements that wait for their predicate.
    pub(super) fn give_up(&mut self, placements: Vec<AllocationId>, baton: &Baton) {
        let mut by_application: BTreeMap<ApplicationSlot, Vec<AllocationId>> = BTreeMap::new();
        for id in placements {
            if let Some(entry) = baton.books.allocations.get(id) {
                by_application.entry(entry.application).or_default().push(id);
            }
        }
        for (slot, ids) in by_application {
            self.agenda.push_back(Task::Visit(slot, vec![Op::GiveUp(ids)]));
        }
    }
}

impl Receive<ApplyControl> for Partition {
    fn receive(&mut self, ApplyControl(control): ApplyControl, ctx: &mut Context<Self>) {
        self.inbox.push_input(Input::Control(control));
        self.turn(ctx);
    }
}
