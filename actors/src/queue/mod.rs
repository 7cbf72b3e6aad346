//! A queue of the hierarchy, parent or leaf: it orders its children, holds its quota and passes
//! offers on.
//!
//! # Why an actor
//! A queue's totals and the order of its children are facts about this queue alone. They change only
//! when a baton comes by, so that an offer always meets totals that belong together.
//!
//! # Invariants
//! * A queue's totals are the sum of its children's, after every step.
//! * The order holds exactly the children with something pending; a child's bound there is never
//!   tighter than what waits below it.
//! * An offer on its way down leaves a [`Frame`]; the queue takes the frame's decisions into its
//!   totals when the offer rises past it, before anything else reads them.

mod lanes;
mod rows;

use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::audit::QueueFact;
use monoceros_rules::limits::Trackers;
use monoceros_rules::order::keys::{QueueKey, QueueView, exposed_priority};
use monoceros_rules::order::ledger::{self, LedgerDelta, QueueLedger};
use monoceros_rules::order::waits::{View, WaitSet, Waits};
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::values::epoch::{Epoch, Loosening};
use monoceros_rules::values::resources::{Limits, Resources};

use crate::events::{Event, EventKind, Message};
use crate::metrics::{ActorKind, Metrics};
use crate::partition::Room;
use crate::snapshot::QueueSnapshot;
use crate::step::{
    Baton, Climbing, Errand, Frame, Purpose, QueueCounts, QueueEntry, QueueSlot, RowKey, RowSlot,
    RowUpdate,
};
pub(crate) use lanes::Narrowed;
use rows::{Child, Rows};

/// What does not change while a queue is offered to: its configuration and its fair maximum.
#[derive(Clone)]
pub(crate) struct QueueFacts {
    pub(crate) slot: QueueSlot,
    pub(crate) parent: Option<QueueSlot>,
    /// Its children left out.
    pub(crate) config: Arc<QueueConfig>,
    pub(crate) state: ObjectState,
    /// What its share is measured against where it guarantees nothing.
    pub(crate) fair_max: Option<Limits>,
    /// The parent puts priority before share.
    pub(crate) priority_first: bool,
}

impl QueueFacts {
    /// What its share is measured against, with that of its parent in `fair_max`, by slot, and the
    /// capacity of all nodes for root (queues-and-config chapter, 4.6).
    pub(crate) fn fair_max_below(
        &self,
        fair_max: &[Option<Limits>],
        capacity: &Resources,
    ) -> Option<Limits> {
        let Some(parent) = self.parent else {
            return ledger::stored_limits(capacity);
        };
        let above = fair_max[parent.0 as usize].as_ref();
        ledger::fair_max(above, self.config.max.as_ref())
    }

    /// The queue's key among its siblings.
    pub(crate) fn key(
        &self,
        priority: i32,
        allocated: &Resources,
        pending: &Resources,
    ) -> QueueKey {
        QueueKey::new(
            self.priority_first,
            &QueueView {
                priority,
                allocated,
                guaranteed: self.config.guaranteed.as_ref(),
                fair_max: self.fair_max.as_ref(),
                pending,
                path: &self.config.path,
            },
        )
    }
}

/// An offer on its way down. Sent by the partition to root and by each queue to the child it picks;
/// it comes back as [`Rise`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Offer(pub(crate) Box<Baton>);

/// An offer on its way up, with what the child that it comes from says of itself.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Rise {
    pub(crate) baton: Box<Baton>,
    pub(crate) update: RowUpdate,
}

/// A change below on its way to root. Sent by the last actor of a visit.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Climb {
    pub(crate) baton: Box<Baton>,
    pub(crate) climbing: Climbing,
}

/// An application joins or leaves this leaf, or a queue this parent. Sent by the partition.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Membership(pub(crate) Box<Baton>);

/// A walk comes by: refresh, read or audit.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Walk(pub(crate) Box<Baton>);

/// See the module.
pub(crate) struct Queue {
    facts: Arc<QueueFacts>,
    parent: Option<(Arc<Addr<Self>>, RowSlot)>,
    ledger: QueueLedger,
    rows: Rows,
    /// The last loosening that gave this queue more room by its own quota.
    loosening: Loosening,
    /// Up to where it was looked at when it last declined an offer.
    declined_at: Epoch,
    metrics: Arc<Metrics>,
}

/// What a configuration may change that is told.
struct Limited {
    is_leaf: bool,
    max: Option<Limits>,
    guaranteed: Option<Resources>,
}

impl Queue {
    /// A queue as configured, with a row for each child, in their order.
    pub(crate) fn new(
        facts: Arc<QueueFacts>,
        parent: Option<(Arc<Addr<Self>>, RowSlot)>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut queue = Self {
            facts,
            parent,
            ledger: QueueLedger::default(),
            rows: Rows::default(),
            loosening: Loosening::NONE,
            declined_at: Epoch::default(),
            metrics,
        };
        queue.take_limits();
        queue
    }

    /// Limits itself as its configuration says.
    fn take_limits(&mut self) {
        let config = &self.facts.config;
        self.ledger.max.clone_from(&config.max);
        self.ledger.guaranteed.clone_from(&config.guaranteed);
        self.ledger.max_running = config.max_applications;
    }

    fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    fn priority(&self) -> i32 {
        let settings = &self.facts.config.settings;
        exposed_priority(self.rows.priority(), settings.priority_policy, settings.priority_offset)
    }

    /// Whether one more application may run here, as far as this queue alone is concerned.
    fn may_start(&self) -> bool {
        self.ledger.has_room_to_run()
    }

    /// Hands the offer, whose last frame is this queue's, to the best child that may use it, or
    /// declines it.
    fn offer_on(&mut self, mut baton: Box<Baton>) {
        let frame = baton.offer.frames.last().expect("a queue offers from its own frame");
        let books = &mut baton.books;
        let view = frame.view(&books.nodes);
        let Some((child, runner_up)) = self.rows.first(&view, &mut books.trackers) else {
            self.declined_at = view.epoch();
            baton.offer.fruitless = self.is_root();
            baton.offer.waiting = !self.ledger.pending().is_empty();
            self.rise(baton);
            return;
        };
        baton.offer.runner_up = runner_up;
        match child {
            Child::Queue(queue) => {
                baton.tally.post(ActorKind::Queue);
                queue.do_send(Offer(baton));
            }
            Child::Application(application) => {
                baton.tally.post(ActorKind::Application);
                application.do_send(crate::application::Offer(baton));
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
        parent.do_send(Rise { baton, update: self.update(*row) });
    }

    /// Takes a change below into the totals and the order.
    fn absorb(&mut self, update: RowUpdate, delta: &LedgerDelta, trackers: &mut Trackers) {
        let clamped = self.ledger.apply(delta);
        debug_assert!(clamped.is_none(), "{}: {clamped:?}", self.facts.config.path);
        if let Some(clamped) = clamped {
            tracing::error!(queue = %self.facts.config.path, ?clamped, "totals went below zero");
        }
        self.rows.update(update, trackers);
    }

    /// Sends a climb on to the parent, or home.
    fn climb(&self, baton: Box<Baton>, delta: LedgerDelta, loosening: Loosening) {
        if let Some((parent, row)) = &self.parent {
            let climbing = Climbing { update: self.update(*row), delta, loosening };
            parent.do_send(Climb { baton, climbing });
        } else {
            baton.go_home();
        }
    }

    /// What this queue tells its parent of itself: it has a place in the order while something is
    /// pending, unless it is stopped (5.2).
    fn update(&self, row: RowSlot) -> RowUpdate {
        let priority = self.priority();
        let pending = self.ledger.pending();
        let is_candidate = self.facts.state.is_scheduled() && !pending.is_empty();
        let key = is_candidate
            .then(|| RowKey::Queue(self.facts.key(priority, self.ledger.allocated(), pending)));
        RowUpdate { row, lane: None, key, priority, waits: self.waits_from_above() }
    }

    fn waits_from_above(&self) -> Waits {
        let waits = self.rows.waits();
        let is_parked = |set: &WaitSet| matches!(set, WaitSet::Parked(_));
        let may_start = self.may_start();
        let headroom = if is_parked(&waits.running) || is_parked(&waits.starting) {
            self.ledger.headroom(&Limits::unlimited())
        } else {
            Limits::unlimited()
        };
        let own = View { headroom: &headroom, loosening: self.loosening, may_start, nodes: None };
        waits.as_seen_from_above(&own, self.declined_at)
    }

    /// Becomes what the directory says, with the fair maximum that the walk brings; the directory
    /// knows that, too, from now on.
    ///
    /// It counts as a loosening, which stamps root alone: the walk makes every bound anew on its way
    /// up, so what a maximum that was raised held back is seen from root again.
    fn refresh(&mut self, baton: &mut Baton) {
        let slot = self.facts.slot;
        let entry = baton.directory.queue_mut(slot);
        let is_changed = !Arc::ptr_eq(&entry.facts.config, &self.facts.config);
        let before = Limited {
            is_leaf: self.facts.config.is_leaf,
            max: self.ledger.max.clone(),
            guaranteed: self.ledger.guaranteed.clone(),
        };
        let fair_max = baton.walk.fair_max.get_mut(slot.0 as usize).and_then(Option::take);
        if entry.facts.fair_max != fair_max {
            // Facts that changed are the directory's alone until now, and are not made anew.
            Arc::make_mut(&mut entry.facts).fair_max = fair_max;
        }
        self.facts = Arc::clone(&entry.facts);
        entry.is_stale = false;
        if is_changed {
            self.take_limits();
        }
        if self.is_root() {
            let capacity = baton.books.nodes.capacity().clone();
            self.ledger.max = ledger::stored_limits(&capacity);
            self.loosening = baton.books.loosen();
        }
        self.tell_changes(&before, baton);
    }

    /// Takes in what is seen otherwise of the lanes here, or of children. The parent hears of it only
    /// where that changes what it sees.
    fn look_again(&mut self, baton: &mut Baton) {
        let slot = self.facts.slot;
        let lanes = baton.walk.lanes.remove(&slot).unwrap_or_default();
        let updates = baton.walk.rows.remove(&slot).unwrap_or_default();
        if lanes.is_empty() && updates.is_empty() {
            return;
        }
        let before = self.waits_from_above();
        let trackers = &mut baton.books.trackers;
        self.rows.update_all(updates, trackers);
        self.rows.look_again(&lanes, trackers);
        if let (Some((_, row)), Some(parent)) = (&self.parent, self.facts.parent)
            && self.waits_from_above() != before
        {
            baton.walk.rows.entry(parent).or_default().push(self.update(*row));
        }
    }

    /// The events of what is different now.
    fn tell_changes(&self, before: &Limited, baton: &mut Baton) {
        let (config, ledger) = (&self.facts.config, &self.ledger);
        if config.is_leaf != before.is_leaf {
            let text = if config.is_leaf { "leaf queue: true" } else { "leaf queue: false" };
            let event = |at| Event::of(EventKind::QueueType, &config.path, at);
            baton.happens(|at| event(at).with_message(Message::Says(text)));
        }
        if ledger.max != before.max {
            let max = ledger.max.as_ref().map(Limits::as_resources).unwrap_or_default();
            baton.happens(|at| Event::of(EventKind::QueueMax, &config.path, at).amount(&max));
        }
        if ledger.guaranteed != before.guaranteed {
            let guaranteed = ledger.guaranteed.clone().unwrap_or_default();
            let event = |at| Event::of(EventKind::QueueGuaranteed, &config.path, at);
            baton.happens(|at| event(at).amount(&guaranteed));
        }
    }

    /// Starts a queue below this one.
    fn add_queue(&mut self, mut facts: QueueFacts, baton: &mut Baton) {
        facts.fair_max = ledger::fair_max(self.facts.fair_max.as_ref(), facts.config.max.as_ref());
        let facts = Arc::new(facts);
        let me = Arc::clone(&baton.directory.queue(self.facts.slot).address);
        let metrics = Arc::clone(&self.metrics);
        let row = self.rows.next();
        let address = Arc::new(Self::new(Arc::clone(&facts), Some((me, row)), metrics).start());
        let given = self.rows.add(Child::Queue(Arc::clone(&address)));
        debug_assert_eq!(given, row, "the next row is the one that is given next");
        let added = if facts.config.is_dynamic {
            EventKind::DynamicQueueAdded
        } else {
            EventKind::QueueAdded
        };
        baton.happens(|at| Event::of(added, &facts.config.path, at));
        baton.directory.enter_queue(QueueEntry::new(facts, address, Some(row)));
    }

    /// What it has left for the scale-up signal, which leaves root's own limit out.
    fn room(&self) -> Room {
        let (allocated, pending) = (self.ledger.allocated(), self.ledger.pending());
        let left = match &self.ledger.max {
            Some(max) if !self.is_root() => max.less(allocated),
            _ => Limits::unlimited(),
        };
        Room {
            parent: self.facts.parent,
            key: self.facts.key(self.priority(), allocated, pending),
            left,
            is_waiting: self.facts.config.is_leaf && !pending.is_empty(),
            may_start: self.may_start(),
        }
    }

    fn fact(&self) -> QueueFact {
        QueueFact {
            parent: self.facts.parent.map(|parent| parent.0),
            slot: self.facts.slot.0,
            ledger: self.ledger.clone(),
            priority: self.priority(),
            config: Arc::clone(&self.facts.config),
            state: self.facts.state,
            fair_max: self.facts.fair_max.clone(),
        }
    }

    /// For people; headroom as far as this queue alone is concerned.
    fn snapshot(&self, counts: &QueueCounts, children: Vec<QueueSnapshot>) -> QueueSnapshot {
        let headroom = self.ledger.headroom(&Limits::unlimited());
        let priority = self.priority();
        crate::views::queue(&self.facts, &self.ledger, priority, headroom, counts, children)
    }
}

impl Actor for Queue {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.metrics.actor_started(ActorKind::Queue);
        ctx.set_mailbox_capacity(0);
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.metrics.actor_stopped(ActorKind::Queue);
    }
}

impl Handler<Offer> for Queue {
    type Result = ();

    fn handle(&mut self, Offer(mut baton): Offer, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Queue);
        let above = baton.offer.frames.last();
        let mut headroom = above.map_or_else(Limits::unlimited, |frame| frame.headroom.clone());
        self.ledger.narrow(&mut headroom);
        let frame = Frame {
            facts: Arc::clone(&self.facts),
            headroom,
            loosening: above.map_or(Loosening::NONE, |above| above.loosening).max(self.loosening),
            may_start: above.is_none_or(|frame| frame.may_start) && self.may_start(),
            counts_running: above.is_some_and(|frame| frame.counts_running)
                || self.ledger.max_running > 0,
            allocated: self.ledger.allocated().clone(),
            pending: self.ledger.pending().clone(),
            priority: self.priority(),
            runner_up: baton.offer.runner_up.take(),
            delta: LedgerDelta::default(),
        };
        baton.offer.frames.push(frame);
        self.offer_on(baton);
    }
}

impl Handler<Rise> for Queue {
    type Result = ();

    fn handle(&mut self, Rise { mut baton, update }: Rise, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Queue);
        let offer = &mut baton.offer;
        let here = offer.frames.len();
        if here <= offer.rise_to {
            offer.rise_to = usize::MAX;
        }
        let may_start_above = here < 2 || offer.frames[here - 2].may_start;
        let frame = offer.frames.last_mut().expect("an offer rises to the queue of its last frame");
        let delta = std::mem::take(&mut frame.delta);
        self.absorb(update, &delta, &mut baton.books.trackers);
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

impl Handler<Climb> for Queue {
    type Result = ();

    fn handle(&mut self, Climb { mut baton, climbing }: Climb, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Queue);
        let Climbing { update, delta, loosening } = climbing;
        self.absorb(update, &delta, &mut baton.books.trackers);
        if loosening.is_some() && self.ledger.max.is_some() {
            self.loosening = loosening;
        }
        if self.is_root() {
            baton.books.promised = self.ledger.allocated().plus(self.ledger.pending());
        }
        self.climb(baton, delta, loosening);
    }
}

impl Handler<Membership> for Queue {
    type Result = ();

    fn handle(&mut self, Membership(mut baton): Membership, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Queue);
        match std::mem::take(&mut baton.errand) {
            Errand::Attach { address } => {
                let row = self.rows.add(Child::Application(Arc::clone(&address)));
                address.do_send(crate::application::Attached { baton, row });
            }
            Errand::Detach { row } => {
                self.rows.remove(row);
                baton.go_home();
            }
            Errand::AddQueue { facts } => {
                self.add_queue(*facts, &mut baton);
                baton.go_home();
            }
            _ => unreachable!("a queue is visited to join or to leave"),
        }
    }
}

impl Handler<Walk> for Queue {
    type Result = ();

    fn handle(&mut self, Walk(mut baton): Walk, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Queue);
        let slot = self.facts.slot;
        match baton.walk.purpose {
            Purpose::Refresh => {
                let updates = baton.walk.rows.remove(&slot).unwrap_or_default();
                self.rows.update_all(updates, &mut baton.books.trackers);
                self.refresh(&mut baton);
                if let (Some((_, row)), Some(parent)) = (&self.parent, self.facts.parent) {
                    baton.walk.rows.entry(parent).or_default().push(self.update(*row));
                }
            }
            Purpose::LookAgain => self.look_again(&mut baton),
            Purpose::Read => {
                let children = baton.walk.trees.remove(&slot).unwrap_or_default();
                let counts = &baton.directory.queue(slot).counts;
                let snapshot = self.snapshot(counts, children);
                let parent = self.facts.parent.unwrap_or(slot);
                baton.walk.trees.entry(parent).or_default().push(snapshot);
            }
            Purpose::Room => {
                baton.walk.rooms.insert(slot, self.room());
            }
            Purpose::Load
            | Purpose::Dismiss
            | Purpose::Figures
            | Purpose::Waiting
            | Purpose::Signal
            | Purpose::Outstanding => {}
            Purpose::Audit => baton.walk.facts.queues.push(self.fact()),
        }
        baton.walk_on();
    }
}

impl Handler<crate::Halt> for Queue {
    type Result = ();

    fn handle(&mut self, _: crate::Halt, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

/// A queue below this one joins while the tree is built.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AddQueue {
    pub(crate) row: RowSlot,
    pub(crate) address: Arc<Addr<Queue>>,
}

impl Handler<AddQueue> for Queue {
    type Result = ();

    fn handle(&mut self, AddQueue { row, address }: AddQueue, _ctx: &mut Self::Context) {
        let given = self.rows.add(Child::Queue(address));
        debug_assert_eq!(given, row, "children join in the order of their rows");
    }
}

#[cfg(test)]
mod tests;
