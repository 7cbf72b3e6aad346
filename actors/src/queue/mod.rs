//! A queue of the hierarchy, parent or leaf: it orders its children, holds its quota and passes
//! offers on.
//!
//! # Why an actor
//! A queue's totals and the order of its children are facts about this queue alone. They change
//! only while the baton is here, so that an offer always reads totals of one and the same moment.
//!
//! # Invariants
//! * Whenever a step other than a visit begins, a queue's totals are the sum of its children's.
//! * The order holds exactly the children with pending asks; a child's bound there is never tighter
//!   than what is pending below it.
//! * Root's pending amount tells whether any ask is pending in the partition; root notes it in the
//!   books.
//! * An offer on its way down leaves a [`Frame`]; the queue takes the frame's decisions into its
//!   totals when the offer rises past it, before anything else reads them.

mod facts;
mod imaged;
mod lanes;
mod quota;
mod rows;
mod surveyed;

use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::books::Books;
use monoceros_rules::decide::quota_timer::QuotaTimer;
use monoceros_rules::order::keys::exposed_priority;
use monoceros_rules::order::ledger::{self, LedgerDelta, QueueLedger};
use monoceros_rules::order::used_names::UsedNames;
use monoceros_rules::values::epoch::{Epoch, Loosening};
use monoceros_rules::values::resources::Limits;
use monoceros_rules::waiting::{Declined, View, WaitSet, Waits};

use crate::application::{Application, ApplicationMail};
use crate::events::{Event, EventKind};
use crate::metrics::{ActorKind, Counted, Level, Metrics};
use crate::step::{
    Baton, BatonAddress, Climbing, Frame, QueueEntry, RowKey, RowSlot, RowUpdate, Surveyor, Visited,
};
pub(crate) use facts::QueueFacts;
pub(crate) use imaged::{Neighbours, QueueImage};
pub(crate) use lanes::Narrowed;
pub(crate) use quota::quota_delay_ns;
pub(crate) use rows::Rank;
use rows::{First, Rows};
pub(crate) use surveyed::{Gate, LeaveToRun, LimitedUsers, Room};

/// The address to which an offer to a row is sent.
#[derive(Clone)]
enum Child {
    Queue(Arc<BatonAddress<Queue>>),
    Application(Arc<BatonAddress<Application>>),
}

/// Mail that the baton brings to a queue.
#[expect(clippy::large_enum_variant, reason = "there is one, and it has its place on the baton")]
pub(crate) enum QueueMail {
    /// An offer on its way down: from the partition to root, and from each queue to the child that
    /// it picks. It comes back.
    Offer,
    /// An offer on its way up, with the report of the child that it comes from.
    Rise(RowUpdate),
    /// A change below on its way to root, from the last actor of a visit.
    Climb(Climbing),
    /// A survey that stops here.
    Survey(Box<Surveyor>),
}

/// Adds a row for an application to this leaf. Sent by the partition; the application gets
/// [`Attached`](crate::application::Attached).
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Attach {
    pub(crate) baton: Box<Baton>,
    pub(crate) address: Arc<BatonAddress<Application>>,
}

/// Removes the row of an application from this leaf, or of a queue from its parent. Sent by the
/// partition.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Detach {
    pub(crate) baton: Box<Baton>,
    pub(crate) row: RowSlot,
}

/// Starts a further queue below this one. Sent by the partition.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AddBelow {
    pub(crate) baton: Box<Baton>,
    pub(crate) facts: Box<QueueFacts>,
}

/// The actor of one queue: its totals, and the order of its children.
pub(crate) struct Queue {
    facts: Arc<QueueFacts>,
    parent: Option<(Arc<BatonAddress<Self>>, RowSlot)>,
    ledger: QueueLedger,
    /// Resource names that the ledger has used so far, for metrics.
    used_names: UsedNames,
    rows: Rows<Child>,
    /// The last loosening of the queue's own quota.
    loosening: Loosening,
    /// The epochs of the offers that the queue declined last.
    declined: Declined,
    /// The timer of preemption by quota.
    quota_timer: QuotaTimer,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

impl Queue {
    /// Builds a configured queue without children.
    pub(crate) fn new(
        facts: Arc<QueueFacts>,
        parent: Option<(Arc<BatonAddress<Self>>, RowSlot)>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut queue = Self {
            facts,
            parent,
            ledger: QueueLedger::default(),
            used_names: UsedNames::default(),
            rows: Rows::default(),
            loosening: Loosening::NONE,
            declined: Declined::default(),
            quota_timer: QuotaTimer::default(),
            _counted: metrics.counted(ActorKind::Queue),
            metrics,
        };
        queue.take_limits();
        queue
    }

    /// Applies the limits of its configuration.
    fn take_limits(&mut self) {
        let config = &self.facts.config;
        self.ledger.max.clone_from(&config.max);
        self.ledger.guaranteed.clone_from(&config.guaranteed);
        self.ledger.max_running = config.max_applications;
    }

    fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Whether asks may wait for an amount that is given back below: because of the queue's own
    /// quota, or, at root, because of limits of users and groups, which count in many queues.
    fn notes_loosenings(&self) -> bool {
        self.ledger.max.is_some() || self.is_root()
    }

    fn priority(&self) -> i32 {
        let settings = &self.facts.config.settings;
        exposed_priority(self.rows.priority(), settings.priority_policy, settings.priority_offset)
    }

    /// Whether this queue alone allows one more running application.
    pub(crate) fn may_start(&self) -> bool {
        self.ledger.has_room_to_run()
    }

    /// Hands the offer, whose last frame is this queue's, to the best child that may use it, or
    /// declines it. An offer that is declined at root in one phase continues in the next.
    fn offer_on(&mut self, mut baton: Box<Baton>) {
        let explains = baton.offer.explains.then(|| self.facts.child_order());
        let First { child, runner_up, verdict } = loop {
            let phase = baton.offer.phase;
            let frame = baton.offer.frames.last().expect("a queue offers from its own frame");
            let books = &mut baton.books;
            let view = frame.view(phase, &books.nodes, &books.queues);
            let is_leaf = self.facts.config.is_leaf;
            let level = if is_leaf { Level::Applications } else { Level::Queues };
            baton.tally.choice_begins(level);
            let first = self.rows.first(phase, &view, &mut books.trackers, explains);
            baton.tally.choice_over(level);
            if let Some(found) = first {
                break found;
            }
            // The epoch of the view has no limits of users and groups. All that was loosened until
            // now was considered.
            let loosening = books.last_loosening();
            self.declined.note(phase, Epoch { loosening, ..view.epoch() });
            let Some(next) = phase.next().filter(|_| self.is_root()) else {
                baton.offer.is_without_result = self.is_root();
                self.rise(baton);
                return;
            };
            baton.offer.phase = next;
        };
        (baton.offer.runner_up, baton.offer.verdict) = (runner_up, verdict);
        match child {
            Child::Queue(queue) => {
                baton.tally.post(ActorKind::Queue);
                queue.hand(baton, QueueMail::Offer);
            }
            Child::Application(application) => {
                baton.tally.post(ActorKind::Application);
                application.hand(baton, ApplicationMail::Offer);
            }
        }
    }

    /// Sends the offer up to the parent, or home.
    fn rise(&mut self, mut baton: Box<Baton>) {
        baton.offer.frames.pop();
        let Some((parent, row)) = &self.parent else {
            baton.go_home();
            return;
        };
        baton.tally.post(ActorKind::Queue);
        parent.hand(baton, QueueMail::Rise(self.update(*row)));
    }

    /// Takes a change of a child into the totals and the order.
    fn absorb(&mut self, update: Option<RowUpdate>, delta: &LedgerDelta, books: &mut Books) {
        self.used_names.note(delta);
        let clamped = self.ledger.apply(delta);
        debug_assert!(clamped.is_none(), "{}: {clamped:?}", self.facts.config.path);
        if let Some(clamped) = clamped {
            tracing::error!(queue = %self.facts.config.path, ?clamped, "totals went below zero");
        }
        self.quota_discharged();
        if books.queues.count(self.facts.slot.0, self.ledger.allocated()) {
            books.nodes.note_lending();
        }
        if let Some(update) = update {
            self.rows.update(update, &mut books.trackers);
        }
        if self.is_root() {
            books.is_waiting = !self.ledger.pending().is_empty();
            books.allocated.clone_from(self.ledger.allocated());
        }
    }

    /// Returns the queue's report to its parent. The queue has a key, and so is in the parent's
    /// order, while an ask is pending below it and the queue is not stopped.
    fn update(&self, row: RowSlot) -> RowUpdate {
        let priority = self.priority();
        let pending = self.ledger.pending().shown();
        let is_candidate = self.facts.state.is_scheduled() && !pending.is_empty();
        let key = is_candidate
            .then(|| RowKey::Queue(self.facts.key(priority, self.ledger.allocated(), pending)));
        RowUpdate { row, lane: None, key, priority, waits: self.waits_from_above() }
    }

    fn waits_from_above(&self) -> Waits {
        let waits = self.rows.waits();
        let is_parked = |set: &WaitSet| matches!(set, WaitSet::Parked(_));
        let may_start = self.may_start();
        let headroom = if waits.bound_by_quota().any(is_parked) {
            self.ledger.headroom(&Limits::unlimited())
        } else {
            Limits::unlimited()
        };
        let loosening = self.loosening;
        let own = View::of_quota(&headroom, loosening, may_start);
        waits.as_seen_from_above(&own, &self.declined)
    }

    /// Starts a queue below this one.
    fn add_queue(&mut self, mut facts: QueueFacts, baton: &mut Baton) {
        facts.fair_max = ledger::fair_max(self.facts.fair_max.as_ref(), facts.config.max.as_ref());
        let facts = Arc::new(facts);
        let me = Arc::clone(&baton.directory.queue(self.facts.slot).address);
        let metrics = Arc::clone(&self.metrics);
        let row = self.rows.next();
        let address = BatonAddress::start(Self::new(Arc::clone(&facts), Some((me, row)), metrics));
        let given = self.rows.add(Child::Queue(Arc::clone(&address)));
        debug_assert_eq!(given, row, "the next row is the one that is given next");
        let added = if facts.config.is_dynamic {
            EventKind::DynamicQueueAdded
        } else {
            EventKind::QueueAdded
        };
        baton.happens(|at| Event::of(added, &facts.config.path, at));
        let parent = self.facts.slot.0;
        baton.books.enter_queue(facts.slot.0, Some(parent), &facts.config);
        baton.directory.enter_queue(QueueEntry::new(facts, address, Some(row)));
    }
}

impl Actor for Queue {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
    }
}

impl Visited for Queue {
    type Baton = Baton;
    type Mail = QueueMail;

    fn mail(baton: &mut Baton) -> &mut Option<QueueMail> {
        &mut baton.mail.queue
    }

    fn visit(&mut self, baton: Box<Baton>, mail: QueueMail, _ctx: &mut Self::Context) {
        match mail {
            QueueMail::Offer => self.offered(baton),
            QueueMail::Rise(update) => self.risen(baton, update),
            QueueMail::Climb(climbing) => self.climbed(baton, climbing),
            QueueMail::Survey(surveyor) => self.surveyed(baton, surveyor),
        }
    }
}

impl Queue {
    /// Handles a survey that stops here.
    fn surveyed(&mut self, mut baton: Box<Baton>, mut surveyor: Box<Surveyor>) {
        let _timer = baton.tally.message(ActorKind::Queue);
        surveyor.survey.at_queue(self, &mut baton);
        surveyor.go_on(baton);
    }

    /// Handles an offer on its way down.
    fn offered(&mut self, mut baton: Box<Baton>) {
        let _timer = baton.tally.message(ActorKind::Queue);
        let above = baton.offer.frames.last();
        let mut headroom = above.map_or_else(Limits::unlimited, |frame| frame.headroom.clone());
        let nominations = &baton.books.nominations;
        let mut with_nominated = (!nominations.is_empty()).then(|| {
            let mut whole = above.map_or_else(Limits::unlimited, |frame| frame.whole().clone());
            self.ledger.narrow(&mut whole);
            Box::new(whole)
        });
        match nominations.taken_off(&self.facts.config.path) {
            Some(taken_off) => self.ledger.narrow_beside(taken_off, &mut headroom),
            None => self.ledger.narrow(&mut headroom),
        }
        if self.is_root() {
            let capacity = baton.books.nodes.capacity();
            let rooms = with_nominated.as_deref_mut().into_iter().chain([&mut headroom]);
            rooms.for_each(|room| self.ledger.narrow_to_countable(capacity, room));
        }
        let runner_up = baton.offer.runner_up.take();
        let pending = runner_up.as_ref().map(|_| self.ledger.pending().clone());
        let frame = Frame {
            facts: Arc::clone(&self.facts),
            headroom,
            with_nominated,
            loosening: above.map_or(Loosening::NONE, |above| above.loosening).max(self.loosening),
            may_start: above.is_none_or(|frame| frame.may_start) && self.may_start(),
            counts_running: above.is_some_and(|frame| frame.counts_running)
                || self.ledger.max_running > 0,
            allocated: self.ledger.allocated().clone(),
            pending: pending.unwrap_or_default(),
            priority: self.priority(),
            runner_up,
            verdict: baton.offer.verdict,
            loosened: Loosening::NONE,
            charged_before: baton.offer.charged.clone(),
        };
        baton.offer.frames.push(frame);
        self.offer_on(baton);
    }

    /// Handles an offer on its way up, with the report of the child that it comes from.
    fn risen(&mut self, mut baton: Box<Baton>, update: RowUpdate) {
        let _timer = baton.tally.message(ActorKind::Queue);
        let offer = &mut baton.offer;
        let here = offer.frames.len();
        if here <= offer.rise_to {
            offer.rise_to = usize::MAX;
        }
        let may_start_above = here < 2 || offer.frames[here - 2].may_start;
        let delta = offer.take_delta();
        let frame = offer.frames.last_mut().expect("an offer rises to the queue of its last frame");
        let loosened = std::mem::take(&mut frame.loosened);
        self.absorb(Some(update), &delta, &mut baton.books);
        if loosened.is_some() && self.notes_loosenings() {
            self.loosening = loosened;
        }
        frame.may_start = may_start_above && self.may_start();
        let priority = self.priority();
        if priority != frame.priority {
            frame.priority = priority;
            offer.rise_to(here - 1);
        }
        if offer.level() >= here {
            self.offer_on(baton);
        } else {
            self.rise(baton);
        }
    }
}

impl Queue {
    /// Handles a change that climbs to root.
    fn climbed(&mut self, mut baton: Box<Baton>, climbing: Climbing) {
        let _timer = baton.tally.message(ActorKind::Queue);
        let Climbing { update, delta, loosening, is_unchecked } = climbing;
        self.absorb(update, &delta, &mut baton.books);
        if is_unchecked {
            self.quota_charged(&mut baton);
        }
        if self.notes_loosenings() {
            self.loosening = self.loosening.max(loosening);
        }
        let Some((parent, row)) = &self.parent else { return baton.climb_gathered() };
        let update = Some(self.update(*row));
        let climbing = Climbing { update, delta, loosening, is_unchecked };
        parent.hand(baton, QueueMail::Climb(climbing));
    }
}

impl Handler<Attach> for Queue {
    type Result = ();

    fn handle(&mut self, Attach { mut baton, address }: Attach, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Queue);
        let row = self.rows.add(Child::Application(Arc::clone(&address)));
        address.do_send(crate::application::Attached { baton, row });
    }
}

impl Handler<Detach> for Queue {
    type Result = ();

    fn handle(&mut self, Detach { mut baton, row }: Detach, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Queue);
        self.rows.remove(row);
        baton.go_home();
    }
}

impl Handler<AddBelow> for Queue {
    type Result = ();

    fn handle(&mut self, AddBelow { mut baton, facts }: AddBelow, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Queue);
        self.add_queue(*facts, &mut baton);
        baton.go_home();
    }
}

impl Handler<crate::Halt> for Queue {
    type Result = ();

    fn handle(&mut self, _: crate::Halt, ctx: &mut Self::Context) {
        let _timer = self.metrics.handles(ActorKind::Queue);
        ctx.stop();
    }
}

/// Adds a row for a queue below this one while the tree is built.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AddQueue {
    pub(crate) row: RowSlot,
    pub(crate) address: Arc<BatonAddress<Queue>>,
}

impl Handler<AddQueue> for Queue {
    type Result = ();

    fn handle(&mut self, AddQueue { row, address }: AddQueue, _ctx: &mut Self::Context) {
        let _timer = self.metrics.handles(ActorKind::Queue);
        let given = self.rows.add(Child::Queue(address));
        debug_assert_eq!(given, row, "children join in the order of their rows");
    }
}

#[cfg(test)]
mod tests;
