//! The application under the limits of its user and group: `docs/limits.md`.
//!
//! An application joins a lane of the partition's trackers with its first ask or allocation, and
//! then the group it counts for is chosen (`docs/limits.md#which-group-an-application-counts-for`).
//! It leaves when it neither holds nor asks for anything, so that users who want nothing cost
//! nothing; with its next ask it joins anew.
//!
//! # Invariants
//! * Whatever changes what the application holds changes what its user and group use in the same
//!   visit: a placement at once, everything else once for the whole visit, by the very delta that
//!   climbs the queues.
//! * When it counts among the running applications of its user and group says [`JoinedLane`].

use std::sync::Arc;

use monoceros_rules::limits::{JoinedLane, LaneId, Remains};
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::waiting::{Phase, View};

use super::Application;
use super::effects::VisitEffects;
use crate::events::{Event, EventKind};
use crate::queue::Narrowed;
use crate::step::{Baton, Notice, Owner};

impl Application {
    /// The lane, if it has to be looked at.
    pub(crate) fn limited_lane(&self) -> Option<LaneId> {
        self.lane.as_ref()?.limited()
    }

    /// Looks at an offer that is at this application, as if it were in this phase: what its queues,
    /// user and group leave.
    pub(super) fn looking<T>(
        &self,
        phase: Phase,
        baton: &Baton,
        look: impl FnOnce(&View<'_>) -> T,
    ) -> T {
        let frame = baton.offer.frames.last().expect("a leaf's offer has the leaf's frame");
        let view = frame.view(phase, &baton.books.nodes, &baton.books.queues);
        match self.limited_lane() {
            None => look(&view),
            Some(lane) => {
                let narrowed = Narrowed::of(lane, &view, &baton.books.trackers);
                look(&narrowed.view(&view))
            }
        }
    }

    /// It asks for something or holds something: it is in a lane from now on.
    pub(super) fn join_lane(&mut self, baton: &mut Baton) {
        if self.lane.is_some() {
            return;
        }
        debug_assert!(self.group().is_none(), "who is in no lane counts for no group");
        let (book, trackers) = (&self.book, &mut baton.books.trackers);
        let submitter = (&book.user, &*book.groups);
        let (lane, group) = JoinedLane::join(trackers, submitter, &book.id, &book.queue);
        self.lane = Some(lane);
        self.set_group(group);
        self.tell_link(EventKind::UserGroupLinked, baton);
    }

    /// A placement of it is booked, or waits for its predicate.
    pub(super) fn uses(&mut self, resources: &Resources, baton: &mut Baton) {
        let lane = self.lane.as_mut().expect("who asks is in a lane");
        baton.books.trackers.charge(lane.id(), resources, Loosening::NONE);
        self.counts_as_running(baton);
    }

    /// Something is placed, or a node is reserved: from now on it counts among the running
    /// applications of its user and group.
    pub(super) fn counts_as_running(&mut self, baton: &mut Baton) {
        let lane = self.lane.as_mut().expect("who asks is in a lane");
        lane.start(&self.book.id, &mut baton.books.trackers);
    }

    /// Ends a visit for user and group: what it changed is charged to them, and an application that
    /// has nothing left leaves its lane.
    pub(super) fn charge_limits(&mut self, baton: &mut Baton, effects: &mut VisitEffects) {
        let remains = Remains {
            holds: self.book.holds_anything(),
            waits: !self.book.asks.pending().is_empty(),
            is_starting: self.book.is_starting(),
            has_place: self.book.has_place(),
        };
        let is_over = !remains.holds && !remains.waits;
        let Some(lane) = &mut self.lane else {
            debug_assert!(is_over, "who asks or holds is in a lane");
            return;
        };
        let (id, books) = (&self.book.id, &mut baton.books);
        let change = effects.delta.allocated.clone().pruned();
        if lane.stops(remains) || change.has_negative() {
            effects.loosening = books.loosen();
        }
        lane.settle((id, remains), &change, effects.loosening, &mut books.trackers);
        if !is_over {
            baton.effects.notices.append(&mut effects.discharged);
            return;
        }
        books.trackers.leave(lane.id(), id);
        let last = effects.discharged.pop();
        baton.effects.notices.append(&mut effects.discharged);
        self.tell_link(EventKind::UserGroupUnlinked, baton);
        baton.effects.notices.extend(last);
        self.lane = None;
        self.set_group(None);
    }

    /// Limits of this leaf may have changed: the application may count for another group from now
    /// on, if the limit is gone that its group was chosen by, or it had none, and it may have become
    /// limited or unlimited.
    pub(super) fn rejoin_lane(&mut self, baton: &mut Baton) {
        let Some(lane) = &mut self.lane else { return };
        let (book, trackers) = (&self.book, &mut baton.books.trackers);
        let group = lane.rejoin((&book.id, &book.groups), book.allocated(), trackers);
        let limited = lane.limited();
        baton.books.reservations.set_lane(self.slot, limited);
        if let Some(group) = group {
            self.set_group(group);
            self.tell_link(EventKind::UserGroupLinked, baton);
        }
    }

    /// Makes the event that the application counts for its group from now on, or no longer.
    fn tell_link(&self, kind: EventKind, baton: &mut Baton) {
        if let Some(group) = self.group() {
            baton.happens(|at| Event::of(kind, group, at).referring(&self.book.id));
        }
    }

    /// The group it counts for.
    pub(super) fn group(&self) -> Option<&Arc<str>> {
        self.owner.group.as_ref()
    }

    /// It counts for this group from now on, or for none: what is told of it then says so.
    fn set_group(&mut self, group: Option<Arc<str>>) {
        if self.owner.group != group {
            self.owner = Arc::new(Owner::of(&self.book, group));
        }
    }

    /// Makes the events that user and group use more. A placement needs none: they are derived from
    /// its notice.
    pub(super) fn tell_charge(
        &self,
        change: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        baton.effects.notices.append(&mut effects.discharged);
        let queue = &self.book.queue;
        baton.happens(|at| {
            Event::of(EventKind::UserCharged, &self.book.user, at).referring(queue).amount(change)
        });
        if let Some(group) = self.group() {
            let event = |at| Event::of(EventKind::GroupCharged, group, at);
            baton.happens(|at| event(at).referring(queue).amount(change));
        }
    }

    /// Makes the events that user and group use less. The group's event waits until it is known
    /// whether the application leaves the group: the event that ends the tie comes before the last
    /// amount is taken off.
    pub(super) fn tell_discharge(
        &self,
        change: &Resources,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let queue = &self.book.queue;
        baton.happens(|at| {
            Event::of(EventKind::UserDischarged, &self.book.user, at)
                .referring(queue)
                .amount(change)
        });
        if let Some(group) = self.group().filter(|_| baton.settings.tracking.is_on()) {
            let event = Event::of(EventKind::GroupDischarged, group, baton.now_ns);
            let event = event.referring(queue).amount(change);
            effects.discharged.push(Notice::Happened(event.into()));
        }
    }
}
