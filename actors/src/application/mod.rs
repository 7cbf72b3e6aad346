//! An application: its asks in order, its state, what it holds; the place where an offer becomes a
//! decision.
//!
//! # Why an actor
//! What an application asks for and holds is a fact about it alone. An offer that reaches it brings
//! everything else it needs: the headroom of its queues, the node index, the allocation table.
//!
//! # Invariants
//! * A placement is booked here only after its node confirmed it, in the same step. Where the RM's
//!   predicate is answered later it is booked as unsettled ([`predicates`]).
//! * Whatever changes its pending, its state or its priority climbs to root before anything but a visit is done.
//!
//! # Where what is
//! What is decided is decided by rules (`monoceros_rules::decide`, `monoceros_rules::applications`); this
//! actor carries it out. What an RM may want of it is an [`Op`] ([`ops`]), done in [`asks`],
//! [`recovery`] and [`release`]; an offer becomes a placement in [`placing`]. How members take the
//! places of placeholders is in [`gang`], what else becomes of those in [`placeholders`], and what
//! concerns gangs that declare their members in [`bundle`], [`bundle_placed`] and [`holds`].

mod asks;
mod bundle;
mod bundle_placed;
mod deadlines;
mod effects;
mod events;
pub(crate) mod explained;
mod explained_gang;
mod gang;
mod holds;
mod limits;
mod lost;
mod ops;
mod parking;
mod placeholders;
mod placing;
mod predicates;
mod preempting;
mod recovery;
mod release;
mod reserving;
mod surveyed;

use std::num::NonZeroU64;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::applications::application::{Application as Book, Progress, StateChange};
use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::applications::backoff::Backoff;
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::applications::run_limit::RunLimit;
use monoceros_rules::audit::{ApplicationFact, BundleFact, MembersFact};
use monoceros_rules::decide::gang::GangSearch;
use monoceros_rules::decide::in_flight::BundleInFlight;
use monoceros_rules::decide::pairs::PairSearch;
use monoceros_rules::decide::preemption::Turns;
use monoceros_rules::decisions::DecidedFor;
use monoceros_rules::limits::JoinedLane;
use monoceros_rules::nodes::NodeIndex;
use monoceros_rules::order::keys::{ApplicationKey, ApplicationView};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::pending::aging::Aging;
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::ask::TaskGroup;
use monoceros_rules::values::ids::ApplicationSlot;
use monoceros_rules::waiting::{Declined, Phase, WaitSet, Waits};
use smallvec::SmallVec;

use crate::events::{Event, EventKind};
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::queue::{Queue, QueueFacts, QueueMail};
use crate::step::{
    Alarm, Baton, BatonAddress, Climbing, Consequences, Ending, Entered, Notice, Op, Owner,
    PlaceAnswer, Placement, Resume, RowKey, RowSlot, RowUpdate, Settlement, Surveyor, Visited,
};
use effects::VisitEffects;

/// What the baton brings to an application.
pub(crate) enum ApplicationMail {
    /// Orders, from the partition.
    Visit(Vec<Op>),
    /// An offer, from its leaf, which it goes back to.
    Offer,
    /// A node has answered to a placement.
    Placed(Placement, PlaceAnswer),
    /// A survey, from whoever it was at before.
    Survey(Box<Surveyor>),
}

/// The nodes have done what an offer decided about several of them: it goes on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Resumed {
    pub(crate) baton: Box<Baton>,
    pub(crate) resume: Resume,
}

/// The RM answered questions about placements of this application, and the nodes have confirmed
/// what passed, or not.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Answered {
    pub(crate) baton: Box<Baton>,
    /// By question, in the order of the answers.
    pub(crate) answers: Vec<(u64, Settlement)>,
}

/// The leaf has a row for this application.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Attached {
    pub(crate) baton: Box<Baton>,
    pub(crate) row: RowSlot,
}

/// The actor of one application. Its state, asks and holdings are the [`book`](Self::book), a
/// struct of the rules; the other fields are what it needs to take part in steps.
pub(crate) struct Application {
    slot: ApplicationSlot,
    book: Book,
    leaf: Arc<BatonAddress<Queue>>,
    leaf_facts: Arc<QueueFacts>,
    /// Shared by all that is told of its asks and allocations.
    owner: Arc<Owner>,
    row: Option<RowSlot>,
    /// The lane in which the limits of its user and group count; none while it neither asks nor
    /// holds.
    lane: Option<JoinedLane>,
    /// What keeps it from starting.
    blocked: Blocked,
    /// Up to where it was looked at when it last declined an offer.
    declined: Declined,
    /// The search for members that take the places of placeholders.
    pairs: PairSearch,
    /// The task groups of its gang whose asks go before others, because they lost members.
    owed: SmallVec<[TaskGroup; 1]>,
    /// The search for places of a declared gang, all at once.
    bundle: Option<Box<GangSearch>>,
    /// The members of the gang that have places and wait for the RM's predicates.
    in_flight: Option<Box<BundleInFlight>>,
    /// How long it may run.
    run_limit: RunLimit,
    /// Too many of its asks found no node.
    backoff: Option<Backoff>,
    /// Which of its asks are old enough to reserve a node.
    aging: Aging,
    /// The turns of its preemptors that may look for victims later; `None` while there are none.
    turns: Option<Box<Turns>>,
    /// Its leaf lists it as accepted and allocating.
    is_listed: bool,
    /// The directory lists it as [untold](crate::step::Directory::untold).
    is_unsignalled: bool,
    /// Reused for the changes of one step.
    changes: Vec<StateChange>,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

/// Which maxima of running applications keep an application from starting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Blocked {
    by_queue: bool,
    by_quota: bool,
}

impl Application {
    pub(crate) fn new(
        slot: ApplicationSlot,
        book: Book,
        run_limit_ms: Option<NonZeroU64>,
        leaf: Arc<BatonAddress<Queue>>,
        leaf_facts: Arc<QueueFacts>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            slot,
            owner: Arc::new(Owner::of(&book, None)),
            book,
            leaf,
            leaf_facts,
            row: None,
            lane: None,
            blocked: Blocked::default(),
            declined: Declined::default(),
            pairs: PairSearch::default(),
            owed: SmallVec::new(),
            bundle: None,
            in_flight: None,
            run_limit: RunLimit::new(run_limit_ms),
            backoff: None,
            aging: Aging::default(),
            turns: None,
            is_listed: false,
            is_unsignalled: false,
            changes: Vec::new(),
            _counted: metrics.counted(ActorKind::Application),
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
            lacks_members: self.lacks_members(),
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

    /// What its asks wait for, as far as they are looked at.
    fn waits(&self) -> WaitSet {
        match &self.backoff {
            Some(backoff) => backoff.waits(),
            None if let Some(native) = self.book.undecided() => {
                let waits = self.bundle.as_ref().map(|bundle| bundle.waits(native));
                waits.unwrap_or_default().declined(self.declined.at(Phase::Normal))
            }
            None => self.book.asks.waits().declined(self.declined.at(Phase::Normal)),
        }
    }

    /// What this application tells its leaf of itself. `None` until it has joined.
    fn update(&self) -> Option<RowUpdate> {
        let pairs = self.pairs.waits().clone().declined(self.declined.at(Phase::Pairs));
        let reserved = self.book.asks.reserved_waits();
        let reserved = reserved.declined(self.declined.at(Phase::Reserved));
        let waits = Waits::new(self.waits(), reserved, pairs, self.book.is_starting());
        let (key, priority) = (self.key(), self.book.asks.priority());
        Some(RowUpdate { row: self.row?, lane: self.limited_lane(), key, priority, waits })
    }

    /// Gives the offer back to the leaf.
    fn rise(&mut self, mut baton: Box<Baton>) {
        baton.tally.post(ActorKind::Queue);
        let update = self.update().expect("an application is offered to after it has joined");
        self.leaf.hand(baton, QueueMail::Rise(update));
    }

    /// Tells the RM of the states entered in this step and arms their timers. Returns the change of
    /// the number of running applications.
    fn tell_changes(&mut self, baton: &mut Baton) -> i64 {
        let mut running = 0;
        for change in std::mem::take(&mut self.changes) {
            running += change.running();
            baton.tally.state_change(change, &self.book.queue);
            let counts = baton.directory.counts(self.leaf_facts.slot);
            counts.moved(Some(change.from), Some(change.to));
            if let Some(entry) = baton.directory.applications.find_mut(self.slot) {
                entry.state = change.to;
            }
            baton.effects.notify(self.entered(change.to, change.message, baton.now_ns));
            match change.to {
                ApplicationState::Completing => {
                    let alarm = self.alarm(Op::CompletingOver { since_ns: baton.now_ns });
                    let leaf = &baton.directory.queue(self.leaf_facts.slot).facts;
                    baton.effects.remind(leaf.config.settings.completing_timeout, alarm);
                }
                ApplicationState::Running => {
                    if let Some((wait, until_ns)) = self.run_limit.begin(baton.now_ns) {
                        let number = baton.effects.arm(wait, self.alarm(Op::RunOver { until_ns }));
                        self.run_limit.armed(until_ns, number);
                    }
                }
                ApplicationState::Completed | ApplicationState::Failed => {
                    baton.effects.disarm(self.run_limit.end());
                    baton.effects.ended.rows.push((self.slot, self.row));
                    baton.effects.ended.terminated.push(Ended::of(&self.book));
                    baton.happens(|at| Event::unplaced(&self.book, at));
                    baton.happens(|at| Event::about(&self.book, EventKind::AppUnlinked, at));
                }
                _ => {}
            }
        }
        running
    }

    /// The application, for the records of its decisions.
    fn decided_for(&self) -> DecidedFor<'_> {
        DecidedFor { leaf: &self.leaf_facts.config.path, id: &self.book.id }
    }

    /// The alarm that brings the application this order.
    fn alarm(&self, op: Op) -> Alarm {
        Alarm::Order { application: self.slot, id: Arc::clone(&self.book.id), op: Box::new(op) }
    }

    /// That it is in this state from now on.
    fn entered(&self, state: ApplicationState, message: &'static str, at_ns: i64) -> Notice {
        let application = Arc::clone(&self.book.id);
        let queue = Arc::clone(&self.book.queue);
        let entered = Entered { application, queue, state, at_ns, message };
        Notice::ApplicationUpdated(Arc::new(entered))
    }

    /// The partition closes, and the application goes with it. It is told as `Failing` if its state
    /// allows that, and each of its asks as ended; what it held is not told
    /// (`docs/partitions.md#closing-a-partition`).
    pub(crate) fn dismiss(&mut self, baton: &mut Baton) {
        for (form, key) in self.unanswered() {
            self.tell_ask_released(form, key, Ending::StoppedByRm, "partition removed", baton);
        }
        self.book.fire(ApplicationEvent::Fail, baton.now_ns, &mut self.changes);
        for change in std::mem::take(&mut self.changes) {
            baton.tally.state_change(change, &self.book.queue);
            baton.effects.notify(self.entered(change.to, "PartitionRemoved", baton.now_ns));
        }
    }

    /// What the application says of itself to an audit.
    pub(crate) fn fact(&self, nodes: &NodeIndex) -> ApplicationFact {
        ApplicationFact {
            domains: self.book.domains(),
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
            allocations: self.all_allocations(),
            unsettled: self.book.unsettled.iter().copied().collect(),
            asks: ApplicationFact::asks(&self.book.asks, nodes),
            placeholders: self.book.placeholders().clone(),
            task_groups: self
                .book
                .gang
                .iter()
                .flat_map(|gang| gang.groups())
                .map(|(name, group)| (Arc::clone(name), group.clone()))
                .collect(),
            reserved: self.book.asks.reserved_len(),
            suspended: self.book.asks.suspended_len(),
            has_placeholder_timer: self.book.gang.as_ref().is_some_and(|it| it.timer.is_some()),
            backs_off: self.backs_off_until().is_some(),
            aging_ns: self.aging.deadline_ns(),
            members: self.book.gang.as_deref().map(MembersFact::of).unwrap_or_default(),
            is_native: self.book.has_declared_members(),
            bundle: self.book.undecided().map(|native| {
                let rests = self.bundle.as_ref().is_some_and(|bundle| bundle.rests(nodes));
                BundleFact::of(native, rests)
            }),
        }
    }
}

impl Actor for Application {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.metrics.application_lost(self.book.state());
    }
}

impl Visited for Application {
    type Baton = Baton;
    type Mail = ApplicationMail;

    fn mail(baton: &mut Baton) -> &mut Option<ApplicationMail> {
        &mut baton.mail.application
    }

    fn visit(&mut self, baton: Box<Baton>, mail: ApplicationMail, _ctx: &mut Self::Context) {
        match mail {
            ApplicationMail::Visit(ops) => self.ordered(baton, ops),
            ApplicationMail::Offer => self.offered(baton),
            ApplicationMail::Placed(placement, answer) => self.answered(baton, placement, answer),
            ApplicationMail::Survey(surveyor) => self.surveyed(baton, surveyor),
        }
    }
}

impl Application {
    /// A survey is here.
    fn surveyed(&mut self, mut baton: Box<Baton>, mut surveyor: Box<Surveyor>) {
        let _timer = baton.tally.message(ActorKind::Application);
        surveyor.survey.at_application(self, &mut baton);
        surveyor.go_on(baton);
    }

    fn offered(&mut self, mut baton: Box<Baton>) {
        let _timer = baton.tally.message(ActorKind::Application);
        if baton.offer.phase == Phase::Pairs {
            self.pairs.begin(&baton.books.nodes);
        }
        self.consider(baton);
    }

    /// A node has answered to a placement.
    fn answered(&mut self, mut baton: Box<Baton>, placement: Placement, answer: PlaceAnswer) {
        let _timer = baton.tally.message(ActorKind::Application);
        if !matches!(answer, PlaceAnswer::NoRoom | PlaceAnswer::Refused) {
            baton.tally.node_round_over();
        }
        if matches!(answer, PlaceAnswer::Asked(_))
            && let Some(entry) = baton.books.allocations.get_mut(placement.allocation)
            && let Some(course) = entry.course_mut()
        {
            course.is_asked_rm = true;
        }
        match (answer, placement.takes) {
            (PlaceAnswer::Held, None) => self.book(baton, &placement),
            (PlaceAnswer::Held, Some(takes)) if takes.hold => {
                self.take_hold(baton, &placement, takes);
            }
            (PlaceAnswer::Held, Some(takes)) => self.take_place(baton, &placement, takes, false),
            (PlaceAnswer::Asked(question), None) => self.await_answer(baton, &placement, question),
            (PlaceAnswer::Asked(_), Some(takes)) => self.take_place(baton, &placement, takes, true),
            (PlaceAnswer::NoRoom | PlaceAnswer::Refused, _) => {
                baton.note_refused(answer, placement.node);
                self.refused(baton, placement);
            }
        }
    }
}

impl Handler<Resumed> for Application {
    type Result = ();

    fn handle(&mut self, Resumed { mut baton, resume }: Resumed, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Application);
        self.go_on(baton, resume.priority, &resume.delta);
    }
}

impl Handler<Answered> for Application {
    type Result = ();

    fn handle(&mut self, Answered { mut baton, answers }: Answered, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Application);
        self.visited(baton, |application, baton, effects| {
            for (question, settlement) in answers {
                let flight = application.in_flight.as_ref();
                if let Some(ask) = flight.and_then(|flight| flight.ask_of(question)) {
                    let about = (question, ask);
                    application.take_bundle_answer(about, settlement, baton, effects);
                } else {
                    application.take_answer(question, settlement, baton, effects);
                }
            }
            application.go_on_with_bundle(baton, effects);
        });
    }
}

impl Application {
    /// It is to do this, in order.
    fn ordered(&mut self, mut baton: Box<Baton>, ops: Vec<Op>) {
        let _timer = baton.tally.message(ActorKind::Application);
        self.visited(baton, |application, baton, effects| {
            // An event for each, mostly.
            effects.happened.reserve(ops.len());
            let mut ops = ops.into_iter();
            while let Some(op) = ops.next() {
                if let Some(rest) = application.apply(op, baton, effects) {
                    let rest = std::iter::once(rest).chain(ops).collect();
                    baton.effects.follow_ups.unfinished.push((application.slot, rest));
                    break;
                }
            }
            application.go_on_with_bundle(baton, effects);
        });
    }
}

impl Application {
    /// Changes something here and carries out what follows from it: states, limits, notices. Then
    /// the nodes and queues concerned are told.
    fn visited(
        &mut self,
        mut baton: Box<Baton>,
        act: impl FnOnce(&mut Self, &mut Baton, &mut VisitEffects),
    ) {
        let mut effects = VisitEffects::default();
        let progress = self.book.progress();
        act(self, &mut baton, &mut effects);
        self.complete_bundle(&mut baton, &mut effects);
        for slot in self.book.reserved_for_placeholders() {
            self.end_reservation(slot, End::Placeholders, &mut baton);
        }
        self.tell_ended_holds(&mut baton, &mut effects);
        self.report_lost_members(&baton, &mut effects);
        self.review_lost(&baton);
        if effects.left.anything() {
            let now_ns = baton.now_ns;
            self.book.judge(effects.left, now_ns, &mut self.changes);
        }
        baton.effects.disarm(self.book.take_unneeded_deadline());
        self.charge_limits(&mut baton, &mut effects);
        effects.delta.running += self.tell_changes(&mut baton);
        baton.effects.notify_all(&mut effects.happened);
        effects.delta.starting += self.moved_on(progress, &baton.books.nodes);
        self.list_allocating(&mut baton);
        self.list_untold(&mut baton);
        self.count_held(&mut baton);
        let consequences = self.consequences(&mut baton, effects);
        baton.follow(consequences);
    }

    /// Compares its progress with that before a change. If the application has its place among those
    /// that run since then, all its asks are tried again: while it could not start, the queues above
    /// passed over its asks whatever was loosened, so a loosening in between would never be seen. Returns
    /// the change of how many hold something and do not run.
    fn moved_on(&mut self, was: Progress, nodes: &NodeIndex) -> i64 {
        if was.is_starting && !self.book.is_starting() {
            self.book.asks.wake_all(nodes);
            if let Some(bundle) = &mut self.bundle
                && self.in_flight.is_none()
            {
                bundle.make_due();
            }
        }
        i64::from(self.book.may_run_soon()) - i64::from(was.may_run_soon)
    }

    /// Has its leaf list it among the accepted applications that hold something or have a node
    /// reserved, or not any more.
    fn list_allocating(&mut self, baton: &mut Baton) {
        let is_allocating = self.book.is_allocating();
        if std::mem::replace(&mut self.is_listed, is_allocating) == is_allocating {
            return;
        }
        let listed = &mut baton.directory.queue_mut(self.leaf_facts.slot).allocating;
        if is_allocating {
            listed.insert(Arc::clone(&self.book.id));
        } else {
            listed.remove(&self.book.id);
        }
    }

    /// Has the directory list it if the next look for more machines may have something to tell of
    /// it. That look takes it off.
    fn list_untold(&mut self, baton: &mut Baton) {
        if !self.is_unsignalled && self.book.asks.any_unsignalled() {
            self.is_unsignalled = true;
            baton.directory.list_untold(self.leaf_slot(), self.slot);
        }
    }

    /// The nodes that a visit concerns, and what climbs, if anything changed.
    fn consequences(&mut self, baton: &mut Baton, mut effects: VisitEffects) -> Consequences {
        // Work is taken from the end of the list, and an amount must be held before it is released.
        effects.node_work.reverse();
        let node_work = effects.node_work;
        if !effects.touched && effects.delta.is_nothing() {
            return Consequences { node_work, ..Consequences::default() };
        }
        if self.book.asks.pending().is_empty() {
            baton.directory.named.forget(self.slot);
        }
        let loosens = effects.loosens || effects.delta.running + effects.delta.starting < 0;
        if loosens && !effects.loosening.is_some() {
            effects.loosening = baton.books.loosen();
        }
        let (delta, loosening) = (prune(effects.delta), effects.loosening);
        if !delta.allocated.is_empty() || delta.preempting.has_negative() {
            // Its queue may have more than its guarantee now.
            baton.books.note_change();
        }
        let is_unchecked = effects.is_unchecked;
        let waits = baton.books.is_waiting
            || !self.book.asks.pending().is_empty()
            || !delta.pending.is_empty();
        let climbing = self.row.map(|_| {
            let update = if waits { self.update() } else { None };
            (self.leaf_facts.slot, Climbing { update, delta, loosening, is_unchecked })
        });
        Consequences { node_work, climbing, resume: None }
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

impl Handler<crate::Halt> for Application {
    type Result = ();

    fn handle(&mut self, _: crate::Halt, ctx: &mut Self::Context) {
        let _timer = self.metrics.handles(ActorKind::Application);
        ctx.stop();
    }
}
