//! What happens to an application and its asks, as events: `docs/events.md#requests` and
//! `docs/events.md#applications`.
//!
//! Most of these events tell of a change, such as "it does not fit, after it did". So an ask
//! remembers what was told of it last; otherwise each try in vain would be one more event.

use std::sync::Arc;

use monoceros_rules::asks::Ask;
use monoceros_rules::asks::failures::{OVER_QUOTA, OVER_USER_QUOTA};
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::values::ids::{AllocationId, AskSlot};

use super::effects::VisitEffects;
use super::{Application, Blocked};
use crate::events::{Event, EventKind, Happening, Message, TooSmall};
use crate::step::{Baton, Notice};

/// After an event of an ask that predicates refused, how long no further one is made of that ask,
/// ns.
const REFUSALS_NS: i64 = 15_000_000_000;

impl Application {
    /// An event about this application.
    pub(super) fn event(&self, kind: EventKind, at_ns: i64) -> Event {
        Event::of(kind, &self.book.id, at_ns).in_queue(&self.book.queue)
    }

    /// An event about one of its asks.
    pub(super) fn request(&self, kind: EventKind, ask: &Ask, at_ns: i64) -> Event {
        let event = Event::of(kind, &ask.key, at_ns).referring(&self.book.id);
        event.of_pod(ask.pod()).amount(&ask.resources)
    }

    /// An event about places that are held for members of a task group, or were.
    pub(super) fn group_event(
        &self,
        kind: EventKind,
        spec: &AskSpec,
        count: u64,
        at_ns: i64,
    ) -> Event {
        let group = spec.task_group.as_deref().map_or("", String::as_str);
        let event = self.event(kind, at_ns).referring(&Arc::from(group)).amount(&spec.resources);
        event.with_message(Message::Held(count))
    }

    /// The event of an application that leaves its queue.
    pub(super) fn unplaced(&self, at_ns: i64) -> Event {
        Event::of(EventKind::QueueAppRemoved, &self.book.queue, at_ns).referring(&self.book.id)
    }

    /// The ask, tried, does not fit its queues. It speaks for its class.
    pub(super) fn over_quota(&mut self, slot: AskSlot, baton: &mut Baton) {
        self.book.asks.note_failure(slot, OVER_QUOTA, baton.now_ns);
        let ask = self.book.asks.ask_mut(slot);
        ask.attempted = true;
        if std::mem::replace(&mut ask.over_quota, true) || !baton.settings.tracking.is_on() {
            return;
        }
        let frame = baton.offer.frames.last().expect("a leaf's offer has the leaf's frame");
        let available = Box::new(frame.headroom.clone());
        let message = Message::OverQuota { queue: Arc::clone(&self.book.queue), available };
        let ask = self.book.asks.ask(slot);
        baton.happens(|at| self.request(EventKind::OverQuota, ask, at).with_message(message));
    }

    /// The ask fits its queues.
    pub(super) fn within_quota(&mut self, slot: AskSlot, baton: &mut Baton) {
        if std::mem::take(&mut self.book.asks.ask_mut(slot).over_quota) {
            let ask = self.book.asks.ask(slot);
            let message = Message::WithinQuota { queue: Arc::clone(&self.book.queue) };
            baton.happens(|at| self.request(EventKind::WithinQuota, ask, at).with_message(message));
        }
    }

    /// The ask, tried, does not fit what its user and group have left. Such a try does not count
    /// for the scale-up signal, since more machines would not help it.
    pub(super) fn over_user_quota(&mut self, slot: AskSlot, baton: &mut Baton) {
        self.book.asks.note_failure(slot, OVER_USER_QUOTA, baton.now_ns);
        let was = std::mem::replace(&mut self.book.asks.ask_mut(slot).over_user_quota, true);
        let Some(lane) = self.limited_lane().filter(|_| !was && baton.settings.tracking.is_on())
        else {
            return;
        };
        let available = Box::new(baton.books.trackers.headroom(lane));
        let ask = self.book.asks.ask(slot);
        let message = Message::OverUserQuota { available };
        baton.happens(|at| self.request(EventKind::OverUserQuota, ask, at).with_message(message));
    }

    /// The ask fits what its user and group have left.
    pub(super) fn within_user_quota(&mut self, slot: AskSlot, baton: &mut Baton) {
        if std::mem::take(&mut self.book.asks.ask_mut(slot).over_user_quota) {
            let ask = self.book.asks.ask(slot);
            let event = |at| self.request(EventKind::WithinUserQuota, ask, at);
            baton.happens(|at| event(at).with_message(Message::WithinUserQuota));
        }
    }

    /// The application may run, or may not because of a maximum of running applications.
    pub(super) fn set_blocked(&mut self, blocked: Blocked, baton: &mut Baton) {
        let was = std::mem::replace(&mut self.blocked, blocked);
        if was.by_queue != blocked.by_queue {
            let is_blocked = blocked.by_queue;
            let row = if is_blocked {
                EventKind::AppBlockedByQueue
            } else {
                EventKind::AppRunnableByQueue
            };
            baton.happens(|at| self.event(row, at));
        }
        if was.by_quota != blocked.by_quota {
            let is_blocked = blocked.by_quota;
            let row = if is_blocked {
                EventKind::AppBlockedByQuota
            } else {
                EventKind::AppRunnableByQuota
            };
            baton.happens(|at| self.event(row, at));
        }
    }

    /// Makes the event that a member is larger than a placeholder of its group.
    pub(super) fn tell_too_small(&self, ask: AskSlot, place: AllocationId, baton: &mut Baton) {
        let Some(entry) =
            baton.books.allocations.get(place).filter(|_| baton.settings.tracking.is_on())
        else {
            return;
        };
        let member = self.book.asks.ask(ask);
        let message = Message::TooSmall(Box::new(TooSmall {
            application: Arc::clone(&self.book.id),
            group: entry.spec.place_in().cloned().unwrap_or_default(),
            member: Arc::clone(member.pod().unwrap_or(&member.key)),
            placeholder: entry.resources().clone(),
        }));
        let (spec, wanted) = (Arc::clone(&entry.spec), member.resources.clone());
        baton.happens(|at| {
            let event = Event::of(EventKind::PlaceholderTooSmall, &spec.key, at);
            let event = event.referring(&self.book.id).of_pod(spec.pod());
            event.amount(&wanted).with_message(message)
        });
    }

    /// Notes the reasons of predicates that refused an ask on every node, and makes an event of
    /// them unless one was made just before ([`REFUSALS_NS`]).
    pub(super) fn tell_refusals(&mut self, baton: &mut Baton, slot: AskSlot) {
        let reasons = std::mem::take(&mut self.book.asks.ask_mut(slot).refusals_mut().reasons);
        self.book.asks.note_refusals(slot, &reasons, baton.now_ns);
        let refusals = self.book.asks.ask_mut(slot).refusals_mut();
        if !reasons.is_empty() {
            refusals.last_reasons.clone_from(&reasons);
        }
        let too_soon = refusals.told_ns.is_some_and(|told| baton.now_ns < told + REFUSALS_NS);
        if reasons.is_empty() || too_soon {
            return;
        }
        refusals.told_ns = Some(baton.now_ns);
        let ask = self.book.asks.ask(slot);
        if ask.form == Form::Internal {
            // No key names it: it is told with why its gang waits.
            return;
        }
        let message = Message::Refused(reasons);
        let event = |at| self.request(EventKind::RefusedByPredicates, ask, at);
        baton.happens(|at| event(at).with_message(message));
    }
}

impl VisitEffects {
    /// Adds an event of this visit, where events are tracked.
    pub(super) fn happens<H: Into<Happening>>(
        &mut self,
        baton: &Baton,
        event: impl FnOnce(i64) -> H,
    ) {
        if baton.settings.tracking.is_on() {
            self.happened.push(Notice::Happened(event(baton.now_ns).into()));
        }
    }
}
