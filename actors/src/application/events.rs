//! Events about an application and its asks: `docs/events.md#requests` and
//! `docs/events.md#applications`.
//!
//! Most of these events report a change, such as "it does not fit, after it did". So an ask records
//! its last report; otherwise each try without result would be one more event.

use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::applications::blocked::Blocked;
use monoceros_rules::applications::native::Native;
use monoceros_rules::asks::failures::{OVER_QUOTA, OVER_USER_QUOTA};
use monoceros_rules::asks::{Ask, Bundled};
use monoceros_rules::decide::attempt::Parking;
use monoceros_rules::decide::gang::Hold;
use monoceros_rules::limits::LaneId;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::specs::release::Cause;
use monoceros_rules::values::ids::{AllocationId, AskSlot};
use monoceros_rules::values::resources::Resources;
use monoceros_rules::waiting::obstacle::Obstacle;

use super::effects::VisitEffects;
use crate::events::{Event, EventKind, Happening, Message, TooSmall};
use crate::step::{Baton, Notice, Owner};

/// The least time between two events about predicates' refusals of the same ask, ns.
const REFUSALS_NS: i64 = 15_000_000_000;

/// Events about an application, by its book.
impl Event {
    /// Returns an event about an application.
    pub(super) fn about(book: &Book, kind: EventKind, at_ns: i64) -> Self {
        Self::of(kind, &book.id, at_ns).in_queue(&book.queue)
    }

    /// Returns an event about an ask of an application.
    pub(super) fn about_ask(book: &Book, kind: EventKind, ask: &Ask, at_ns: i64) -> Self {
        let event = Self::of(kind, &ask.key, at_ns).referring(&book.id);
        event.of_pod(ask.pod()).amount(&ask.resources)
    }

    /// Returns an event about holds of a task group that begin or end.
    pub(super) fn about_holds(
        book: &Book,
        kind: EventKind,
        (spec, count): (&AskSpec, u64),
        at_ns: i64,
    ) -> Self {
        let group = spec.task_group.as_deref().map_or("", String::as_str);
        let event = Self::about(book, kind, at_ns).referring(&Arc::from(group));
        event.amount(&spec.resources).with_message(Message::Held(count))
    }

    /// Returns the event of an application that is removed from its queue.
    pub(super) fn unplaced(book: &Book, at_ns: i64) -> Self {
        Self::of(EventKind::QueueAppRemoved, &book.queue, at_ns).referring(&book.id)
    }
}

/// Notes that the ask was tried and does not fit its queues, and makes the event of that. The ask
/// stands for its class.
pub(super) fn over_quota(book: &mut Book, slot: AskSlot, baton: &mut Baton) {
    book.asks.note_failure(slot, OVER_QUOTA, baton.now_ns);
    let ask = book.asks.ask_mut(slot);
    ask.attempted = true;
    if std::mem::replace(&mut ask.over_quota, true) || !baton.settings.tracking.is_on() {
        return;
    }
    let frame = baton.offer.frames.last().expect("a leaf's offer has the leaf's frame");
    let available = Box::new(frame.headroom.clone());
    let message = Message::OverQuota { queue: Arc::clone(&book.queue), available };
    let ask = book.asks.ask(slot);
    baton.happens(|at| Event::about_ask(book, EventKind::OverQuota, ask, at).with_message(message));
}

/// Notes that the ask fits its queues, and makes the event of that if it did not fit before.
pub(super) fn within_quota(book: &mut Book, slot: AskSlot, baton: &mut Baton) {
    if std::mem::take(&mut book.asks.ask_mut(slot).over_quota) {
        let ask = book.asks.ask(slot);
        let message = Message::WithinQuota { queue: Arc::clone(&book.queue) };
        baton.happens(|at| {
            Event::about_ask(book, EventKind::WithinQuota, ask, at).with_message(message)
        });
    }
}

/// Notes that the ask was tried and does not fit the limits of its user and group, and makes the
/// event of that. Such a try does not count for the scale-up signal, since more machines would not
/// help the ask.
pub(super) fn over_user_quota(
    lane: Option<LaneId>,
    book: &mut Book,
    slot: AskSlot,
    baton: &mut Baton,
) {
    book.asks.note_failure(slot, OVER_USER_QUOTA, baton.now_ns);
    let was = std::mem::replace(&mut book.asks.ask_mut(slot).over_user_quota, true);
    let Some(lane) = lane.filter(|_| !was && baton.settings.tracking.is_on()) else {
        return;
    };
    let available = Box::new(baton.books.trackers.headroom(lane));
    let ask = book.asks.ask(slot);
    let message = Message::OverUserQuota { available };
    baton.happens(|at| {
        Event::about_ask(book, EventKind::OverUserQuota, ask, at).with_message(message)
    });
}

/// Notes that the ask fits the limits of its user and group, and makes the event of that if it did
/// not fit before.
pub(super) fn within_user_quota(book: &mut Book, slot: AskSlot, baton: &mut Baton) {
    if std::mem::take(&mut book.asks.ask_mut(slot).over_user_quota) {
        let ask = book.asks.ask(slot);
        let event = |at| Event::about_ask(book, EventKind::WithinUserQuota, ask, at);
        baton.happens(|at| event(at).with_message(Message::WithinUserQuota));
    }
}

/// Notes whether an ask that was not placed fits its queues and limits, and makes the events of
/// that.
pub(super) fn parked(lane: Option<LaneId>, book: &mut Book, parking: &Parking, baton: &mut Baton) {
    let slot = parking.ask;
    match parking.obstacle {
        Obstacle::Placeholders | Obstacle::GivesWay => {}
        Obstacle::Limits => over_user_quota(lane, book, slot, baton),
        Obstacle::Quota => {
            within_user_quota(book, slot, baton);
            over_quota(book, slot, baton);
        }
        _ => {
            within_user_quota(book, slot, baton);
            within_quota(book, slot, baton);
        }
    }
}

/// Notes whether a gang exceeds the quota of its queues, or the limits of its user and group, and
/// makes the events of that. `why`: the reason for which the gang waits. Its first ask that the RM
/// sent stands for it.
pub(super) fn tell_gang_quota(
    lane: Option<LaneId>,
    book: &mut Book,
    bundled: &Bundled,
    why: Option<Hold>,
    baton: &mut Baton,
) {
    let mut slots = bundled.iter().flatten().map(|(slot, _)| *slot);
    let Some(speaker) = slots.find(|slot| !book.asks.ask(*slot).spec.placeholder) else { return };
    match why {
        Some(Hold::OverQuota(Obstacle::Limits)) => over_user_quota(lane, book, speaker, baton),
        Some(Hold::OverQuota(_)) => {
            within_user_quota(book, speaker, baton);
            over_quota(book, speaker, baton);
        }
        _ => {
            within_user_quota(book, speaker, baton);
            within_quota(book, speaker, baton);
        }
    }
}

/// Makes an event for each group with new holds, of which `n_held` has the numbers. Returns the
/// amount of all.
pub(super) fn tell_holds(book: &Book, n_held: &[u64], baton: &mut Baton) -> Resources {
    let mut sum = Resources::new();
    let groups = book.native().into_iter().flat_map(Native::groups);
    for (group, held) in groups.zip(n_held) {
        if let (Some(spec), 1..) = (&group.spec, *held) {
            let kind = EventKind::AllocationAdded;
            baton.happens(|at| Event::about_holds(book, kind, (spec, *held), at));
            let times = i64::try_from(*held).unwrap_or(i64::MAX);
            sum.add(&spec.resources.times(times));
        }
    }
    sum
}

/// Makes the event that a member is larger than a placeholder of its group.
pub(super) fn tell_too_small(book: &Book, ask: AskSlot, place: AllocationId, baton: &mut Baton) {
    let Some(entry) =
        baton.books.allocations.get(place).filter(|_| baton.settings.tracking.is_on())
    else {
        return;
    };
    let member = book.asks.ask(ask);
    let message = Message::TooSmall(Box::new(TooSmall {
        application: Arc::clone(&book.id),
        group: entry.spec.place_in().cloned().unwrap_or_default(),
        member: Arc::clone(member.pod().unwrap_or(&member.key)),
        placeholder: entry.resources().clone(),
    }));
    let (spec, wanted) = (Arc::clone(&entry.spec), member.resources.clone());
    baton.happens(|at| {
        let event = Event::of(EventKind::PlaceholderTooSmall, &spec.key, at);
        let event = event.referring(&book.id).of_pod(spec.pod());
        event.amount(&wanted).with_message(message)
    });
}

/// Notes the reasons of predicates that refused an ask on every node, and makes an event of
/// them unless one was made just before ([`REFUSALS_NS`]).
pub(super) fn tell_refusals(book: &mut Book, slot: AskSlot, baton: &mut Baton) {
    let reasons = std::mem::take(&mut book.asks.ask_mut(slot).refusals_mut().reasons);
    book.asks.note_refusals(slot, &reasons, baton.now_ns);
    let refusals = book.asks.ask_mut(slot).refusals_mut();
    if !reasons.is_empty() {
        refusals.last_reasons.clone_from(&reasons);
    }
    let too_soon = refusals.told_ns.is_some_and(|told| baton.now_ns < told + REFUSALS_NS);
    if reasons.is_empty() || too_soon {
        return;
    }
    refusals.told_ns = Some(baton.now_ns);
    let ask = book.asks.ask(slot);
    if ask.form == Form::Internal {
        // No RM knows its key: the refusals are reported with the reason why its gang waits.
        return;
    }
    let message = Message::Refused(reasons);
    let event = |at| Event::about_ask(book, EventKind::RefusedByPredicates, ask, at);
    baton.happens(|at| event(at).with_message(message));
}

/// Returns the kind of event for the cause of a release.
pub(super) fn released_because(cause: Cause) -> EventKind {
    match cause {
        Cause::Stopped | Cause::Failed | Cause::SchedulingFailed | Cause::RefusedForGood => {
            EventKind::AllocationCancelled
        }
        Cause::ConfirmedPreemption => EventKind::AllocationPreempted,
        Cause::ConfirmedReplacement => EventKind::AllocationReplaced,
        Cause::ConfirmedTimeout => EventKind::AllocationTimedOut,
    }
}

/// Makes the events of an allocation that ended, and of its ask if that is over with it. There is
/// no event of a node that was removed, and none of an ask whose allocation timed out.
pub(super) fn ended(
    book: &Book,
    entry: &Allocation,
    (event, over): (EventKind, Option<&AskSpec>),
    baton: &Baton,
    effects: &mut VisitEffects,
) {
    let (uuid, spec) = (&entry.uuid, &entry.spec);
    effects.happens(baton, |at| Event::about(book, event, at).allocated(uuid, spec));
    if event == EventKind::AllocationLostNode {
        return;
    }
    effects.happens(baton, |at| {
        let node = baton.books.nodes.id(entry.node);
        Event::of(EventKind::NodeAllocationRemoved, node, at).allocated(uuid, spec)
    });
    if let Some(ask) = over.filter(|_| event != EventKind::AllocationTimedOut) {
        effects.happens(baton, |at| Event::about(book, EventKind::AskRemoved, at).asked_for(ask));
    }
}

/// Makes the events that user and group use more. A placement needs none: they are derived from its
/// notice.
pub(super) fn charged(
    owner: &Owner,
    change: &Resources,
    baton: &mut Baton,
    effects: &mut VisitEffects,
) {
    baton.effects.notices.append(&mut effects.discharged);
    let event = |kind, whose: &Arc<str>, at| {
        Event::of(kind, whose, at).referring(&owner.queue).amount(change)
    };
    baton.happens(|at| event(EventKind::UserCharged, &owner.user, at));
    if let Some(group) = &owner.group {
        baton.happens(|at| event(EventKind::GroupCharged, group, at));
    }
}

/// Makes the events that user and group use less. The group's event waits until it is known whether
/// the application leaves the group: the event that unlinks them comes before the event of the last
/// amount.
pub(super) fn discharged(
    owner: &Owner,
    change: &Resources,
    baton: &mut Baton,
    effects: &mut VisitEffects,
) {
    let event = |kind, whose: &Arc<str>, at| {
        Event::of(kind, whose, at).referring(&owner.queue).amount(change)
    };
    baton.happens(|at| event(EventKind::UserDischarged, &owner.user, at));
    if let Some(group) = owner.group.as_ref().filter(|_| baton.settings.tracking.is_on()) {
        let event = event(EventKind::GroupDischarged, group, baton.now_ns);
        effects.discharged.push(Notice::Happened(event.into()));
    }
}

/// Makes the event that an application begins or ceases to count for its group.
pub(super) fn linked(owner: &Owner, kind: EventKind, baton: &mut Baton) {
    if let Some(group) = &owner.group {
        baton.happens(|at| Event::of(kind, group, at).referring(&owner.application));
    }
}

/// Makes an event for each task group that has fewer members than it needs since this visit.
pub(super) fn lost_members(book: &Book, baton: &Baton, effects: &mut VisitEffects) {
    for group in std::mem::take(&mut effects.lost_members) {
        let lacks = book.gang.as_ref().and_then(|gang| gang.lacking(&group));
        let Some(lacks) = lacks else { continue };
        effects.happens(baton, |at| {
            let event = Event::about(book, EventKind::GangLacksMembers, at);
            let event = event.referring(&Arc::from(group.as_str()));
            event.with_message(Message::LacksMembers(Box::new(lacks)))
        });
    }
}

/// Notes which maxima of running applications keep the application from starting, and makes an
/// event for each maximum that begins or ceases to do so.
pub(super) fn blocked(blocked: &mut Blocked, now: Blocked, book: &Book, baton: &mut Baton) {
    use EventKind::{AppBlockedByQueue, AppBlockedByQuota, AppRunnableByQueue, AppRunnableByQuota};
    let was = std::mem::replace(blocked, now);
    let by_queue = (was.by_queue, now.by_queue, AppBlockedByQueue, AppRunnableByQueue);
    let by_quota = (was.by_quota, now.by_quota, AppBlockedByQuota, AppRunnableByQuota);
    for (was, is_blocked, blocks, frees) in [by_queue, by_quota] {
        if was != is_blocked {
            let kind = if is_blocked { blocks } else { frees };
            baton.happens(|at| Event::about(book, kind, at));
        }
    }
}

impl VisitEffects {
    /// Adds an event of this visit, if events are recorded.
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
