//! Placements whose predicate is answered later: from the question to the allocation, or back.
//!
//! # The way of a placement
//! An offer picks a node as it always does; the node holds the amount, books the question and says
//! it. The placement is booked here as *unsettled*: what is pending shrinks, application and queues
//! count it as allocated, so that order and quota see it. It has no UUID, its application enters no
//! state, and no release can name it. The answer enters through the inbox, visits the node that
//! passes, which confirms it or refuses it, and comes here:
//!
//! * confirmed: it is an allocation, there;
//! * failed: refunded, and its ask goes on with the nodes that have not refused ([`Try`]);
//! * presumed to fail, because nobody answered: the same, but no request for more machines;
//! * void, unanswered, or refused by the node that passed: refunded, and asked again.
//!
//! # Invariants
//! * Whoever takes a question out of `books.unsettled` settles its placement or refunds it, in that
//!   same visit.
//! * A placement that became impossible (its ask withdrawn or changed, its node gone) is cancelled
//!   in the step that made it so. An answer to it finds nothing.
//! * The RM is told of every question that was cancelled, and of every answer that counted on an
//!   assumption of its own and was not taken ([`Baton::question_cancelled`]).

use monoceros_rules::allocations::{Allocation, Pairing};
use monoceros_rules::asks::Try;
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::pending::unsettled::OpenQuestion;
use monoceros_rules::values::epoch::{Epoch, Growth, Loosening};
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Application;
use super::effects::VisitEffects;
use crate::api::predicates::Invalidation;
use crate::step::{Baton, NodeWork, REASONS_MAX, Settlement, Takes};

/// A placement that was taken back, and what its node has still to let go of.
struct Refund {
    ask: AskSlot,
    question: OpenQuestion,
    /// None where it holds nothing there, in place of a placeholder.
    node_work: Option<(NodeSlot, NodeWork)>,
}

/// The placement that a question is about, for the log.
fn placement_of(number: u64, baton: &Baton) -> String {
    let question = baton.books.unsettled.get(number);
    question.map(|question| question.allocation.to_string()).unwrap_or_default()
}

impl Application {
    /// Carries out what an answer means for its placement.
    pub(super) fn take_answer(
        &mut self,
        number: u64,
        settlement: Settlement,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        match settlement {
            Settlement::Confirmed { moved_from, .. } => {
                self.settle(number, moved_from, baton, effects);
            }
            Settlement::NotTaken { position, assumed, is_void } => {
                self.not_taken(number, (position, assumed, is_void), baton, effects);
            }
            Settlement::NodeGone { assumed } => {
                baton.tally.predicate_passed(true);
                baton.books.unsettled.window.answered(true);
                self.not_taken(number, (0, assumed, true), baton, effects);
            }
            Settlement::Failed { reasons } => {
                baton.tally.predicate_failed();
                tracing::debug!(placement = %placement_of(number, baton), application = %self.book.id,
                    question = number, ?reasons, "refused by predicate");
                self.failed(number, reasons, baton, effects);
            }
            Settlement::Presumed { reasons } => {
                baton.tally.predicate_unanswered();
                tracing::debug!(placement = %placement_of(number, baton), application = %self.book.id,
                    question = number, ?reasons,
                    "taken as refused by predicate for want of an answer");
                if let Some(slot) = self.failed(number, reasons, baton, effects) {
                    self.book.asks.ask_mut(slot).unanswered = true;
                }
            }
            Settlement::Unanswered => {
                baton.tally.predicate_unanswered();
                // An RM that is too slow to answer gets fewer questions at once.
                baton.books.unsettled.window.answered(true);
                self.refund(number, baton, effects);
            }
            Settlement::Senseless { verdict } => {
                tracing::error!(application = %self.book.id, question = number, ?verdict,
                    "no answer that makes sense, taken as a refusal for now");
                baton.tally.predicate_unanswered();
                let place = Self::place_taken_by(number, baton);
                match (self.refund(number, baton, effects), place) {
                    (Some((slot, _)), Some((in_place, node))) => {
                        self.pairs.answered(
                            self.book.asks.ask(slot).order_key(),
                            in_place.then_some(node),
                        );
                    }
                    (Some((slot, question)), None) => {
                        self.park_refused(slot, asked_at(&question), baton);
                    }
                    (None, _) => {}
                }
            }
        }
    }

    /// A node has confirmed it: it is an allocation.
    fn settle(
        &mut self,
        number: u64,
        moved_from: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(question) = baton.books.unsettled.take(number) else { return };
        let id = question.allocation;
        let Some(entry) = baton.books.allocations.get_mut(id) else { return };
        entry.answered();
        if let Some(before) = moved_from {
            effects.node_work.push((before, NodeWork::Return(id, entry.resources().clone())));
        }
        if let Pairing::Takes { placeholder, in_place } = entry.pairing {
            if baton.books.allocations.get(placeholder).is_some_and(Allocation::is_hold) {
                return self.settle_on_hold(id, placeholder, in_place, baton, effects);
            }
            // Nobody had the placeholder end meanwhile: that would have cancelled the question.
            let hold = false;
            baton.assume(id);
            return self.give_way(id, Takes { placeholder, in_place, hold }, baton);
        }
        baton.assume(id);
        let Some(entry) = baton.books.allocations.get(id) else { return };
        let (resources, placeholder) = (entry.resources().clone(), entry.spec.placeholder);
        let member_of = entry.spec.member_of().cloned();
        let slot = self.book.asks.slot_of(entry.key());
        let slot = slot.expect("an ask stays while a placement of it waits");
        let uuid = self.book.next_uuid(slot);
        self.book.asks.settle_one(slot, id);
        // With its reservation an ask loses the class it waited in; what is outstanding waits anew.
        effects.touched |= self.book.asks.ask(slot).is_reserved();
        let allocated = self.bind(baton, slot, id, uuid);
        self.book.settled(id, (&resources, placeholder), baton.now_ns, &mut self.changes);
        if placeholder {
            self.placeholder_settled(id, baton);
            // A member may take its place now.
            effects.touched = true;
        }
        self.book.note_real(member_of.as_ref());
        effects.delta.running += self.tell_changes(baton);
        baton.effects.notices.append(&mut effects.discharged);
        Self::tell_allocated(baton, allocated);
    }

    /// One of the candidates passes, and the placement cannot be settled there: it is asked again.
    fn not_taken(
        &mut self,
        number: u64,
        (position, assumed, is_void): (usize, bool, bool),
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let refunded = if assumed {
            // The RM assumed this placement, which is not made, and its other answers may rest on
            // it.
            self.cancel(number, baton, effects)
        } else {
            self.refund(number, baton, effects)
        };
        if let Some((slot, question)) = refunded.filter(|_| !is_void && position > 0) {
            let refused = &question.candidates[..position];
            self.trying(slot, question.growth, baton).passed_over(refused);
        }
    }

    /// None of the candidates passes: its ask goes on with others. The ask, if it does.
    fn failed(
        &mut self,
        number: u64,
        reasons: Vec<(String, u32)>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<AskSlot> {
        let place = Self::place_taken_by(number, baton);
        let (slot, question) = self.refund(number, baton, effects)?;
        baton.tally.refused();
        if let Some((true, node)) = place {
            self.pairs.answered(self.book.asks.ask(slot).order_key(), Some(node));
            return None;
        }
        self.note_reasons(slot, reasons);
        if self.book.asks.ask(slot).is_resting() {
            // Another instance of the ask has been refused by all nodes meanwhile.
            self.park_refused(slot, asked_at(&question), baton);
            return None;
        }
        let widest = baton.books.unsettled.widest;
        self.trying(slot, question.growth, baton).refused_by(&question.candidates, widest);
        Some(slot)
    }

    /// Whether a placement that is to take the place of another is to stay on the other's node, and
    /// its own node.
    fn place_taken_by(number: u64, baton: &Baton) -> Option<(bool, NodeSlot)> {
        let question = baton.books.unsettled.get(number)?;
        let entry = baton.books.allocations.get(question.allocation)?;
        match entry.pairing {
            Pairing::Takes { in_place, .. } => Some((in_place, entry.node)),
            _ => None,
        }
    }

    /// Keeps what predicates said of an ask, for when no node will have it.
    pub(super) fn note_reasons(&mut self, slot: AskSlot, reasons: Vec<(String, u32)>) {
        let noted = &mut self.book.asks.ask_mut(slot).refusals_mut().reasons;
        for (reason, nodes) in reasons {
            if noted.len() < REASONS_MAX || noted.contains_key(&reason) {
                let count = noted.entry(reason).or_default();
                *count = count.saturating_add(nodes);
            }
        }
    }

    /// The ask's try; where there is none, one that began at this growth of the node index.
    fn trying(&mut self, slot: AskSlot, growth: Growth, baton: &mut Baton) -> &mut Try {
        baton.directory.refused.insert(self.slot);
        let era = baton.books.unsettled.era();
        self.book.asks.ask_mut(slot).trying_since(era, growth)
    }

    /// Takes a placement back from its node and its queues: its ask waits as before.
    fn refund(
        &mut self,
        number: u64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<(AskSlot, OpenQuestion)> {
        let Refund { ask, question, node_work } = self.take_back(number, baton, effects)?;
        effects.node_work.extend(node_work);
        Some((ask, question))
    }

    /// [`Self::refund`] for every holder but the node.
    fn take_back(
        &mut self,
        number: u64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<Refund> {
        let question = baton.books.unsettled.take(number)?;
        let id = question.allocation;
        let entry = baton.books.allocations.remove(id)?;
        let slot = self.book.asks.slot_of(entry.key());
        let ask = slot.expect("an ask stays while a placement of it waits");
        let resources: Resources = entry.resources().clone();
        let pending = self.book.asks.take_back(ask, id);
        effects.delta.pending.add_sum(&pending);
        effects.touched = true;
        let node_work = entry.held_on_node().map(|held| NodeWork::Return(id, held.clone()));
        let node_work = node_work.map(|work| (entry.node, work));
        if entry.takes().is_some() {
            self.book.waits_no_longer(id);
            self.part(&entry, baton);
        }
        self.pairs_changed();
        if entry.takes().is_some() {
            return Some(Refund { ask, question, node_work });
        }
        self.book.refunded(id, &resources);
        effects.delta.allocated.subtract(&resources);
        effects.loosens = true;
        Some(Refund { ask, question, node_work })
    }

    /// As [`Self::refund`], and its answer is not wanted any more.
    fn cancel(
        &mut self,
        number: u64,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<(AskSlot, OpenQuestion)> {
        let refunded = self.refund(number, baton, effects)?;
        baton.question_cancelled(number);
        Some(refunded)
    }

    /// The nodes that a cancelled question named: the RM may have assumed any of them, and answered
    /// others on top of it.
    fn note_changes_of(question: &OpenQuestion, baton: &mut Baton) {
        for candidate in &question.candidates {
            if let Some(node) = baton.books.nodes.slot_of(candidate) {
                baton.books.unsettled.changed(node);
            }
        }
    }

    /// Cancels these placements, as far as they are unsettled: their nodes do not take them any
    /// more. A member of a gang in flight moves to another node.
    pub(super) fn give_up(
        &mut self,
        ids: &[AllocationId],
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let mut lost_holds = false;
        for id in ids {
            let entry = baton.books.allocations.get(*id);
            if entry.is_some_and(Allocation::is_in_bundle) {
                self.displace_member(*id, None, baton, effects);
                continue;
            }
            if entry.is_some_and(Allocation::is_hold) {
                self.shed_hold(*id, baton, effects);
                lost_holds = true;
                continue;
            }
            let Some(number) = entry.and_then(|entry| entry.question) else { continue };
            self.give_up_question(number, None, baton, effects);
        }
        if lost_holds {
            self.holds_lost(baton, effects);
        }
    }

    /// Cancels a placement whose predicate is asked. What it held goes with its node, if that is the
    /// one that is `gone`. Says which ask it is of.
    pub(super) fn give_up_question(
        &mut self,
        number: u64,
        gone: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<AskSlot> {
        let Refund { ask, question, node_work } = self.take_back(number, baton, effects)?;
        baton.question_cancelled(number);
        Self::note_changes_of(&question, baton);
        effects.node_work.extend(node_work.filter(|(node, _)| Some(*node) != gone));
        Some(ask)
    }

    /// Cancels every placement of an ask that waits for its predicate, or for a placeholder to go.
    pub(super) fn give_up_ask(
        &mut self,
        slot: AskSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        self.cancel_claim(slot, baton);
        self.withdraw_with(slot, baton, effects);
        for id in self.book.asks.ask(slot).search.unsettled.clone() {
            if baton.books.allocations.get(id).is_some_and(|entry| entry.takes().is_some()) {
                self.unpair(id, None, baton, effects);
            } else {
                self.give_up(&[id], baton, effects);
            }
        }
    }

    /// Cancels every placement of an ask that waits for its predicate.
    pub(super) fn give_up_asked(
        &mut self,
        slot: AskSlot,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        self.cancel_claim(slot, baton);
        self.withdraw_with(slot, baton, effects);
        let unsettled = self.book.asks.ask(slot).search.unsettled.clone();
        self.give_up(&unsettled, baton, effects);
    }

    /// An ask changes or goes: if it has members in flight, the gang is another one, and its bundle is withdrawn.
    fn withdraw_with(&mut self, slot: AskSlot, baton: &mut Baton, effects: &mut VisitEffects) {
        let mut waiting = self.book.asks.ask(slot).search.unsettled.iter();
        let table = &baton.books.allocations;
        if waiting.any(|id| table.get(*id).is_some_and(Allocation::is_in_bundle)) {
            self.withdraw_bundle(WithdrawReason::Changed, None, baton, effects);
        }
    }

    /// The RM says that earlier answers of its predicates may be wrong by now.
    pub(super) fn invalidated(
        &mut self,
        invalidation: &Invalidation,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let keys = &invalidation.keys;
        let is_meant = |key: &str| invalidation.all || keys.iter().any(|meant| meant == key);
        effects.touched |= self.book.asks.wake_refused(|ask| is_meant(&ask.key));
        effects.touched |= self.pairs.invalidate();
        if let Some(bundle) = &mut self.bundle {
            effects.touched |= bundle.invalidate(self.book.undecided().is_some());
        }
        if self.book.asks.any_refused() {
            baton.directory.refused.insert(self.slot);
        }
    }
}

/// Where the node index stood when the question was asked; quota does not matter to a refusal.
fn asked_at(question: &OpenQuestion) -> Epoch {
    Epoch { loosening: Loosening::NONE, growth: question.growth }
}
