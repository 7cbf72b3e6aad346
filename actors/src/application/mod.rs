//! An application: its asks in order, its state, what it holds; the place where an offer becomes a
//! decision.
//!
//! # Why an actor
//! What an application asks for and holds is a fact about it alone. An offer that reaches it brings
//! everything else it needs: the headroom of its queues, the node index, the allocation table.
//!
//! # Invariants
//! * A placement is booked here only after its node confirmed it, in the same step. Where the RM's
//!   predicate is answered later it is booked as unsettled ([`unsettled`]).
//! * Whatever changes its pending, its state or its priority climbs to root in the same step.
//!
//! The rules are in `monoceros_rules::{application, asks}`; what an RM may ask for is in [`ops`].

mod backoff;
mod events;
mod lane;
mod ops;
mod parking;
mod scale_up;
mod unsettled;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::audit::ApplicationFact;
use monoceros_rules::nodes::NodeSlot;
use monoceros_rules::order::keys::{ApplicationKey, ApplicationView, AskKey};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::order::waits::{Parked, View, WaitSet, Waits};
use monoceros_rules::work::allocations::{Allocation, AllocationId, ApplicationSlot, Form};
use monoceros_rules::work::application::{Application as Book, StateChange};
use monoceros_rules::work::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::work::asks::{AskSlot, ClassId, Standing};

use crate::events::EventKind;
use crate::metrics::{ActorKind, Metrics};
use crate::partition::COMPLETING_TIMEOUT;
use crate::queue::{Queue, QueueFacts};
use crate::step::{
    Alarm, Allocated, Baton, Errand, Notice, Outcome, Placing, Purpose, RowKey, RowSlot, RowUpdate,
};
use backoff::Backoff;
pub(crate) use ops::{Cause, Existing, Op, Which};

/// An offer for this application: from its leaf, which it goes back to.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Offer(pub(crate) Box<Baton>);

/// A node's answer to a placement.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Placed(pub(crate) Box<Baton>);

/// Something to do, from the partition: see [`Op`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Visit(pub(crate) Box<Baton>);

/// The leaf has a row for this application.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Attached {
    pub(crate) baton: Box<Baton>,
    pub(crate) row: RowSlot,
}

/// A walk comes by: read or audit.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Walk(pub(crate) Box<Baton>);

/// See the module.
pub(crate) struct Application {
    slot: ApplicationSlot,
    book: Book,
    leaf: Arc<Addr<Queue>>,
    leaf_facts: Arc<QueueFacts>,
    row: Option<RowSlot>,
    me: Option<Arc<Addr<Self>>>,
    /// Where the limits of its user and group are; none while it neither asks nor holds.
    lane: Option<lane::JoinedLane>,
    /// What keeps it from starting.
    blocked: Blocked,
    /// Loosening and growth when it last declined an offer.
    last_vain: (u64, u64),
    /// Too many of its asks found no node.
    backoff: Option<Backoff>,
    /// Reused for the changes of one step.
    changes: Vec<StateChange>,
    metrics: Arc<Metrics>,
}

/// Which maxima of running applications keep an application from starting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Blocked {
    by_queue: bool,
    by_quota: bool,
}

/// What an application may try next.
enum Next {
    /// Nothing; the counters where it was looked for.
    Nothing { now: (u64, u64) },
    /// Nothing for a while; the last ask that was tried.
    Backoff { reached: AskKey },
    /// A class does not fit what quotas leave: those of its user or group, or else of its queues.
    TooMuch { class: ClassId, ask: AskSlot, waits: WaitSet, for_user: bool },
    /// A class wants a node.
    Fits { class: ClassId, ask: AskSlot },
}

impl Application {
    pub(crate) fn new(
        slot: ApplicationSlot,
        book: Book,
        leaf: Arc<Addr<Queue>>,
        leaf_facts: Arc<QueueFacts>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (last_vain, changes) = ((0, 0), Vec::new());
        Self {
            slot,
            book,
            leaf,
            leaf_facts,
            row: None,
            me: None,
            lane: None,
            blocked: Blocked::default(),
            last_vain,
            backoff: None,
            changes,
            metrics,
        }
    }

    fn key(&self) -> Option<RowKey> {
        if self.book.asks.pending().is_empty() {
            return None;
        }
        let settings = &self.leaf_facts.config.settings;
        let view = ApplicationView {
            priority: self.book.asks.priority(),
            submitted: self.book.submitted_ns,
            allocated: self.book.allocated(),
            guaranteed: self.leaf_facts.config.guaranteed.as_ref(),
            id: &self.book.id,
        };
        Some(RowKey::Application(ApplicationKey::new(
            settings.sort_policy,
            settings.priority_sort,
            &view,
        )))
    }

    /// What this application tells its leaf of itself. `None` until it has joined.
    fn update(&self) -> Option<RowUpdate> {
        let set = self.waits();
        let waits = if self.book.is_starting() {
            Waits { starting: set, ..Waits::default() }
        } else {
            Waits { running: set, ..Waits::default() }
        };
        let (key, priority) = (self.key(), self.book.asks.priority());
        Some(RowUpdate { row: self.row?, lane: self.limited_lane(), key, priority, waits })
    }

    /// Tries one class after the other until one has a node to ask, or gives the offer back.
    fn consider(&mut self, mut baton: Box<Baton>) {
        self.set_blocked(Blocked::default(), &mut baton);
        self.backoff = None;
        loop {
            let (class, ask) = match self.looking(&baton, |view| self.next(view, &baton)) {
                Next::Nothing { now } => {
                    self.last_vain = now;
                    break;
                }
                Next::Backoff { reached } => {
                    self.back_off(reached, &mut baton);
                    break;
                }
                Next::TooMuch { class, ask, waits, for_user } => {
                    if for_user {
                        self.over_user_quota(ask, &mut baton);
                    } else {
                        self.within_user_quota(ask, &mut baton);
                        self.over_quota(ask, &mut baton);
                    }
                    self.book.asks.set_waits(class, waits);
                    continue;
                }
                Next::Fits { class, ask } => (class, ask),
            };
            self.within_user_quota(ask, &mut baton);
            self.within_quota(ask, &mut baton);
            if baton.offer.asks_later && self.is_trying(ask, &baton) {
                let next = self.next_candidates(ask, &baton);
                if let Some((node, alternatives)) = next.split_first() {
                    self.place(baton, ask, *node, alternatives.to_vec());
                    return;
                }
                self.out_of_candidates(&mut baton, class, ask);
                continue;
            }
            let shape = self.book.asks.shape(class);
            let node = match &shape.required_node {
                Some(name) => baton.books.nodes.slot_of(name).filter(|slot| {
                    let nodes = &baton.books.nodes;
                    nodes.available(*slot).holds(&shape.resources)
                        && nodes.total(*slot).holds(&shape.resources)
                }),
                None => baton.books.nodes.first_fit(&shape.resources),
            };
            let fresh = self.book.asks.ask_mut(ask);
            fresh.standing = Standing::Fresh;
            fresh.reasons.clear();
            fresh.unanswered = false;
            if let Some(node) = node {
                self.place(baton, ask, node, Vec::new());
                return;
            }
            self.book.asks.ask_mut(ask).attempted = true;
            self.park_without_node(&mut baton, class);
        }
        self.rise(baton);
    }

    /// The next class that may use the offer, and what quotas say of it: those of its user and group
    /// before those of its queues (queues-and-config chapter, 5.4).
    fn next(&self, view: &View<'_>, baton: &Baton) -> Next {
        let first = self.book.asks.first(view);
        if let Some(reached) = self.last_of_pass(view, first.map(|(class, _)| class)) {
            return Next::Backoff { reached };
        }
        let Some((class, ask)) = first else {
            return Next::Nothing { now: view.now() };
        };
        let wanted = &self.book.asks.shape(class).resources;
        if view.headroom.allows(wanted) {
            return Next::Fits { class, ask };
        }
        let waits = WaitSet::Parked(Box::new(Parked::short(wanted, view)));
        let trackers = &baton.books.trackers;
        let lane = self.limited_lane();
        let for_user = lane.is_some_and(|lane| !trackers.headroom(lane).allows(wanted));
        Next::TooMuch { class, ask, waits, for_user }
    }

    /// Asks `node` to hold one instance of the ask.
    fn place(
        &mut self,
        mut baton: Box<Baton>,
        slot: AskSlot,
        node: NodeSlot,
        alternatives: Vec<NodeSlot>,
    ) {
        let ask = self.book.asks.ask(slot);
        let allocation = Allocation {
            application: self.slot,
            key: Arc::clone(&ask.key),
            uuid: Arc::clone(&ask.key),
            question: None,
            node,
            resources: ask.resources().clone(),
            priority: ask.priority(),
            placeholder: false,
            originator: ask.originator,
            form: ask.form,
            created_ns: ask.created_ns,
            bound_ns: baton.now_ns,
            released: false,
            deadline: None,
            tags: ask.tags.clone(),
        };
        let placing = Placing {
            ask: slot,
            node,
            alternatives,
            resources: ask.resources().clone(),
            key: Arc::clone(&ask.key),
            required: ask.required_node().is_some(),
            allocation: baton.books.allocations.insert(allocation),
            refusals: BTreeMap::new(),
            application: Arc::clone(
                self.me.as_ref().expect("an actor starts before it is sent to"),
            ),
            outcome: Outcome::Open,
        };
        baton.placing = Some(placing);
        Self::ask_node(baton, node);
    }

    fn ask_node(mut baton: Box<Baton>, node: NodeSlot) {
        baton.tally.post(ActorKind::Node);
        let address = baton.directory.node(node).cloned().expect("the index names live nodes");
        address.do_send(crate::node::Place(baton));
    }

    /// The node holds it: book it, and go on while nobody else comes first.
    fn settle(&mut self, mut baton: Box<Baton>, placing: &Placing) {
        let uuid = self.book.next_uuid(placing.ask);
        let priority = self.book.asks.priority();
        self.book.asks.take_one(placing.ask);
        self.book.asks.ask_mut(placing.ask).live.push(placing.allocation);
        let allocated = self.bind(&mut baton, placing.ask, placing.allocation, uuid);
        baton.offer.charge(&placing.resources);
        self.uses(&placing.resources, &mut baton);
        let now_ns = baton.now_ns;
        self.book.booked(&placing.resources, now_ns, &mut self.changes);
        let running = self.tell_changes(&mut baton);
        Self::tell_allocated(&mut baton, allocated);
        let delta = LedgerDelta { running, ..LedgerDelta::default() };
        self.go_on(baton, priority, &delta);
    }

    /// A placement becomes an allocation: it has a name and its deadline. Returns what the RM is
    /// told of it.
    fn bind(
        &mut self,
        baton: &mut Baton,
        ask: AskSlot,
        id: AllocationId,
        uuid: Arc<str>,
    ) -> Allocated {
        let ask = self.book.asks.ask(ask);
        if let Some(timeout) = ask.execution_timeout_ms {
            let alarm = Alarm::ExecutionTimeout { allocation: id };
            baton.alarms.push((std::time::Duration::from_millis(timeout.get()), alarm));
        }
        let entry = baton.books.allocations.get_mut(id);
        let entry = entry.expect("a placement on its way is in the table");
        entry.uuid = Arc::clone(&uuid);
        entry.bound_ns = baton.now_ns;
        let allocated = Allocated {
            application: Arc::clone(&self.book.id),
            key: Arc::clone(&entry.key),
            uuid: Arc::clone(&uuid),
            node: Arc::clone(baton.books.nodes.id(entry.node)),
            resources: entry.resources.clone(),
            priority: entry.priority,
            originator: entry.originator,
            preemption: ask.preemption,
            task_group: ask.task_group.clone(),
            tags: entry.tags.clone().filter(|_| entry.form == Form::Ask),
            queue: Arc::clone(&self.book.queue),
            user: Arc::clone(&self.book.user),
            group: self.group().cloned(),
            at_ns: baton.now_ns,
        };
        self.book.allocations.insert(uuid, id);
        baton.tally.placed();
        baton.directory.counts(self.leaf_facts.slot).allocated += 1;
        allocated
    }

    fn tell_allocated(baton: &mut Baton, allocated: Allocated) {
        tracing::debug!(
            application = %allocated.application,
            ask = %allocated.key,
            node = %allocated.node,
            "placed"
        );
        baton.notices.push(Notice::Allocated(Box::new(allocated)));
    }

    /// After a decision: goes on while nobody else comes first. `priority` is what it was before,
    /// `delta` how the counts of running applications changed.
    fn go_on(&mut self, mut baton: Box<Baton>, priority: i32, delta: &LedgerDelta) {
        let frames = baton.offer.frames.len();
        if delta.running != 0 || delta.starting != 0 {
            for frame in &mut baton.offer.frames {
                frame.delta.running += delta.running;
                frame.delta.starting += delta.starting;
            }
            // Whoever limits running applications must see that one more runs.
            let limited = baton.offer.frames.iter().position(|frame| frame.counts_running);
            if let Some(first) = limited {
                baton.offer.rise_to(first + 1);
            }
        }
        let goes_on = baton.offer.level() >= frames
            && priority == self.book.asks.priority()
            && self.leads(&baton);
        if goes_on {
            self.consider(baton);
        } else {
            self.rise(baton);
        }
    }

    /// Whether this application still comes before the next one of its leaf.
    fn leads(&self, baton: &Baton) -> bool {
        match (&baton.offer.runner_up, self.key()) {
            (None, _) => true,
            (Some(runner_up), Some(key)) => key < *runner_up,
            (Some(_), None) => false,
        }
    }

    /// The counters where an offer stands that is at this application.
    fn now(&self, baton: &Baton) -> (u64, u64) {
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is that of one lifetime"
        )]
        self.looking(baton, |view| view.now())
    }

    /// Gives the offer back to the leaf.
    fn rise(&mut self, mut baton: Box<Baton>) {
        baton.offer.rising = self.update();
        baton.tally.post(ActorKind::Queue);
        self.leaf.do_send(crate::queue::Rise(baton));
    }

    /// Tells the RM of the states entered in this step and arms their timers. Returns the change of
    /// the number of running applications.
    fn tell_changes(&mut self, baton: &mut Baton) -> i64 {
        let mut running = 0;
        for change in std::mem::take(&mut self.changes) {
            running += change.running();
            baton.tally.state_change(change);
            let counts = baton.directory.counts(self.leaf_facts.slot);
            counts.moved(Some(change.from), Some(change.to));
            baton.notices.push(Notice::ApplicationUpdated {
                id: Arc::clone(&self.book.id),
                state: change.to,
                at_ns: baton.now_ns,
                message: change.event.text(),
                queue: Arc::clone(&self.book.queue),
            });
            match change.to {
                ApplicationState::Completing => {
                    let alarm = Alarm::Completing {
                        application: self.slot,
                        id: Arc::clone(&self.book.id),
                        since_ns: baton.now_ns,
                    };
                    baton.alarms.push((COMPLETING_TIMEOUT, alarm));
                }
                ApplicationState::Completed | ApplicationState::Failed => {
                    baton.ended.push((self.slot, self.row));
                    baton.happens(|at| self.unplaced(at));
                    baton.happens(|at| self.event(EventKind::AppUnlinked, at));
                }
                _ => {}
            }
        }
        running
    }

    /// Its partition goes, and it with it (applications chapter, 9.4): a state that an application
    /// does not fail from is not told, nor is what it held.
    fn dismiss(&mut self, baton: &mut Baton) {
        self.book.fire(ApplicationEvent::Fail, baton.now_ns, &mut self.changes);
        for change in std::mem::take(&mut self.changes) {
            baton.tally.state_change(change);
            baton.notices.push(Notice::ApplicationUpdated {
                id: Arc::clone(&self.book.id),
                state: change.to,
                at_ns: baton.now_ns,
                message: "PartitionRemoved",
                queue: Arc::clone(&self.book.queue),
            });
        }
    }

    fn fact(&self) -> ApplicationFact {
        ApplicationFact {
            slot: self.slot,
            id: Arc::clone(&self.book.id),
            leaf: self.leaf_facts.slot.0,
            user: Arc::clone(&self.book.user),
            groups: self.book.groups.clone(),
            group: self.group().cloned(),
            state: self.book.state(),
            submitted_ns: self.book.submitted_ns,
            allocated: self.book.allocated().clone(),
            pending: self.book.asks.pending().clone(),
            priority: self.book.asks.priority(),
            allocations: self.book.allocations.values().copied().collect(),
            unsettled: self.book.unsettled.iter().copied().collect(),
            asks: ApplicationFact::asks(&self.book.asks),
            backs_off: self.backs_off_until().is_some(),
        }
    }
}

impl Actor for Application {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.metrics.actor_started(ActorKind::Application);
        ctx.set_mailbox_capacity(0);
        self.me = Some(Arc::new(ctx.address()));
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.metrics.actor_stopped(ActorKind::Application);
        self.metrics.application_lost(self.book.state());
    }
}

impl Handler<Offer> for Application {
    type Result = ();

    fn handle(&mut self, Offer(mut baton): Offer, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Application);
        self.consider(baton);
    }
}

impl Handler<Placed> for Application {
    type Result = ();

    fn handle(&mut self, Placed(mut baton): Placed, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Application);
        let mut placing = baton.placing.take().expect("a node answers with the placement in hand");
        if placing.outcome == Outcome::Held {
            if baton.offer.asks_later {
                self.ask_later(baton, &placing);
            } else {
                self.settle(baton, &placing);
            }
            return;
        }
        baton.tally.refused();
        baton.offer.refused += 1;
        let next = if placing.required {
            None
        } else {
            baton.books.nodes.next_fit(placing.node, &placing.resources)
        };
        if let Some(node) = next {
            placing.node = node;
            placing.alternatives.clear();
            placing.outcome = Outcome::Open;
            if let Some(entry) = baton.books.allocations.get_mut(placing.allocation) {
                entry.node = node;
            }
            baton.placing = Some(placing);
            Self::ask_node(baton, node);
            return;
        }
        baton.books.allocations.remove(placing.allocation);
        let ask = self.book.asks.ask_mut(placing.ask);
        ask.attempted = true;
        ask.reasons = std::mem::take(&mut placing.refusals);
        let judged = self.now(&baton);
        self.park_refused(&mut baton, placing.ask, judged);
        if baton.offer.level() >= baton.offer.frames.len() {
            self.consider(baton);
        } else {
            self.rise(baton);
        }
    }
}

impl Handler<Visit> for Application {
    type Result = ();

    fn handle(&mut self, Visit(mut baton): Visit, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Application);
        let Errand::Application(ops) = std::mem::take(&mut baton.errand) else {
            unreachable!("an application is visited with something to do");
        };
        let mut effects = ops::VisitEffects::default();
        let may_run_soon = self.book.may_run_soon();
        for op in ops {
            self.apply(op, &mut baton, &mut effects);
        }
        if effects.judge {
            let now_ns = baton.now_ns;
            self.book.judge(now_ns, &mut self.changes);
        }
        self.settle_lane(&mut baton, &mut effects);
        effects.delta.running += self.tell_changes(&mut baton);
        baton.notices.append(&mut effects.happened);
        effects.delta.starting += i64::from(self.book.may_run_soon()) - i64::from(may_run_soon);
        self.climb(baton, effects);
    }
}

impl Application {
    /// Sends a visit on to the nodes it concerns and up the queues, if anything changed.
    fn climb(&mut self, mut baton: Box<Baton>, mut effects: ops::VisitEffects) {
        // Nodes take the last first, and what was held first may have been released later.
        baton.node_work.reverse();
        if effects.touched || !effects.delta.is_nothing() {
            let loosens = effects.loosens || effects.delta.running + effects.delta.starting < 0;
            if self.book.asks.pending().is_empty() {
                baton.directory.named.forget(self.slot);
            }
            if loosens && effects.loosening == 0 {
                effects.loosening = baton.books.loosen();
            }
            baton.climb.loosens = effects.loosening;
            baton.climb.delta = prune(effects.delta);
            baton.climb.update = self.update();
            baton.climb.leaf = Some(Arc::clone(&self.leaf));
        }
        baton.visit_on();
    }
}

fn prune(mut delta: LedgerDelta) -> LedgerDelta {
    delta.allocated.prune();
    delta.pending.prune();
    delta
}

impl Handler<Attached> for Application {
    type Result = ();

    fn handle(&mut self, Attached { mut baton, row }: Attached, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Application);
        self.row = Some(row);
        baton.go_home();
    }
}

impl Handler<Walk> for Application {
    type Result = ();

    fn handle(&mut self, Walk(mut baton): Walk, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Application);
        match baton.walk.purpose {
            Purpose::Load | Purpose::LookAgain | Purpose::Room | Purpose::Figures => {}
            Purpose::Waiting => self.say_waiting(&mut baton),
            Purpose::Signal => self.signal(&mut baton),
            Purpose::Outstanding => self.show_outstanding(&mut baton),
            Purpose::Refresh => {
                let leaf = self.leaf_facts.slot;
                self.leaf_facts = Arc::clone(&baton.directory.queue(leaf).facts);
                self.rejoin_lane(&mut baton);
                self.refresh_backoff();
                baton.walk.rows.entry(leaf).or_default().extend(self.update());
            }
            Purpose::Dismiss => self.dismiss(&mut baton),
            Purpose::Read => {
                let snapshot =
                    crate::views::application(&self.book, self.backs_off_until(), &baton);
                baton.walk.applications_read.push(snapshot);
            }
            Purpose::Audit => baton.walk.facts.applications.push(self.fact()),
        }
        baton.walk_on();
    }
}

impl Handler<crate::Halt> for Application {
    type Result = ();

    fn handle(&mut self, _: crate::Halt, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
