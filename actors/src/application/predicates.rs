//! Placements whose predicate is answered later: from the question to the allocation, or to the
//! withdrawal.
//!
//! # The way of a placement
//! An offer picks a node as usual; the node holds the amount, books the question and sends it. The
//! placement is booked here as *unsettled*: the pending amount shrinks, and application and queues
//! count the placement as allocated, so that order and quota include it. It has no UUID, does not
//! change the state of its application, and cannot be named by a release. The answer enters through
//! the inbox, visits the node whose predicate passed, which confirms or refuses the placement, and
//! then visits the application:
//!
//! * confirmed: it becomes an allocation on that node;
//! * failed: refunded, and its ask is tried on the nodes that have not refused it ([`Try`]);
//! * presumed to fail, because the RM did not answer: the same, but without a scale-up signal;
//! * void, unanswered, or refused by the node although its predicate passed: refunded, and asked
//!   again.
//!
//! # Invariants
//! * Code that takes a question out of `books.unsettled` settles its placement or refunds it, in that
//!   same visit.
//! * A placement that became impossible (its ask withdrawn or changed, its node gone) is cancelled
//!   in that step. An answer to it finds nothing.
//! * The RM is notified of every question that was cancelled, and of every answer that counted on
//!   an assumption of its own and was not taken ([`Baton::question_cancelled`]).

use monoceros_rules::allocations::{Allocation, Pairing};
use monoceros_rules::asks::Try;
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::decide::predicates::{AfterRefusal, place_taken_by};
use monoceros_rules::pending::unsettled::OpenQuestion;
use monoceros_rules::values::epoch::{Epoch, Growth, Loosening};
use monoceros_rules::values::ids::{AllocationId, AskSlot, NodeSlot};

use super::Application;
use super::effects::VisitEffects;
use crate::api::predicates::Invalidation;
use crate::step::{Baton, NodeWork, Settlement, Takes};

/// The reason why a placement in flight is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenBack {
    /// Its answer has arrived.
    Answered,
    /// The RM assumed it, and it is not made: other answers may rest on it.
    Assumed,
    /// Its answer is not needed any more. If its node is gone, no amount is returned there.
    GivenUp {
        /// The node that is gone.
        gone: Option<NodeSlot>,
    },
}

impl TakenBack {
    fn answered(assumed: bool) -> Self {
        if assumed { Self::Assumed } else { Self::Answered }
    }
}

/// The placements of an ask that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GiveUp {
    /// Placements that wait for a predicate.
    Asked,
    /// These, and placements that wait for a placeholder to end.
    All,
}

/// Returns the placement that a question is about, for the log.
fn placement_of(number: u64, baton: &Baton) -> String {
    let question = baton.books.unsettled.get(number);
    question.map(|question| question.allocation.to_string()).unwrap_or_default()
}

impl Application {
    /// Carries out the outcome of an answer for its placement.
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
                let taken = self.take_back(number, TakenBack::answered(assumed), baton, effects);
                if let Some((slot, question)) = taken.filter(|_| !is_void && position > 0) {
                    let refused = &question.candidates[..position];
                    baton.books.nodes.count_refusals(refused.iter().map(|id| &**id));
                    self.trying(slot, question.growth, baton).passed_over(refused);
                }
            }
            Settlement::NodeGone { assumed } => {
                baton.tally.predicate_passed(true);
                baton.books.unsettled.window.answered(true);
                self.take_back(number, TakenBack::answered(assumed), baton, effects);
            }
            Settlement::Failed { reasons } => {
                baton.tally.predicate_failed();
                tracing::debug!(placement = %placement_of(number, baton), application = %self.book.id,
                    question = number, ?reasons, "refused by predicate");
                self.answered_by_refusal(number, Some((reasons, false)), baton, effects);
            }
            Settlement::Presumed { reasons } => {
                baton.tally.predicate_unanswered();
                tracing::debug!(placement = %placement_of(number, baton), application = %self.book.id,
                    question = number, ?reasons,
                    "taken as refused by predicate for want of an answer");
                self.answered_by_refusal(number, Some((reasons, true)), baton, effects);
            }
            Settlement::Unanswered => {
                baton.tally.predicate_unanswered();
                // An RM that is too slow to answer gets fewer questions at once.
                baton.books.unsettled.window.answered(true);
                self.take_back(number, TakenBack::Answered, baton, effects);
            }
            Settlement::Senseless { verdict } => {
                tracing::error!(application = %self.book.id, question = number, ?verdict,
                    "no answer that makes sense, taken as a refusal for now");
                baton.tally.predicate_unanswered();
                self.answered_by_refusal(number, None, baton, effects);
            }
        }
    }

    /// Makes a placement that a node has confirmed an allocation. Does nothing if its question was
    /// cancelled earlier in this visit.
    fn settle(
        &mut self,
        number: u64,
        moved_from: Option<NodeSlot>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(question) = baton.books.unsettled.take(number) else { return };
        let id = question.allocation;
        let Some(entry) = baton.books.allocations.get_mut(id) else {
            debug_assert!(false, "a question ends with its placement");
            return;
        };
        entry.answered();
        let taken = baton.books.nodes.id(entry.node);
        let position = question.candidates.iter().position(|id| id == taken);
        let refused = &question.candidates[..position.unwrap_or(0)];
        baton.books.nodes.count_refusals(refused.iter().map(|id| &**id));
        if let Some(before) = moved_from {
            effects.node_work.push((before, NodeWork::Return(id, entry.resources().clone())));
        }
        if let Pairing::Takes { placeholder, in_place } = entry.pairing {
            if baton.books.allocations.get(placeholder).is_some_and(Allocation::is_hold) {
                return self.settle_on_hold(id, placeholder, in_place, baton, effects);
            }
            // The placeholder is still there: its end would have cancelled the question.
            let hold = false;
            baton.assume(id);
            return self.give_way(id, Takes { placeholder, in_place, hold }, baton);
        }
        baton.assume(id);
        let Some(entry) = baton.books.allocations.known(id) else { return };
        let (resources, placeholder) = (entry.resources().clone(), entry.spec.placeholder);
        let member_of = entry.spec.member_of().cloned();
        let slot = self.book.asks.slot_of(entry.key());
        let slot = slot.expect("an ask stays while a placement of it waits");
        let uuid = self.book.next_uuid(slot);
        self.book.asks.settle_one(slot, id);
        // With its reservation an ask loses the class in which it waited; its outstanding instances
        // wait again.
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
        baton.tell_allocated(allocated);
    }

    /// Withdraws a placement that was refused. `said`: the reasons, and whether it is only presumed
    /// that all candidates refused; `None` if the answer makes no sense.
    fn answered_by_refusal(
        &mut self,
        number: u64,
        said: Option<(Vec<(String, u32)>, bool)>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let (place, has_verdict) = (place_taken_by(number, &baton.books), said.is_some());
        let taken = self.take_back(number, TakenBack::Answered, baton, effects);
        let Some((slot, question)) = taken else { return };
        if has_verdict {
            baton.tally.refused();
        }
        if said.as_ref().is_some_and(|(_, is_presumed)| !is_presumed) {
            baton.books.nodes.count_refusals(question.candidates.iter().map(|id| &**id));
        }
        let is_resting = self.book.asks.ask(slot).is_resting();
        let after = AfterRefusal::of(place, has_verdict, is_resting);
        if let AfterRefusal::OtherPlaces(in_place) = after {
            return self.pairs.answered(self.book.asks.ask(slot).order_key(), in_place);
        }
        let (reasons, is_presumed) = said.unwrap_or_default();
        self.book.asks.ask_mut(slot).note_reasons(reasons);
        if after == AfterRefusal::Rests {
            return self.park_refused(slot, asked_at(&question), baton);
        }
        let widest = baton.books.unsettled.widest;
        self.trying(slot, question.growth, baton).refused_by(&question.candidates, widest);
        self.book.asks.ask_mut(slot).unanswered |= is_presumed;
    }

    /// Returns the search of an ask that some nodes have refused. If there is none, a search begins
    /// with this growth of the node index.
    fn trying(&mut self, slot: AskSlot, growth: Growth, baton: &mut Baton) -> &mut Try {
        baton.directory.refused.insert(self.slot);
        let era = baton.books.unsettled.era();
        self.book.asks.ask_mut(slot).trying_since(era, growth)
    }

    /// Withdraws a placement in flight from its node and its queues: its ask is pending as before.
    /// Returns the ask and the question; `None` if the question is not open any more.
    pub(super) fn take_back(
        &mut self,
        number: u64,
        why: TakenBack,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) -> Option<(AskSlot, OpenQuestion)> {
        let question = baton.books.unsettled.take(number)?;
        let id = question.allocation;
        let entry = baton.books.allocations.remove(id);
        debug_assert!(entry.is_some(), "a question ends with its placement");
        let entry = entry?;
        let slot = self.book.asks.slot_of(entry.key());
        let ask = slot.expect("an ask stays while a placement of it waits");
        effects.pends(&self.book.asks.take_back(ask, id));
        if entry.takes().is_some() {
            self.book.waits_no_longer(id);
            self.part(&entry, baton);
        } else {
            self.book.refunded(id, entry.resources());
            effects.delta.allocated.subtract(entry.resources());
            effects.loosens = true;
        }
        self.pairs_changed();
        let mut gone_node = None;
        if why != TakenBack::Answered {
            baton.question_cancelled(number);
        }
        if let TakenBack::GivenUp { gone } = why {
            let books = &mut baton.books;
            books.unsettled.candidates_changed(&question, &books.nodes);
            gone_node = gone;
        }
        if let Some(held) = entry.held_on_node()
            && gone_node != Some(entry.node)
        {
            effects.node_work.push((entry.node, NodeWork::Return(id, held.clone())));
        }
        Some((ask, question))
    }

    /// Cancels those of these placements that are unsettled, and ends those that are holds. A
    /// member of a bundle in flight moves to another node.
    pub(super) fn give_up(
        &mut self,
        ids: &[AllocationId],
        which: GiveUp,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let mut lost_holds = false;
        for id in ids {
            let Some(entry) = baton.books.allocations.get(*id) else { continue };
            if which == GiveUp::All && entry.takes().is_some() {
                self.unpair(*id, None, baton, effects);
            } else if entry.is_in_bundle() {
                self.displace_member(*id, None, baton, effects);
            } else if entry.is_hold() {
                self.shed_hold(*id, baton, effects);
                lost_holds = true;
            } else if let Some(number) = entry.question {
                self.take_back(number, TakenBack::GivenUp { gone: None }, baton, effects);
            }
        }
        if lost_holds {
            self.holds_lost(baton, effects);
        }
    }

    /// Cancels placements of an ask that changes or ends. If it has members in flight, their bundle
    /// is withdrawn.
    pub(super) fn give_up_ask(
        &mut self,
        slot: AskSlot,
        which: GiveUp,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        baton.cancel_claim(self.book.asks.ask_mut(slot));
        let mut waiting = self.book.asks.ask(slot).search.unsettled.iter();
        let table = &baton.books.allocations;
        if waiting.any(|id| table.get(*id).is_some_and(Allocation::is_in_bundle)) {
            self.withdraw_bundle(WithdrawReason::Changed, None, baton, effects);
        }
        let unsettled = self.book.asks.ask(slot).search.unsettled.clone();
        self.give_up(&unsettled, which, baton, effects);
    }

    /// Forgets earlier refusals of predicates, which the RM has reported as possibly wrong.
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

/// Returns the epoch of a refusal: the growth of the node index when the question was asked, and no
/// loosening, since a refusal does not depend on quota.
fn asked_at(question: &OpenQuestion) -> Epoch {
    Epoch { loosening: Loosening::NONE, growth: question.growth }
}
