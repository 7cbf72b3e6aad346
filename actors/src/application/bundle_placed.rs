//! A bundle whose places are found: it is booked in this step, or in flight until the RM's
//! predicates have passed. For people, `docs/gangs.md#declared-gangs`.
//!
//! The members of a bundle in flight are charged, and the RM is asked about them; all members are
//! settled in one step, or withdrawn. Rules decide the consequences of answers and of changes of
//! nodes ([`monoceros_rules::decide::in_flight`]); the application carries them out.
//!
//! # Invariants
//! * Code that removes a member in flight from the table withdraws the whole bundle, or settles it.
//! * The RM is notified only of its own asks, not of holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::allocations::Pairing;
use monoceros_rules::applications::native::{Native, Stage};
use monoceros_rules::asks::{AskWish, Bundled};
use monoceros_rules::decide::bundle::Found;
use monoceros_rules::decide::gang::{GangObstacle, held_places, total};
use monoceros_rules::decide::in_flight::{
    BundleInFlight, MemberAnswer, MemberInFlight, NextStep, Outcome, VOID_MAX, WithdrawReason,
};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::effects::VisitEffects;
use super::{Application, events};
use crate::step::{Baton, GangOp, NewMembers, NodeWork, Notice, Op, Placement, Resume, Settlement};

/// Booked at once.
impl Application {
    /// Books all members of the gang at their places. The nodes are visited one after another, and
    /// then the offer continues from here.
    pub(super) fn book_bundle(&mut self, mut baton: Box<Baton>, bundled: &Bundled, found: &Found) {
        let priority = self.book.asks.priority();
        let progress = self.book.progress();
        let total = total(&self.book.asks, bundled);
        // The capacity that was kept for the gang is used now.
        baton.end_nomination(Preemptor::Gang(self.slot), true);
        self.book.choose_domains(found.chosen());
        baton.charge(&total);
        self.lane.charge(&self.book.id, &total, &mut baton.books.trackers);
        self.book.decided(baton.now_ns, &mut self.changes);
        let running = self.tell_changes(&mut baton);
        let (members, n_held) = self.book_members(bundled, found, &mut baton);
        self.decide_with_places(&n_held, &mut baton);
        if baton.offer.is_watched {
            let held = held_places(&self.book, bundled, found, &baton.books.nodes);
            let application = Arc::clone(&self.book.id);
            baton.effects.notify(Notice::GangPlaced { application, held });
        }
        let starting = self.moved_on(progress, &baton.books.nodes);
        let delta = LedgerDelta { running, starting, ..LedgerDelta::default() };
        baton.follow(members.then(self.slot, Resume { priority, delta }));
    }

    /// Books each member at its place. Returns the members by nodes, and the number of holds of
    /// each group.
    fn book_members(
        &mut self,
        bundled: &Bundled,
        found: &Found,
        baton: &mut Baton,
    ) -> (NewMembers, Vec<u64>) {
        let (mut members, mut n_held) = (NewMembers::default(), vec![0_u64; bundled.len()]);
        for place in found.places() {
            let (slot, _) = bundled[place.of.group][place.of.members];
            let ask = self.book.asks.ask(slot);
            let spec = Arc::clone(&ask.spec);
            let mut entry = baton.member_on(self.slot, ask, place.node);
            // An RM that answers at once has assumed the member when its predicate passed.
            entry.is_assumed = !baton.offer.asks_later;
            let id = baton.books.allocations.insert(entry);
            if baton.offer.asks_later {
                baton.assume(id);
            }
            if spec.placeholder {
                // The RM has no ask of this member: its place is held, and the RM is not notified.
                n_held[place.of.group] += 1;
                self.book.asks.take_one(slot);
                self.name_hold(place.of.group, id, baton);
                self.book.booked(&spec.resources, true, baton.now_ns, &mut self.changes);
            } else {
                self.book_member(slot, id, baton);
            }
            members.add(id, place.node, &spec.resources);
        }
        (members, n_held)
    }

    /// Books a member that has an ask of its own: it becomes an allocation, and the RM is notified.
    fn book_member(&mut self, slot: AskSlot, id: AllocationId, baton: &mut Baton) {
        let uuid = self.book.next_uuid(slot);
        baton.note_member(self.decided_for(), id, false);
        self.book.asks.take_one(slot);
        let ask = self.book.asks.ask_mut(slot);
        ask.live.push(id);
        let spec = Arc::clone(&ask.spec);
        self.book.booked(&spec.resources, false, baton.now_ns, &mut self.changes);
        let allocated = self.bind(baton, slot, id, uuid);
        baton.tell_allocated(allocated);
        self.book.note_real(spec.member_of());
    }
}

/// In flight.
impl Application {
    /// Charges a bundle whose places are found, and asks about its members.
    pub(super) fn launch_bundle(
        &mut self,
        mut baton: Box<Baton>,
        bundled: &Bundled,
        found: &Found,
        total: &Resources,
    ) {
        let priority = self.book.asks.priority();
        let progress = self.book.progress();
        self.book.choose_domains(found.chosen());
        baton.charge(total);
        self.lane.charge(&self.book.id, total, &mut baton.books.trackers);
        let (work, members) = self.enter_members(bundled, found, &mut baton);
        if let Some(native) = self.book.native_mut() {
            native.stage = Stage::InFlight;
        }
        let number = baton.books.unsettled.next_bundle();
        self.in_flight = Some(Box::new(BundleInFlight::new(number, members)));
        if let Some(bundle) = &mut self.bundle {
            bundle.in_flight();
        }
        self.ask_members(&mut baton);
        // The offer goes on with at most as many decisions as the window of questions has left.
        let room = u32::try_from(baton.books.unsettled.room()).unwrap_or(u32::MAX);
        baton.offer.budget = baton.offer.budget.min(baton.offer.decided.saturating_add(room));
        let starting = self.moved_on(progress, &baton.books.nodes);
        let delta = LedgerDelta { starting, ..LedgerDelta::default() };
        baton.follow(work.then(self.slot, Resume { priority, delta }));
    }

    /// Enters the placement of each member into the table. Returns the members, also by their nodes.
    fn enter_members(
        &mut self,
        bundled: &Bundled,
        found: &Found,
        baton: &mut Baton,
    ) -> (NewMembers, Vec<MemberInFlight>) {
        let mut work = NewMembers::default();
        let mut members = Vec::with_capacity(found.places().len());
        for place in found.places() {
            let (slot, _) = bundled[place.of.group][place.of.members];
            let ask = self.book.asks.ask(slot);
            let (spec, is_held) = (Arc::clone(&ask.spec), ask.spec.placeholder);
            let is_asked = !is_held || baton.offer.asks_about_holds;
            let mut entry = baton.member_on(self.slot, ask, place.node);
            entry.change().pairing = Pairing::InBundle;
            if let Some(course) = entry.course_mut() {
                course.is_asked_rm = is_asked;
            }
            let id = baton.books.allocations.insert(entry);
            self.book.asks.hold_one(slot, id);
            self.book.held(id, &spec.resources);
            if !is_held {
                baton.note_member(self.decided_for(), id, true);
            }
            work.add(id, place.node, &spec.resources);
            members.push(MemberInFlight::new((id, slot), place.of.group, is_held, is_asked));
        }
        (work, members)
    }

    /// Asks about as many members as the window of questions allows.
    pub(super) fn ask_members(&mut self, baton: &mut Baton) {
        let Some(flight) = &mut self.in_flight else { return };
        while baton.books.unsettled.room() > 0 {
            let Some(at) = flight.next_to_ask() else { break };
            let member = &flight.members()[at];
            let Some(entry) = baton.books.allocations.get(member.id) else {
                debug_assert!(false, "a member in flight is in the table");
                continue;
            };
            let placement = Placement {
                application: self.slot,
                ask: member.ask,
                spec: Arc::clone(&entry.spec),
                node: entry.node,
                alternatives: Vec::new(),
                allocation: member.id,
                open: self.book.asks.ask(member.ask).wish().map_or(usize::MAX, AskWish::open),
                takes: None,
                refusals: BTreeMap::new(),
            };
            let mates = flight.mates(&baton.books);
            flight.asked(at, baton.ask_later(&placement, Some(mates)));
        }
        baton.books.unsettled.bundle = Some(flight.note(self.slot));
    }

    /// Settles all members, since each has passed.
    fn settle_bundle(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(flight) = self.in_flight.take() else {
            return debug_assert!(false, "a bundle that is settled is in flight");
        };
        baton.end_nomination(Preemptor::Gang(self.slot), true);
        // Allocations and holds of the gang may be preempted from now on.
        baton.books.note_change();
        self.book.decided(baton.now_ns, &mut self.changes);
        effects.delta.running += self.tell_changes(baton);
        baton.effects.notices.append(&mut effects.discharged);
        let mut n_held = vec![0_u64; self.book.native().map_or(0, |native| native.groups().len())];
        for member in flight.into_members() {
            n_held[member.group] += u64::from(member.is_held);
            self.settle_member(&member, baton);
        }
        self.decide_with_places(&n_held, baton);
        let groups = self.book.native().into_iter().flat_map(Native::groups);
        let held = groups.zip(&n_held).filter(|(_, n_held)| **n_held > 0);
        let held: Vec<_> = held.map(|(group, _)| Arc::clone(&group.name)).collect();
        for group in &held {
            // Members whose asks have arrived since may take these places.
            self.search_pairs(group);
        }
        effects.touched = true;
        baton.end_flight();
    }

    /// Settles a member: it is an allocation from now on, or its place is held.
    fn settle_member(&mut self, member: &MemberInFlight, baton: &mut Baton) {
        let Some(entry) = baton.books.allocations.get_mut(member.id) else {
            debug_assert!(false, "a member in flight is in the table");
            return;
        };
        entry.change().pairing = Pairing::None;
        let (spec, node, now_ns) = (Arc::clone(&entry.spec), entry.node, baton.now_ns);
        let amount = (&*spec.resources, member.is_held);
        baton.assume(member.id);
        if member.is_held {
            self.name_hold(member.group, member.id, baton);
            self.book.settled(member.id, amount, now_ns, &mut self.changes);
        } else {
            let uuid = self.book.next_uuid(member.ask);
            self.book.asks.settle_one(member.ask, member.id);
            let allocated = self.bind(baton, member.ask, member.id, uuid);
            self.book.settled(member.id, amount, now_ns, &mut self.changes);
            baton.tell_allocated(allocated);
            self.book.note_real(spec.member_of());
        }
        if member.is_asked && !member.is_assumed() {
            baton.books.unsettled.changed(node);
        }
    }

    /// Withdraws the bundle, if one is in flight. A node that is `gone` gets nothing back.
    pub(super) fn withdraw_bundle(
        &mut self,
        why: WithdrawReason,
        gone: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(flight) = self.in_flight.take() else { return };
        tracing::debug!(application = %self.book.id, ?why, "gang taken back");
        let gang = Preemptor::Gang(self.slot);
        if why == WithdrawReason::Refused {
            baton.end_nomination(gang, false);
        } else {
            baton.lift_nomination(gang, false);
        }
        let (book, delta) = (&mut self.book, &mut effects.delta);
        let withdrawn = flight.withdraw(gone, book, &mut baton.books, delta);
        for question in withdrawn.cancelled {
            baton.question_cancelled(question);
        }
        let returned = withdrawn.returned.into_iter();
        let work = returned.map(|(node, id, amount)| (node, NodeWork::Return(id, amount)));
        effects.node_work.extend(work);
        (effects.loosens, effects.touched, effects.withdrawn) = (true, true, Some(why));
        baton.end_flight();
    }
}

/// Answers, and changes of nodes.
impl Application {
    /// Handles the answer to a question about the member of the bundle that has this ask.
    pub(super) fn take_bundle_answer(
        &mut self,
        (question, ask): (u64, AskSlot),
        settlement: Settlement,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let answer = match settlement {
            Settlement::Confirmed { scope, assumed, .. } => {
                MemberAnswer::Passes { scope, is_assumed: assumed }
            }
            Settlement::NotTaken { assumed, is_void: false, .. } => {
                MemberAnswer::NotTaken { is_assumed: assumed }
            }
            Settlement::NotTaken { assumed, is_void: true, .. }
            | Settlement::NodeGone { assumed } => MemberAnswer::Void { is_assumed: assumed },
            Settlement::Unanswered => {
                baton.tally.predicate_unanswered();
                baton.books.unsettled.window.answered(true);
                MemberAnswer::Unanswered
            }
            Settlement::Failed { reasons } => {
                baton.tally.predicate_failed();
                if let Some(asked) = baton.books.unsettled.get(question) {
                    baton.books.nodes.count_refusals(asked.candidates.iter().map(|id| &**id));
                }
                self.book.asks.ask_mut(ask).note_reasons(reasons);
                MemberAnswer::Refused { is_presumed: false }
            }
            Settlement::Presumed { reasons } => {
                baton.tally.predicate_unanswered();
                self.book.asks.ask_mut(ask).note_reasons(reasons);
                MemberAnswer::Refused { is_presumed: true }
            }
            Settlement::Senseless { verdict } => {
                tracing::error!(application = %self.book.id, question, ?verdict,
                    "no answer that makes sense, taken as a refusal for now");
                baton.tally.predicate_unanswered();
                return self.withdraw_bundle(WithdrawReason::Unanswered, None, baton, effects);
            }
        };
        let Some(flight) = &mut self.in_flight else { return };
        let (asks, now_ns) = (&self.book.asks, baton.now_ns);
        let outcome = flight.take(question, answer, asks, &mut baton.books, now_ns);
        self.follow_outcome(outcome, baton, effects);
    }

    /// Continues once all answers of a visit are handled: asks about more members, or settles all.
    pub(super) fn go_on_with_bundle(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(flight) = &self.in_flight else { return };
        if !flight.has_passed() {
            return self.ask_members(baton);
        }
        for at in 0..flight.members().len() {
            let Some(flight) = &mut self.in_flight else { return };
            let (asks, now_ns) = (&self.book.asks, baton.now_ns);
            let outcome = flight.check(at, asks, &mut baton.books, now_ns);
            self.follow_outcome(outcome, baton, effects);
        }
        if self.in_flight.as_ref().is_some_and(|flight| flight.is_settled()) {
            self.settle_bundle(baton, effects);
        } else {
            self.ask_members(baton);
        }
    }

    /// Moves a member whose node is closed, has less than it holds, or is `gone`.
    pub(super) fn displace_member(
        &mut self,
        id: AllocationId,
        gone: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(flight) = &mut self.in_flight else { return };
        let outcome = flight.displace(id, gone, &self.book.asks, &mut baton.books);
        self.follow_outcome(outcome, baton, effects);
    }

    /// Withdraws the bundle in flight if its first void answer came at this time.
    pub(super) fn void_bundle(
        &mut self,
        since_ns: i64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.in_flight.as_ref().is_some_and(|flight| flight.is_void_since(since_ns)) {
            self.withdraw_bundle(WithdrawReason::Unanswered, None, baton, effects);
        }
    }

    /// Carries out the outcome of an answer about a member, or of a change of its node.
    fn follow_outcome(&mut self, outcome: Outcome, baton: &mut Baton, effects: &mut VisitEffects) {
        for question in outcome.cancelled {
            baton.question_cancelled(question);
        }
        if outcome.is_refusal {
            baton.tally.refused();
        }
        if outcome.is_first_void {
            let alarm = self.alarm(Op::Gang(GangOp::BundleVoid { since_ns: baton.now_ns }));
            baton.effects.remind(VOID_MAX, alarm);
        }
        match outcome.next {
            NextStep::Wait => {}
            NextStep::Move(moved) => {
                let (id, amount) = (moved.id, moved.resources);
                if let Some(from) = moved.from {
                    effects.node_work.push((from, NodeWork::Return(id, amount.clone())));
                }
                effects.node_work.push((moved.to, NodeWork::HoldAll(vec![id], amount)));
            }
            NextStep::Withdraw(withdrawal) => {
                if let Some(ask) = withdrawal.refused {
                    events::tell_refusals(&mut self.book, ask, baton);
                    let obstacle = GangObstacle::refused(ask, &self.book.asks);
                    if let Some(bundle) = &mut self.bundle {
                        bundle.note(obstacle, baton.now_ns);
                    }
                }
                self.withdraw_bundle(withdrawal.why, withdrawal.gone, baton, effects);
            }
        }
    }
}
