//! Nodes that asks of this application have reserved: `docs/scheduling.md#reservations`.
//!
//! Rules decide which ask reserves which node, and what follows from a reservation
//! ([`monoceros_rules::decide::reservations`], [`monoceros_rules::decide::at_reserved`]); here it
//! is carried out. An ask that found no node reserves one in the same offer, if the rules allow it:
//! unless it requires the node, it has to be old enough, and either all nodes together
//! have capacity for it, or enough growths have passed it by. The RM is asked first, unless the ask
//! requires the node. If the RM answers later, the ask waits as if it could reserve none until the
//! answer arrives.
//!
//! # Invariants
//! * An ask is marked as reserved exactly while the books have a reservation of it. If something
//!   else ends that reservation (the node is removed, an ask requires it), this application is
//!   visited before anything else is decided.
//! * One deadline is armed for the next ask that will be old enough, however many there are
//!   ([`Aging`](monoceros_rules::pending::aging::Aging)).

use std::sync::Arc;

use monoceros_rules::audit::Decision;
use monoceros_rules::decide::at_reserved::{self, NextReserved};
use monoceros_rules::decide::attempt::Next;
use monoceros_rules::decide::reservations::{self, Claim, Claimed, Target};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::pending::reservations::{End, Holder, Reservation, Reserver};
use monoceros_rules::values::ids::{AskSlot, ClassId, NodeSlot};
use monoceros_rules::waiting::obstacle::Obstacle;
use monoceros_rules::waiting::{Phase, WaitSet};

use super::effects::VisitEffects;
use super::{Application, Blocked, events};
use crate::events::{Event, EventKind};
use crate::step::{Alarm, Baton, ClaimAnswer, DueOp, Op};

impl Application {
    pub(super) fn reserver(&self, ask: AskSlot) -> Reserver {
        Reserver { application: self.slot, ask }
    }

    /// Tries asks that have a node reserved, one after the other, until there is a node to ask.
    /// Returns the offer to the leaf if there is none.
    pub(super) fn place_reserved(&mut self, mut baton: Box<Baton>) {
        events::blocked(&mut self.blocked, Blocked::default(), &self.book, &mut baton);
        loop {
            let (patience, now_ns) = (baton.settings.patience, baton.now_ns);
            baton.tally.node_round_begins();
            let next =
                self.attempt(&baton, |attempt| at_reserved::next(attempt, &patience, now_ns));
            match next {
                NextReserved::Do(Next::Place(candidate)) => {
                    return self.place(baton, candidate, None);
                }
                NextReserved::Do(Next::Park(parking)) => {
                    self.park(&parking, &mut baton);
                    let who = self.reserver(parking.ask);
                    if matches!(parking.obstacle, Obstacle::Quota | Obstacle::Limits) {
                        baton.suspend_if_possible(who);
                    }
                    if parking.obstacle.is_want() {
                        baton.nomination_refused(Preemptor::Ask(who));
                    }
                    self.would_preempt(parking.ask, parking.obstacle, &mut baton);
                }
                NextReserved::Resume(slot) => {
                    if let Some(claimed) = self.resume(slot, &mut baton) {
                        return self.go_on_claimed(baton, claimed);
                    }
                }
                NextReserved::PassOver(class) => self.book.asks.pass_over_reserved(class),
                NextReserved::GiveUp(slot) => {
                    baton.tally.node_round_given_up();
                    let (who, key) = (self.reserver(slot), &self.book.asks.ask(slot).key);
                    if let Some(node) = baton.books.reservations.node_of(who) {
                        let node = baton.books.nodes.id(node);
                        baton.offer.silent = Some(Decision::give_up(&self.book.id, key, node));
                    }
                    baton.unreserve(who, End::TimedOut);
                    break;
                }
                NextReserved::Do(Next::Decline(at)) => {
                    baton.tally.node_round_given_up();
                    self.declined.note(Phase::Reserved, at);
                    break;
                }
                NextReserved::Do(Next::BackOff(_)) => {
                    baton.tally.node_round_given_up();
                    break;
                }
            }
        }
        self.rise(baton);
    }

    /// Has an ask that found no node reserve one, or wait with its class until it may.
    pub(super) fn claim(
        &mut self,
        class: ClassId,
        slot: AskSlot,
        waits: WaitSet,
        baton: &mut Baton,
    ) -> Claimed {
        let ask = self.book.asks.ask_mut(slot);
        baton.displace_for(ask);
        if baton.settings.patience.counts_growths(ask) {
            ask.count_passed_by(&baton.books.nodes);
        }
        let claim = self.may_claim(slot, baton);
        let Some(Target { node, replaces }) = claim.target() else {
            if let Claim::NotBefore(at_ns) = claim
                && self.aging.wait_until(at_ns)
            {
                baton.effects.remind_at(
                    at_ns,
                    baton.now_ns,
                    self.alarm(Op::Due(DueOp::OldEnough { at_ns })),
                );
            }
            let waits = claim.waits(self.book.asks.ask(slot), waits);
            self.book.asks.set_waits(class, waits);
            return Claimed::Nothing;
        };
        let spec = Arc::clone(&self.book.asks.ask(slot).spec);
        let id = Arc::clone(baton.books.nodes.id(node));
        if spec.required_node.is_none() {
            if baton.offer.asks_later {
                let of = (self.reserver(slot), self.decided_for());
                let question = baton.ask_to_reserve(of, &self.book.id, &spec, node);
                self.book.asks.ask_to_reserve(slot, question, waits);
                return Claimed::Asked;
            }
            if !baton.may_be_reserved((self.slot, &spec), &id) {
                self.park_unclaimed(slot, waits, baton);
                return Claimed::Nothing;
            }
        }
        let waits = match replaces {
            // The node may be the one that the other ask had reserved, and have room at once.
            Some(of) => {
                baton.unreserve(of, End::Replaced);
                WaitSet::Due
            }
            None => waits,
        };
        baton.offer.silent = Some(Decision::reserve(&self.book.id, &spec.key, &id));
        let progress = self.book.progress();
        baton.keep_reservation(self.decided_for(), &spec, node);
        self.reserve(slot, node, waits, baton);
        self.lane.start(&self.book.id, &mut baton.books.trackers);
        Claimed::Made { is_first_place: self.moved_on(progress, &baton.books.nodes) > 0 }
    }

    /// Whether the ask reserves a node now.
    fn may_claim(&self, slot: AskSlot, baton: &Baton) -> Claim {
        let ask = self.book.asks.ask(slot);
        let (leaf, lane) = (self.leaf_facts.slot.0, self.lane.limited());
        let holder = Holder::of(ask, &self.book.id, leaf, lane);
        let rank = holder.rank(&baton.books.queues, ask.priority);
        reservations::claim(ask, &rank, &baton.books, &baton.settings.patience, baton.now_ns)
    }

    /// Parks an ask that the RM does not let reserve its node: it waits apart from its class, and
    /// is tried again after a while.
    fn park_unclaimed(&mut self, slot: AskSlot, waits: WaitSet, baton: &mut Baton) {
        // An ask that rests is alone in its class already, and its deadline is armed.
        if !self.book.asks.ask(slot).is_resting() {
            self.single_out(slot, waits, baton);
        }
        self.book.asks.ask_mut(slot).forbid_to_reserve();
    }

    /// Makes the reservation of this node for an ask. `waits`: what the ask waits for on other nodes.
    pub(super) fn reserve(
        &mut self,
        slot: AskSlot,
        node: NodeSlot,
        waits: WaitSet,
        baton: &mut Baton,
    ) {
        let spec = Arc::clone(&self.book.asks.ask(slot).spec);
        let id = Arc::clone(baton.books.nodes.id(node));
        tracing::debug!(application = %self.book.id, ask = %spec.key, node = %id, "node reserved");
        let event = |at| Event::of(EventKind::NodeReserved, &id, at);
        baton.happens(|at| event(at).asked_for(&spec));
        let (ask, leaf) = (self.book.asks.ask(slot), self.leaf_facts.slot.0);
        let holder = Holder::of(ask, &self.book.id, leaf, self.lane.limited());
        let reservation = Reservation::new(node, spec, baton.now_ns).held_by(holder);
        let who = self.reserver(slot);
        if let Some(of) = baton.books.reservations.normal_on(node) {
            baton.unreserve(of, End::Suspended);
        }
        let books = &mut baton.books;
        books.reservations.make(&mut books.nodes, who, reservation);
        if books.reservations.watch() {
            let timeout = baton.settings.patience.past_timeout();
            baton.effects.remind(timeout, Alarm::ReservationsWaited);
        }
        self.book.asks.reserve(slot, node, waits);
    }

    /// Continues the offer after a reservation was made, or asked for.
    pub(super) fn go_on_claimed(&mut self, mut baton: Box<Baton>, claimed: Claimed) {
        baton.offer.decided += 1;
        // An ask with a reserved node comes before all others, even on other nodes.
        baton.offer.rise_to(0);
        let priority = self.book.asks.priority();
        let delta = LedgerDelta { starting: claimed.starting(), ..LedgerDelta::default() };
        self.go_on(baton, priority, &delta);
    }

    /// Ends the reservation of an ask, if it has one.
    pub(super) fn end_reservation(&mut self, slot: AskSlot, why: End, baton: &mut Baton) {
        if self.book.asks.ask(slot).is_reserved() {
            baton.end_reservation(self.reserver(slot), why);
            self.book.asks.unreserve(slot);
            // Asks with other reserved nodes come first now, and may use this one.
            baton.offer.rise_to(0);
        }
    }

    /// Ends the reservation of an ask that has changed, unless the reservation still fits.
    pub(super) fn review_reservation(&mut self, slot: AskSlot, baton: &mut Baton) {
        let (who, spec) = (self.reserver(slot), Arc::clone(&self.book.asks.ask(slot).spec));
        let books = &mut baton.books;
        if books.reservations.of(who).is_some() {
            // The reservation may give way to others now.
            books.note_change();
        }
        if !books.reservations.keep(&mut books.nodes, who, &spec) {
            self.end_reservation(slot, End::Changed, baton);
        }
    }

    /// Resumes the suspended reservation of an ask that could run again: its node is kept for that
    /// ask alone. If as much is reserved as may be, the reservation ends instead. `None` if the ask
    /// has none.
    fn resume(&mut self, slot: AskSlot, baton: &mut Baton) -> Option<Claimed> {
        let who = self.reserver(slot);
        let books = &mut baton.books;
        let node = books.reservations.of(who)?.node;
        let wanted = &self.book.asks.ask(slot).resources;
        if !books.nodes.may_set_aside(node, wanted, None) {
            baton.unreserve(who, End::Suspended);
            // The ask keeps its reservation until this application is visited, so the offer has to
            // rise.
            return Some(Claimed::Nothing);
        }
        let progress = self.book.progress();
        books.reservations.resume(&mut books.nodes, who);
        self.book.asks.resume(slot);
        self.lane.start(&self.book.id, &mut baton.books.trackers);
        Some(Claimed::Made { is_first_place: self.moved_on(progress, &baton.books.nodes) > 0 })
    }

    /// Handles a deadline of ages: asks that are old enough now are tried again.
    pub(super) fn old_enough(&mut self, at_ns: i64, baton: &mut Baton, effects: &mut VisitEffects) {
        let (delay, asks) = (baton.settings.patience.delay, &mut self.book.asks);
        let aged = self.aging.deadline_over(at_ns, baton.now_ns, delay, asks);
        effects.touched |= aged.any;
        if let Some(at_ns) = aged.next_ns {
            baton.effects.remind_at(
                at_ns,
                baton.now_ns,
                self.alarm(Op::Due(DueOp::OldEnough { at_ns })),
            );
        }
    }

    /// Handles the answer to the question whether an ask may reserve a node.
    pub(super) fn claimed(
        &mut self,
        number: u64,
        answer: ClaimAnswer,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(claim) = baton.books.unsettled.take_claim(number) else { return };
        let slot = claim.ask;
        self.book.asks.ask_mut(slot).refusals_mut().claim = None;
        let Some(class) = self.book.asks.class_of(slot) else { return };
        effects.touched = true;
        baton.count_claim_answer(number, answer);
        if answer == ClaimAnswer::Refused {
            let waits = self.book.asks.waits_of(class).clone();
            self.park_unclaimed(slot, waits, baton);
            return;
        }
        let node = baton.books.nodes.slot_of(&claim.node);
        let ask = self.book.asks.ask(slot);
        let target = node
            .filter(|_| answer == ClaimAnswer::Passed)
            .and_then(|node| self.may_claim(slot, baton).allowed(node, ask, &baton.books));
        let Some(Target { node, replaces }) = target else {
            return self.book.asks.set_waits(class, WaitSet::Due);
        };
        if let Some(of) = replaces {
            baton.unreserve(of, End::Replaced);
        }
        baton.keep_claim(&ask.spec, node, number);
        self.reserve(slot, node, WaitSet::Due, baton);
    }
}
