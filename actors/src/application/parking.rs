//! Asks that wait. An ask that an offer could not place is parked, with its obstacle; an ask that
//! the RM could not start backs off. A declared gang of which no member could be started backs off
//! as a whole.
//!
//! Rules decide what follows from an obstacle ([`Obstacle::follows`]) and how long an ask backs off
//! ([`FailedStarts`](monoceros_rules::asks::failed_starts::FailedStarts)). For people,
//! `docs/scheduling.md`.
//!
//! # Invariants
//! * An ask, or a gang, that backs off has a deadline of its own; an earlier deadline changes
//!   nothing.
//! * While a gang is undecided none of its asks backs off by itself.

use std::sync::Arc;

use monoceros_rules::applications::native::Native;
use monoceros_rules::asks::failed_starts::FailedStart;
use monoceros_rules::decide::attempt::Parking;
use monoceros_rules::decide::reservations::Claimed;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::values::epoch::Epoch;
use monoceros_rules::values::ids::{AskSlot, NodeSlot};
use monoceros_rules::waiting::WaitSet;
use monoceros_rules::waiting::obstacle::{Follows, Obstacle};

use super::effects::VisitEffects;
use super::{Application, events};
use crate::events::{Event, EventKind, Message};
use crate::step::{Baton, DueOp, Op, StartTime};

/// Asks that are not placed.
impl Application {
    /// Parks an ask and its class until a change that may have removed the obstacle. An ask that
    /// found no node may reserve one.
    pub(super) fn park(&mut self, parking: &Parking, baton: &mut Baton) -> Claimed {
        let Parking { class, ask: slot, obstacle } = *parking;
        if obstacle.is_before_nodes() {
            baton.tally.node_round_given_up();
        } else {
            baton.tally.node_round_over();
        }
        // Drops the notes of an earlier search, which are about another ask.
        let _ = baton.decisions.search();
        if tracing::enabled!(tracing::Level::DEBUG) {
            let path = baton.offer.rooms();
            let why = self.attempt(baton, |attempt| attempt.why(parking, path));
            let ask = self.book.asks.ask(slot);
            tracing::debug!(application = %self.book.id, ask = %ask.key, %why, "not placed");
        }
        let waits = self.attempt(baton, |attempt| attempt.waits(parking));
        events::parked(self.lane.limited(), &mut self.book, parking, baton);
        let follows = obstacle.follows();
        if follows != Follows::Nothing {
            let asks = &mut self.book.asks;
            match asks.widen((class, slot), baton.now_ns, &mut baton.books.nodes) {
                Some(true) => return Claimed::Nothing,
                Some(false) => self.arm_wish(slot, baton),
                None => {}
            }
        }
        let asks = &mut self.book.asks;
        match follows {
            Follows::Nothing => asks.set_waits(class, waits),
            Follows::BeginsAnew => {
                asks.ask_mut(slot).refresh();
                asks.set_waits(class, waits);
            }
            Follows::MayReserve => {
                let ask = asks.ask_mut(slot);
                if let Some(domain) = &ask.search.domain {
                    // Another search for the ask is likely.
                    baton.books.nodes.keep_domains(&domain.key);
                }
                ask.found_no_node();
                if let Some(node) = &ask.required_node {
                    baton.directory.named.enter(node, self.slot);
                }
                return self.claim(class, slot, waits, baton);
            }
            Follows::AwaitsReturn => {
                if let Some(waits) = asks.await_return(slot, waits) {
                    self.single_out(slot, waits, baton);
                }
            }
            Follows::Rests => {
                asks.ask_mut(slot).attempted = true;
                return self.park_refused_by_all(slot, baton);
            }
        }
        Claimed::Nothing
    }

    /// Sets an alarm for the next choice of an ask's constraint that may open.
    pub(super) fn arm_wish(&mut self, slot: AskSlot, baton: &mut Baton) {
        let Some(at_ns) = self.book.asks.arm_wish(slot) else { return };
        let key = Arc::clone(&self.book.asks.ask(slot).key);
        baton.effects.remind_at(at_ns, baton.now_ns, self.alarm(Op::Due(DueOp::ChoiceOpens(key))));
    }

    /// Handles the time at which a choice of the constraint of an ask may open.
    pub(super) fn choice_opens(
        &mut self,
        key: &Arc<str>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if self.book.undecided().is_some() {
            return self.choice_of_gang_opens(baton, effects);
        }
        match self.book.asks.choice_opens(key, baton.now_ns) {
            Some((_, true)) => effects.touched = true,
            Some((slot, false)) => self.arm_wish(slot, baton),
            None => {}
        }
    }

    /// Parks an ask that every node with room has refused now. It may reserve a node all the same.
    pub(super) fn park_refused_by_all(&mut self, slot: AskSlot, baton: &mut Baton) -> Claimed {
        let at = self.epoch(baton);
        self.park_refused(slot, at, baton);
        let Some(class) = self.book.asks.class_of(slot) else { return Claimed::Nothing };
        let (ask, queues) = (self.book.asks.ask(slot), &baton.books.queues);
        let waits = ask.waits_refused(at, self.leaf_facts.slot.0, queues);
        self.claim(class, slot, waits, baton)
    }

    /// Parks an ask that was refused up to this epoch, by every node with room or by the node that
    /// it requires. It waits apart from its class.
    pub(super) fn park_refused(&mut self, slot: AskSlot, at: Epoch, baton: &mut Baton) {
        events::tell_refusals(&mut self.book, slot, baton);
        let ask = self.book.asks.ask(slot);
        if let Some(node) = &ask.required_node {
            baton.directory.named.enter(node, self.slot);
        }
        let waits = ask.waits_refused(at, self.leaf_facts.slot.0, &baton.books.queues);
        self.single_out(slot, waits, baton);
        self.book.asks.ask_mut(slot).rest();
        self.book.asks.note_parked(slot, Obstacle::Refused, baton.now_ns);
    }

    /// Has a refused ask wait apart from its class, until it is tried again after a while at the
    /// latest.
    pub(super) fn single_out(&mut self, slot: AskSlot, waits: WaitSet, baton: &mut Baton) {
        self.book.asks.single_out(slot, waits);
        baton.directory.refused.insert(self.slot);
        self.arm_retry(slot, baton);
    }

    /// Has an ask that was just singled out tried again after a while.
    pub(super) fn arm_retry(&mut self, slot: AskSlot, baton: &mut Baton) {
        let ask = self.book.asks.ask_mut(slot);
        let key = Arc::clone(&ask.key);
        let (pause, retry) = ask.refusals_mut().retries.pause(baton.now_ns);
        baton.effects.remind(pause, self.alarm(Op::Due(DueOp::Retry { key, retry })));
    }
}

/// Starts that failed.
impl Application {
    /// Records that the RM could not start an allocation of the ask, which was made on this node at
    /// this time (ns since the epoch). The ask is pending again, and backs off.
    pub(super) fn start_failed(
        &mut self,
        slot: AskSlot,
        (node, made_ns): (NodeSlot, i64),
        reason: Option<&Arc<str>>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        baton.tally.start_failed();
        baton.cancel_claim(self.book.asks.ask_mut(slot));
        self.end_reservation(slot, End::StartFailed, baton);
        if baton.settings.start_retry.has_started(made_ns, baton.now_ns) {
            // The allocation ran, so failures before it do not count.
            self.runs(slot, effects);
        }
        let node = Some(Arc::clone(baton.books.nodes.id(node)));
        baton.books.nodes.count_refusals(node.as_deref());
        let reason = reason.map_or("", |reason| &**reason);
        let failed = FailedStart::new(node, reason, baton.now_ns);
        let until_ns = self.book.asks.start_failed(slot, failed, &baton.settings.start_retry);
        effects.touched = true;
        self.pairs_changed();
        self.back_off_start(Some(slot), until_ns, baton, effects);
    }

    /// Checks the gang after starts of its members failed. If no member ever ran, and none is left
    /// that may run, the whole gang is undecided again and backs off.
    pub(super) fn review_starts_of_gang(
        &mut self,
        reason: Option<&Arc<str>>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if !self.book.native().is_some_and(Native::could_not_be_started) {
            return;
        }
        self.undecide(baton, effects);
        let failed = FailedStart::new(None, reason.map_or("", |reason| &**reason), baton.now_ns);
        let until_ns = self.book.gang_start_failed(failed, &baton.settings.start_retry);
        self.back_off_start(None, until_ns, baton, effects);
    }

    /// Sets the alarm for the end of the back-off of the ask, or of the gang, if a back-off begins
    /// now, and makes the event of it.
    fn back_off_start(
        &self,
        of: Option<AskSlot>,
        until_ns: Option<i64>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(until_ns) = until_ns else { return };
        let ask = of.map(|slot| self.book.asks.ask(slot));
        let key = ask.map(|ask| Arc::clone(&ask.key));
        let over = StartTime::Backoff { key: key.clone(), until_ns };
        let alarm = self.alarm(Op::Due(DueOp::StartTimeOver(over)));
        let delay = baton.effects.remind_at(until_ns, baton.now_ns, alarm);
        tracing::debug!(application = %self.book.id, ask = key.as_deref(), ?delay,
            "could not be started, and waits");
        let starts = self.book.failed_starts(of).expect("a back-off begins with a failed start");
        let summary = Box::new(starts.summary());
        effects.happens(baton, |at| match ask {
            Some(ask) => Event::about_ask(&self.book, EventKind::NotStarted, ask, at)
                .with_message(Message::NotStarted(summary)),
            None => Event::about(&self.book, EventKind::GangNotStarted, at)
                .with_message(Message::GangNotStarted(summary)),
        });
    }

    /// Handles the deadline of a failed start: the end of a back-off, or the time at which the next
    /// allocation counts as started.
    pub(super) fn start_time_over(&mut self, over: StartTime, effects: &mut VisitEffects) {
        match over {
            StartTime::Backoff { key: Some(key), until_ns } => {
                let asks = &mut self.book.asks;
                if let Some(slot) = asks.slot_of(&key)
                    && asks.end_start_backoff(slot, until_ns)
                {
                    self.may_start(slot, effects);
                }
            }
            StartTime::Backoff { key: None, until_ns } => {
                if self.book.end_gang_backoff(until_ns) {
                    self.wake_bundle();
                    effects.touched = true;
                }
            }
            StartTime::Holds { key, times } => {
                if let Some(slot) = self.book.start_held(&key, times) {
                    self.runs(slot, effects);
                }
            }
        }
    }

    /// Records that a start of the ask has succeeded.
    pub(super) fn runs(&mut self, slot: AskSlot, effects: &mut VisitEffects) {
        if self.book.started(slot) {
            self.may_start(slot, effects);
        }
    }

    /// Has an ask tried again that could not be started.
    fn may_start(&mut self, slot: AskSlot, effects: &mut VisitEffects) {
        effects.touched = true;
        if let Some(group) = self.book.asks.ask(slot).spec.member_of().cloned() {
            self.search_pairs(&group);
        }
    }
}
