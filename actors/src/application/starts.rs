//! Allocations that the RM could not start: their asks back off, and a declared gang of which no
//! member could be started does so as a whole. For people, `docs/scheduling.md#starts-that-fail`.
//!
//! # Invariants
//! * An ask, or a gang, that backs off has a deadline of its own; an older one changes nothing.
//! * While a gang is undecided none of its asks backs off by itself.

use std::sync::Arc;

use monoceros_rules::applications::native::Native;
use monoceros_rules::asks::failed_starts::FailedStart;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::{AskSlot, NodeSlot};

use super::Application;
use super::effects::VisitEffects;
use crate::events::{Event, EventKind, Message};
use crate::step::{Baton, Op, StartTime};

impl Application {
    /// Records that the RM could not start an allocation of the ask, which was made on this node at that
    /// time. The ask is pending again, and backs off.
    pub(super) fn start_failed(
        &mut self,
        slot: AskSlot,
        (node, made_ns): (NodeSlot, i64),
        reason: Option<&Arc<str>>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        baton.tally.start_failed();
        self.cancel_claim(slot, baton);
        self.end_reservation(slot, End::StartFailed, baton);
        if baton.settings.start_retry.has_started(made_ns, baton.now_ns) {
            // It ran, and whatever failed before it does not count.
            self.runs(slot, effects);
        }
        let node = Some(Arc::clone(baton.books.nodes.id(node)));
        let reason = reason.map_or("", |reason| &**reason);
        let failed = FailedStart::new(node, reason, baton.now_ns);
        let until_ns = self.book.asks.start_failed(slot, failed, &baton.settings.start_retry);
        effects.touched = true;
        self.pairs_changed();
        let Some(until_ns) = until_ns else { return };
        let ask = self.book.asks.ask(slot);
        self.arm_start_backoff(Some(&ask.key), until_ns, baton);
        if let Some(starts) = ask.starts() {
            let message = Message::NotStarted(Box::new(starts.summary()));
            let event = |at| Event::about_ask(&self.book, EventKind::NotStarted, ask, at);
            effects.happens(baton, |at| event(at).with_message(message));
        }
    }

    /// Looks at the gang after starts of its members failed. If no member ever ran, and none is left that
    /// may, the whole gang is undecided again and backs off.
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
        self.book.asks.leave_starts_to_gang();
        let failed = FailedStart::new(None, reason.map_or("", |reason| &**reason), baton.now_ns);
        let Some(native) = self.book.native_mut() else { return };
        native.has_real = false;
        let starts = native.starts.get_or_insert_default();
        let Some(until_ns) = starts.note(failed, &baton.settings.start_retry) else { return };
        let message = Message::GangNotStarted(Box::new(starts.summary()));
        self.arm_start_backoff(None, until_ns, baton);
        let event = |at| Event::about(&self.book, EventKind::GangNotStarted, at);
        effects.happens(baton, |at| event(at).with_message(message));
    }

    fn arm_start_backoff(&self, key: Option<&Arc<str>>, until_ns: i64, baton: &mut Baton) {
        let over = StartTime::Backoff { key: key.cloned(), until_ns };
        let alarm = self.alarm(Op::StartTimeOver(over));
        let delay = baton.effects.remind_at(until_ns, baton.now_ns, alarm);
        tracing::debug!(application = %self.book.id, ask = key.map(|key| &**key), ?delay,
            "could not be started, and waits");
    }

    /// Handles the end of a time that began with a failed start, or with the next try.
    pub(super) fn start_time_over(&mut self, over: StartTime, effects: &mut VisitEffects) {
        match over {
            StartTime::Backoff { key, until_ns } => {
                self.end_start_backoff(key.as_ref(), until_ns, effects);
            }
            StartTime::Holds { key, times } => self.start_held(&key, times, effects),
        }
    }

    /// Ends the back-off of the ask with this key, or of the gang, if it lasts until this time.
    fn end_start_backoff(
        &mut self,
        key: Option<&Arc<str>>,
        until_ns: i64,
        effects: &mut VisitEffects,
    ) {
        let Some(key) = key else {
            let starts = self.book.native_mut().and_then(|native| native.starts.as_mut());
            if starts.is_some_and(|starts| starts.end_backoff(until_ns)) {
                self.wake_bundle();
                effects.touched = true;
            }
            return;
        };
        let asks = &mut self.book.asks;
        let Some(slot) = asks.slot_of(key) else { return };
        if asks.end_start_backoff(slot, until_ns) {
            effects.touched = true;
            self.look_for_pairs_of(slot);
        }
    }

    /// Arms the deadline of a new allocation whose ask has failed starts: if no start fails until then,
    /// it has started.
    pub(super) fn watch_start(&self, slot: AskSlot, baton: &mut Baton) {
        let ask = self.book.asks.ask(slot);
        let Some(starts) = ask.starts() else { return };
        let over = StartTime::Holds { key: Arc::clone(&ask.key), times: starts.times() };
        let alarm = self.alarm(Op::StartTimeOver(over));
        baton.effects.remind(baton.settings.start_retry.longest, alarm);
    }

    /// Handles the deadline of an allocation of the ask with this key, made when so many starts had
    /// failed. If an allocation is there, and no start has failed since, it has started.
    fn start_held(&mut self, key: &str, times: u32, effects: &mut VisitEffects) {
        let asks = &self.book.asks;
        let Some(slot) = asks.slot_of(key) else { return };
        let ask = asks.ask(slot);
        let is_same = ask.starts().is_some_and(|starts| starts.times() == times);
        if is_same && !ask.live.is_empty() {
            self.runs(slot, effects);
        }
    }

    /// Records that a start of the ask has succeeded.
    pub(super) fn runs(&mut self, slot: AskSlot, effects: &mut VisitEffects) {
        if self.book.asks.started(slot) {
            effects.touched = true;
            self.look_for_pairs_of(slot);
        }
        let group = self.book.asks.ask(slot).spec.member_of().cloned();
        self.has_run(group.as_ref());
    }

    /// Records that a member of this task group runs, or ran.
    pub(super) fn has_run(&mut self, group: Option<&TaskGroup>) {
        if let (Some(group), Some(native)) = (group, self.book.native_mut())
            && native.has(group)
        {
            native.runs();
        }
    }

    /// Ends the back-off of the gang because a request of this task group is new, changed or withdrawn:
    /// the gang asks for something else than what could not be started.
    pub(super) fn gang_asks_otherwise(&mut self, group: Option<&TaskGroup>) {
        if let (Some(group), Some(native)) = (group, self.book.native_mut())
            && native.has(group)
        {
            native.starts = None;
        }
    }

    fn look_for_pairs_of(&mut self, slot: AskSlot) {
        if let Some(group) = self.book.asks.ask(slot).spec.member_of().cloned() {
            self.look_for_pairs(&group);
        }
    }
}
