//! Nodes that asks of this application have reserved: `docs/scheduling.md#reservations`.
//!
//! Which ask reserves which node, and what becomes of it, is decided by rules
//! ([`monoceros_rules::decide::reservations`], [`monoceros_rules::decide::at_reserved`]); here it is
//! carried out. An ask that found no node, and is old enough, reserves one within the offer that it
//! found none with; the RM is asked first whether it may, unless the ask requires the node. Where
//! the RM is asked by questions, the ask waits as if it could reserve none until the answer comes.
//!
//! # Invariants
//! * An ask is marked as reserved exactly while the books have a reservation of it. Where another
//!   ends it (the node leaves, an ask requires it), this application is visited before anything
//!   else is decided.
//! * One deadline is armed for the next ask that will be old enough, however many there are.

use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::audit::Decision;
use monoceros_rules::decide::at_reserved::{self, NextReserved};
use monoceros_rules::decide::attempt::Next;
use monoceros_rules::decide::reservations::{self, Claim};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::promises::Promisee;
use monoceros_rules::pending::reservations::{End, Holder, Reservation, Reserver};
use monoceros_rules::values::ids::{AskSlot, ClassId, NodeSlot};
use monoceros_rules::waiting::obstacle::Obstacle;
use monoceros_rules::waiting::{Phase, WaitSet};

use super::ops::VisitEffects;
use super::{Application, Blocked};
use crate::api::predicates::{PredicateQuestion, QuestionId};
use crate::events::{Event, EventKind};
use crate::step::{Alarm, Baton, ClaimAnswer, Notice, Op, Placement};

/// What was decided about a node to be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    /// None is reserved.
    Nothing,
    /// The RM is asked whether one may be.
    Asked,
    /// One is. With it the application has its place among those that run.
    Made { is_first_place: bool },
}

/// A decision that the RM does not hear of.
#[derive(Clone, Copy)]
enum Silent {
    Reserves,
    GivesUp,
}

impl Application {
    pub(super) fn reserver(&self, ask: AskSlot) -> Reserver {
        Reserver { application: self.slot, ask }
    }

    /// Tries asks that have a node reserved, one after the other, until there is a node to ask, or
    /// gives the offer back.
    pub(super) fn place_reserved(&mut self, mut baton: Box<Baton>) {
        self.set_blocked(Blocked::default(), &mut baton);
        loop {
            let (patience, now_ns) = (baton.settings.patience, baton.now_ns);
            baton.tally.node_round_begins();
            let next =
                self.attempt(&baton, |attempt| at_reserved::next(attempt, &patience, now_ns));
            match next {
                NextReserved::Do(Next::Place(candidate)) => return self.send(baton, candidate),
                NextReserved::Do(Next::Park(parking)) => {
                    self.park(&parking, &mut baton);
                    if matches!(parking.obstacle, Obstacle::Quota | Obstacle::Limits) {
                        self.suspend(parking.ask, &mut baton);
                    }
                    if parking.obstacle.is_want() {
                        baton.promise_refused(Promisee::Ask(self.reserver(parking.ask)));
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
                    if let Some(node) = self.reserved_node(slot, &baton) {
                        self.note_silent(slot, node, Silent::GivesUp, &mut baton);
                    }
                    baton.unreserve(self.reserver(slot), End::TimedOut);
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

    /// Whether the placement is at the node that its ask has reserved.
    pub(super) fn is_at_reserved(&self, placement: &Placement, baton: &Baton) -> bool {
        self.has_reserved_slot(placement.ask, placement.node, baton)
    }

    /// The reserved node of an ask has refused it: others are next, after the reserved nodes of
    /// other asks.
    pub(super) fn refused_at_reserved(&mut self, mut baton: Box<Baton>, placement: Placement) {
        let slot = placement.ask;
        baton.books.allocations.remove(placement.allocation);
        let ask = self.book.asks.ask_mut(slot);
        ask.attempted = true;
        ask.refuse_at_reserved();
        ask.refusals_mut().reasons = placement.refusals;
        baton.promise_refused(Promisee::Ask(self.reserver(slot)));
        if let Some(class) = self.book.asks.class_of(slot) {
            self.book.asks.try_beside_reserved(class);
        }
        self.go_on_undecided(baton);
    }

    /// An ask found no node: it reserves one, or waits as its class does until it may.
    pub(super) fn claim(
        &mut self,
        class: ClassId,
        slot: AskSlot,
        waits: WaitSet,
        baton: &mut Baton,
    ) -> Claimed {
        self.displace(slot, baton);
        if baton.settings.patience.delay.is_some()
            && self.book.asks.ask(slot).required_node.is_none()
        {
            self.book.asks.ask_mut(slot).count_passed_by(&baton.books.nodes);
        }
        let (node, instead) = match self.may_claim(slot, baton) {
            Claim::Node(node) => (node, None),
            Claim::Instead { node, of } => (node, Some(of)),
            Claim::NotBefore(at_ns) => {
                self.wait_for_age(at_ns, baton);
                self.book.asks.set_waits(class, waits);
                return Claimed::Nothing;
            }
            Claim::WhenThereIsOne => {
                self.book.asks.set_waits(class, waits.or_to_reserve());
                return Claimed::Nothing;
            }
            Claim::WhenPassedBy { times } => {
                let ask = self.book.asks.ask(slot);
                let waits = waits.or_when_passed_by(&ask.resources, times);
                self.book.asks.set_waits(class, waits);
                return Claimed::Nothing;
            }
            Claim::Never => {
                self.book.asks.set_waits(class, waits);
                return Claimed::Nothing;
            }
        };
        if self.book.asks.ask(slot).required_node.is_none() {
            if baton.offer.asks_later {
                self.ask_to_reserve(slot, node, waits, baton);
                return Claimed::Asked;
            }
            if !self.may_reserve(slot, node, baton) {
                self.park_unclaimed(slot, waits, baton);
                return Claimed::Nothing;
            }
        }
        let waits = match instead {
            // The node may be that of the other, and have room at once.
            Some(of) => {
                baton.unreserve(of, End::Replaced);
                WaitSet::Due
            }
            None => waits,
        };
        self.note_silent(slot, node, Silent::Reserves, baton);
        let progress = self.book.progress();
        let spec = &self.book.asks.ask(slot).spec;
        baton.keep_reservation(self.decided_for(), spec, node);
        self.reserve(slot, node, waits, baton);
        self.counts_as_running(baton);
        Claimed::Made { is_first_place: self.moved_on(progress, &baton.books.nodes) > 0 }
    }

    /// Whether the ask reserves a node now.
    fn may_claim(&self, slot: AskSlot, baton: &Baton) -> Claim {
        let ask = self.book.asks.ask(slot);
        let rank = self.holder(slot).rank(&baton.books.queues, ask.priority);
        reservations::claim(ask, &rank, &baton.books, &baton.settings.patience, baton.now_ns)
    }

    /// Who an ask that reserves a node is to others.
    fn holder(&self, slot: AskSlot) -> Holder {
        let ask = self.book.asks.ask(slot);
        Holder {
            application: Arc::clone(&self.book.id),
            leaf: self.leaf_facts.slot.0,
            lane: self.limited_lane(),
            created_ns: ask.created_ns,
            was_replaced: ask.search.was_replaced,
        }
    }

    /// Ends the reservation of the node that this ask requires, if an ask has it that may go
    /// elsewhere.
    pub(super) fn displace(&self, slot: AskSlot, baton: &mut Baton) {
        let displaced = reservations::displaced_by(self.book.asks.ask(slot), &baton.books);
        if let Some(who) = displaced {
            baton.unreserve(who, End::Displaced);
        }
    }

    /// Whether an RM in this process lets the ask reserve the node.
    fn may_reserve(&self, slot: AskSlot, node: NodeSlot, baton: &mut Baton) -> bool {
        let about = (self.slot, &*self.book.asks.ask(slot).spec);
        let id = Arc::clone(baton.books.nodes.id(node));
        baton.may_be_reserved(about, &id)
    }

    /// The node that an ask was to reserve refused that: it waits alone, and is tried again after a
    /// while.
    fn park_unclaimed(&mut self, slot: AskSlot, waits: WaitSet, baton: &mut Baton) {
        // An ask that rests is alone in its class already, and its deadline is armed.
        if !self.book.asks.ask(slot).is_resting() {
            self.book.asks.single_out(slot, waits);
            baton.directory.refused.insert(self.slot);
            self.arm_retry(slot, baton);
        }
        self.book.asks.ask_mut(slot).forbid_to_reserve();
    }

    /// An ask has this node reserved from now on, and waits for this beside it.
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
        let reservation = Reservation::new(node, spec, baton.now_ns).held_by(self.holder(slot));
        let who = self.reserver(slot);
        if let Some(of) = baton.books.reservations.normal_on(node) {
            baton.unreserve(of, End::Suspended);
        }
        let books = &mut baton.books;
        books.reservations.make(&mut books.nodes, who, reservation);
        if books.reservations.watch() {
            baton
                .effects
                .remind(after(baton.settings.patience.wait_timeout), Alarm::ReservationsWaited);
        }
        self.book.asks.reserve(slot, node, waits);
    }

    /// Goes on after a reservation was made in an offer, or asked for.
    pub(super) fn go_on_claimed(&mut self, mut baton: Box<Baton>, claimed: Claimed) {
        baton.offer.decided += 1;
        // What is reserved comes before anything else, other nodes included.
        baton.offer.rise_to(0);
        let starting = i64::from(claimed == Claimed::Made { is_first_place: true });
        let priority = self.book.asks.priority();
        self.go_on(baton, priority, &LedgerDelta { starting, ..LedgerDelta::default() });
    }

    /// Notes a decision that the RM does not hear of, for the full search of tests.
    fn note_silent(&self, slot: AskSlot, node: NodeSlot, what: Silent, baton: &mut Baton) {
        let node = Arc::clone(baton.books.nodes.id(node));
        let key = Arc::clone(&self.book.asks.ask(slot).key);
        let application = Arc::clone(&self.book.id);
        baton.offer.silent = Some(match what {
            Silent::Reserves => Decision::Reserve { application, key, node },
            Silent::GivesUp => Decision::GiveUp { application, key, node },
        });
    }

    /// The node that an ask has reserved.
    fn reserved_node(&self, slot: AskSlot, baton: &Baton) -> Option<NodeSlot> {
        Some(baton.books.reservations.of(self.reserver(slot))?.node)
    }

    /// Whether the ask has reserved this node.
    pub(super) fn has_reserved_slot(&self, slot: AskSlot, node: NodeSlot, baton: &Baton) -> bool {
        self.reserved_node(slot, baton) == Some(node)
    }

    /// Whether the ask has reserved the node with this id.
    pub(super) fn has_reserved(&self, slot: AskSlot, node: &str, baton: &Baton) -> bool {
        let reserved = self.reserved_node(slot, baton);
        reserved.is_some_and(|reserved| **baton.books.nodes.id(reserved) == *node)
    }

    /// Ends the reservation of an ask, if it has one.
    pub(super) fn end_reservation(&mut self, slot: AskSlot, why: End, baton: &mut Baton) {
        if self.book.asks.ask(slot).is_reserved() {
            baton.end_reservation(self.reserver(slot), why);
            self.book.asks.unreserve(slot);
            // What else is reserved comes first now, and may use the node.
            baton.offer.rise_to(0);
        }
    }

    /// Members of a task group that has placeholders, placed or asked for, take the places of those
    /// and are tried in no other way: they need no node of their own.
    pub(super) fn end_reservations_of_members(&mut self, baton: &mut Baton) {
        if self.book.gang.is_none() || self.book.asks.reserved_len() == 0 {
            return;
        }
        let members = self.book.asks.reserved_members();
        let waiting = members.filter(|(_, group)| self.book.waits_for_placeholders(group));
        let waiting: Vec<AskSlot> = waiting.map(|(slot, _)| slot).collect();
        for slot in waiting {
            self.end_reservation(slot, End::Placeholders, baton);
        }
    }

    /// An ask wants something else now: its reservation ends where it does not fit any more.
    pub(super) fn review_reservation(&mut self, slot: AskSlot, baton: &mut Baton) {
        let (who, spec) = (self.reserver(slot), Arc::clone(&self.book.asks.ask(slot).spec));
        let books = &mut baton.books;
        if books.reservations.of(who).is_some() {
            // It may give way to others now.
            books.note_change();
        }
        if !books.reservations.keep(&mut books.nodes, who, &spec) {
            self.end_reservation(slot, End::Changed, baton);
        }
    }

    /// The reservation of the ask with this key was ended by others.
    pub(super) fn unreserved(&mut self, key: &str, replaced: bool, effects: &mut VisitEffects) {
        if let Some(slot) = self.book.asks.slot_of(key) {
            effects.touched |= self.book.asks.unreserve(slot);
            if replaced {
                self.book.asks.ask_mut(slot).search.make().was_replaced = true;
            }
        }
    }

    /// An ask could not run even with the room on the node that it has reserved.
    fn suspend(&self, slot: AskSlot, baton: &mut Baton) {
        let who = self.reserver(slot);
        if baton.books.reservations.of(who).is_some_and(Reservation::may_be_suspended) {
            baton.suspend(who);
        }
    }

    /// The node that the ask with this key has reserved is for all: whether it could run again is found
    /// out by the next offer.
    pub(super) fn suspended(&mut self, key: &str, effects: &mut VisitEffects) {
        if let Some(slot) = self.book.asks.slot_of(key)
            && self.book.asks.suspend(slot)
        {
            effects.touched |= self.book.asks.wake_at_reserved(slot);
        }
    }

    /// An ask could run again on the node that it has reserved: that is for it alone from now on, unless
    /// as much is reserved by now as may be.
    fn resume(&mut self, slot: AskSlot, baton: &mut Baton) -> Option<Claimed> {
        let who = self.reserver(slot);
        let books = &mut baton.books;
        let node = books.reservations.of(who)?.node;
        let wanted = &self.book.asks.ask(slot).resources;
        if !books.nodes.may_set_aside(node, wanted, None) {
            baton.unreserve(who, End::Suspended);
            // Until this application is told it has the reservation, and could be asked for ever.
            return Some(Claimed::Nothing);
        }
        let progress = self.book.progress();
        books.reservations.resume(&mut books.nodes, who);
        self.book.asks.resume(slot);
        self.counts_as_running(baton);
        Some(Claimed::Made { is_first_place: self.moved_on(progress, &baton.books.nodes) > 0 })
    }

    /// The reservation of an ask may have waited too long for quota: that is found out by the next
    /// offer.
    pub(super) fn reservation_waited(&mut self, key: &str, effects: &mut VisitEffects) {
        if let Some(slot) = self.book.asks.slot_of(key) {
            effects.touched |= self.book.asks.wake_at_reserved(slot);
        }
    }

    /// A node changed, or got something back (`by_return`) that was held for a placement which was
    /// never settled: those asks look at it again that have it reserved. An ask that it refused with
    /// that room in hand does not.
    pub(super) fn wake_at_reserved(
        &mut self,
        node: &str,
        by_return: bool,
        baton: &Baton,
        effects: &mut VisitEffects,
    ) {
        let books = &baton.books;
        let Some(node) = books.nodes.slot_of(node) else { return };
        for (who, _) in books.reservations.on_node(node) {
            if who.application != self.slot {
                continue;
            }
            let ask = self.book.asks.ask_mut(who.ask);
            if !by_return {
                ask.refresh();
            } else if ask.is_resting() {
                continue;
            }
            effects.touched |= self.book.asks.wake_at_reserved(who.ask);
        }
    }
}

/// When asks that found no node become old enough to reserve one.
pub(super) struct Aging {
    /// When the one deadline is over that is armed, ns since the epoch.
    deadline_ns: Option<i64>,
    /// What was created up to then was old enough when it was looked at last, ns since the epoch.
    reached_ns: i64,
}

impl Default for Aging {
    fn default() -> Self {
        Self { deadline_ns: None, reached_ns: i64::MIN }
    }
}

impl Aging {
    /// When the one deadline is over that is armed, ns since the epoch.
    pub(super) fn deadline_ns(&self) -> Option<i64> {
        self.deadline_ns
    }
}

/// Asks that are too young.
impl Application {
    /// An ask will be old enough from then on: the one deadline is no later.
    fn wait_for_age(&mut self, at_ns: i64, baton: &mut Baton) {
        if self.aging.deadline_ns.is_some_and(|armed| armed <= at_ns) {
            return;
        }
        self.aging.deadline_ns = Some(at_ns);
        baton.effects.remind_at(at_ns, baton.now_ns, self.alarm(Op::OldEnough { at_ns }));
    }

    /// A deadline is over: asks that are old enough now are tried again.
    pub(super) fn old_enough(&mut self, at_ns: i64, baton: &mut Baton, effects: &mut VisitEffects) {
        let Some(delay) = baton.settings.patience.delay else { return };
        if self.aging.deadline_ns != Some(at_ns) {
            return;
        }
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let until_ns = baton.now_ns.saturating_sub(delay_ns).saturating_sub(1);
        let after_ns = std::mem::replace(&mut self.aging.reached_ns, until_ns);
        self.aging.deadline_ns = None;
        let (any, next) = self.book.asks.wake_old(after_ns, until_ns);
        effects.touched |= any;
        if let Some(created_ns) = next {
            self.wait_for_age(created_ns.saturating_add(delay_ns).saturating_add(1), baton);
        }
    }
}

/// Questions whether an ask may reserve a node, where they are answered later.
impl Application {
    fn ask_to_reserve(&mut self, slot: AskSlot, node: NodeSlot, waits: WaitSet, baton: &mut Baton) {
        let id = Arc::clone(baton.books.nodes.id(node));
        let number = baton.books.unsettled.ask_to_reserve(self.slot, slot, Arc::clone(&id));
        let spec = &self.book.asks.ask(slot).spec;
        baton.note_claim(self.decided_for(), spec, node, number);
        self.book.asks.set_apart(slot, waits);
        let ask = self.book.asks.ask_mut(slot);
        ask.refusals_mut().claim = Some(number);
        baton.tally.asked();
        tracing::debug!(application = %self.book.id, ask = %ask.key, question = number, node = %id,
            "asked whether the node may be reserved");
        baton.effects.notify(Notice::Asked(Box::new(PredicateQuestion {
            id: QuestionId(number),
            application: Arc::clone(&self.book.id),
            key: Arc::clone(&ask.key),
            group: None,
            nodes: vec![id],
            allocate: false,
            bundle: None,
            answers: baton.services.answers.clone(),
        })));
    }

    /// Takes back the question whether an ask may reserve a node, if one is open.
    pub(super) fn cancel_claim(&mut self, slot: AskSlot, baton: &mut Baton) {
        let ask = self.book.asks.ask_mut(slot);
        if ask.refusals().is_none_or(|refusals| refusals.claim.is_none()) {
            return;
        }
        if let Some(number) = ask.refusals_mut().claim.take() {
            baton.books.unsettled.take_claim(number);
            Self::tell_cancelled(number, baton);
        }
    }

    /// The question whether an ask may reserve a node was answered.
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
        let is_lost = answer == ClaimAnswer::None;
        match answer {
            ClaimAnswer::Cancelled => Self::tell_cancelled(number, baton),
            _ => baton.books.unsettled.window.answered(is_lost),
        }
        match answer {
            ClaimAnswer::Passed => baton.tally.predicate_passed(false),
            ClaimAnswer::Refused => baton.tally.predicate_failed(),
            ClaimAnswer::None => baton.tally.predicate_unanswered(),
            ClaimAnswer::Cancelled => {}
        }
        if answer == ClaimAnswer::Refused {
            let waits = self.book.asks.waits_of(class).clone();
            self.park_unclaimed(slot, waits, baton);
            return;
        }
        let (books, ask) = (&baton.books, self.book.asks.ask(slot));
        let node = books
            .nodes
            .slot_of(&claim.node)
            .filter(|node| answer == ClaimAnswer::Passed && books.nodes.is_open(*node));
        let is_free =
            |node: NodeSlot| books.reservations.may_reserve(&books.nodes, node, &ask.spec);
        let may_replace = |node: NodeSlot, of| {
            let theirs = books.reservations.of(of).map(|it| it.node);
            let is_theirs = theirs == Some(node) && books.nodes.total(node).holds(&ask.resources);
            (is_theirs || is_free(node)) && books.nodes.may_set_aside(node, &ask.resources, theirs)
        };
        // The node, and what others have reserved, may have changed since the RM was asked.
        match node.map(|node| (node, self.may_claim(slot, baton))) {
            Some((node, Claim::Node(_)))
                if is_free(node) && books.nodes.may_set_aside(node, &ask.resources, None) =>
            {
                baton.keep_claim(&ask.spec, node, number);
                self.reserve(slot, node, WaitSet::Due, baton);
            }
            Some((node, Claim::Instead { of, .. })) if may_replace(node, of) => {
                baton.unreserve(of, End::Replaced);
                baton.keep_claim(&ask.spec, node, number);
                self.reserve(slot, node, WaitSet::Due, baton);
            }
            _ => self.book.asks.set_waits(class, WaitSet::Due),
        }
    }
}

/// For how long to wait so that more than this has passed.
fn after(time: Duration) -> Duration {
    time.saturating_add(Duration::from_nanos(1))
}
