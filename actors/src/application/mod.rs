//! An application: its asks in order, its state and its holdings. Here an offer becomes a decision.
//!
//! # Why an actor
//! The asks and holdings of an application are facts about it alone. An offer that reaches it
//! brings all else that a decision needs: the headroom of its queues, the node index, the
//! allocation table.
//!
//! # Invariants
//! * A placement is booked here only after its node confirmed it, in the same step. Where the RM's
//!   predicate is answered later it is booked as unsettled ([`predicates`]).
//! * A change of its pending amount, its state or its priority climbs to root before a step other
//!   than a visit begins.
//! * A change of its holdings changes the usage of its user and group in the same visit: a
//!   placement at once, all other changes once for the whole visit, by the same delta that climbs
//!   the queues. [`Membership`] decides when the application counts among their running
//!   applications.
//!
//! # Where to find what
//! Rules decide (`monoceros_rules::decide`, `monoceros_rules::applications`), and this actor
//! carries it out. An order to it is an [`Op`] ([`ops`]), done in [`asks`], [`recovery`] and
//! [`release`]; an offer becomes a placement in [`placing`]. Members take the places of
//! placeholders in [`gang`]; the rest about placeholders is in [`placeholders`]. Gangs that declare
//! their members are in [`bundle`], [`bundle_placed`] and [`holds`].

mod asks;
mod bundle;
mod bundle_placed;
mod effects;
mod events;
pub(crate) mod explained;
mod explained_gang;
mod gang;
mod holds;
mod imaged;
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
use monoceros_rules::applications::application::{Application as Book, StateChange};
use monoceros_rules::applications::application_state::{ApplicationEvent, ApplicationState};
use monoceros_rules::applications::backoff::Backoff;
use monoceros_rules::applications::blocked::Blocked;
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::applications::run_limit::RunLimit;
use monoceros_rules::decide::gang::GangSearch;
use monoceros_rules::decide::in_flight::BundleInFlight;
use monoceros_rules::decide::pairs::PairSearch;
use monoceros_rules::decide::preemption::Turns;
use monoceros_rules::decisions::DecidedFor;
use monoceros_rules::limits::Membership;
use monoceros_rules::pending::aging::Aging;
use monoceros_rules::runtimes::ClassCache;
use monoceros_rules::values::ids::ApplicationSlot;
use monoceros_rules::waiting::{Declined, Phase, Waits};

use crate::events::{Event, EventKind};
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::queue::{Queue, QueueFacts, QueueMail};
use crate::step::{
    Alarm, Baton, BatonAddress, DueOp, Ending, Imaged, Listed, Op, Owner, PlaceAnswer, Placement,
    Resume, RowKey, RowSlot, RowUpdate, Settlement, Surveyor, Visited,
};
pub(crate) use imaged::ApplicationImage;

/// Mail that the baton brings to an application.
pub(crate) enum ApplicationMail {
    /// Orders, from the partition.
    Visit(Vec<Op>),
    /// An offer from its leaf, to which it returns.
    Offer,
    /// A node has answered to a placement.
    Placed(Placement, PlaceAnswer),
    /// A survey that stops here.
    Survey(Box<Surveyor>),
}

/// Several nodes have carried out a decision, and the offer continues.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Resumed {
    pub(crate) baton: Box<Baton>,
    pub(crate) resume: Resume,
}

/// The RM answered questions about placements of this application, and the nodes have confirmed or
/// refused those that passed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Answered {
    pub(crate) baton: Box<Baton>,
    /// The outcomes, each with the number of its question, in the order of the answers.
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
    pub(crate) slot: ApplicationSlot,
    book: Book,
    leaf: Arc<BatonAddress<Queue>>,
    pub(crate) leaf_facts: Arc<QueueFacts>,
    /// Shared by all notices of its asks and allocations.
    owner: Arc<Owner>,
    row: Option<RowSlot>,
    /// The lane in which the limits of its user and group count (`docs/limits.md`).
    pub(crate) lane: Membership,
    /// The maxima of running applications that keep it from starting.
    blocked: Blocked,
    /// The epochs at which it last declined an offer, by phase.
    declined: Declined,
    /// The search for members that take the places of placeholders.
    pairs: PairSearch,
    /// The search for places of a declared gang, all at once.
    bundle: Option<Box<GangSearch>>,
    /// The members of the gang that have places and wait for the RM's predicates.
    in_flight: Option<Box<BundleInFlight>>,
    /// How long it may run.
    run_limit: RunLimit,
    /// Set while too many of its asks found no node.
    backoff: Option<Backoff>,
    /// The ages of asks that may reserve a node once they are old enough.
    aging: Aging,
    /// The turns of its preemptors for which victims may be searched later; `None` while there are
    /// none.
    turns: Option<Box<Turns>>,
    /// The classes of its run times; `None` until one of its allocations has ended.
    run_classes: Option<Box<ClassCache>>,
    listed: Listed,
    imaged: Imaged,
    /// Reused for the changes of one step.
    changes: Vec<StateChange>,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

impl Application {
    pub(crate) fn new(
        slot: ApplicationSlot,
        book: Book,
        run_limit_ms: Option<NonZeroU64>,
        leaf: Arc<BatonAddress<Queue>>,
        leaf_facts: Arc<QueueFacts>,
        imaged: Imaged,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            slot,
            owner: Arc::new(Owner::of(&book, None)),
            book,
            leaf,
            leaf_facts,
            row: None,
            lane: Membership::default(),
            blocked: Blocked::default(),
            declined: Declined::default(),
            pairs: PairSearch::default(),
            bundle: None,
            in_flight: None,
            run_limit: RunLimit::new(run_limit_ms),
            backoff: None,
            aging: Aging::default(),
            turns: None,
            run_classes: None,
            listed: Listed::default(),
            imaged,
            changes: Vec::new(),
            _counted: metrics.counted(ActorKind::Application),
            metrics,
        }
    }

    /// Returns the update of its row in the leaf. `None` until it has joined.
    fn update(&self) -> Option<RowUpdate> {
        let asks = &self.book.asks;
        let waits = match &self.backoff {
            Some(backoff) => backoff.waits(),
            None if let Some(native) = self.book.undecided() => {
                let waits = self.bundle.as_ref().map(|bundle| bundle.waits(native));
                waits.unwrap_or_default().declined(self.declined.at(Phase::Normal))
            }
            None => asks.waits().declined(self.declined.at(Phase::Normal)),
        };
        let pairs = self.pairs.waits().clone().declined(self.declined.at(Phase::Pairs));
        let reserved = asks.reserved_waits().declined(self.declined.at(Phase::Reserved));
        let waits = Waits::new(waits, reserved, pairs, self.book.is_starting());
        let key = self.book.sort_key(&self.leaf_facts.config).map(RowKey::Application);
        let (lane, priority) = (self.lane.limited(), asks.priority());
        Some(RowUpdate { row: self.row?, lane, key, priority, waits })
    }

    /// Returns the offer to the leaf.
    fn rise(&mut self, mut baton: Box<Baton>) {
        baton.tally.post(ActorKind::Queue);
        let update = self.update().expect("an application is offered to after it has joined");
        self.leaf.hand(baton, QueueMail::Rise(update));
    }

    /// Notifies the RM of the states entered in this step and arms their timers. Returns the change of
    /// the number of running applications.
    fn tell_changes(&mut self, baton: &mut Baton) -> i64 {
        let mut running = 0;
        for change in std::mem::take(&mut self.changes) {
            running += change.running();
            baton.count_change(self.slot, self.leaf_facts.slot, change, &self.book.queue);
            baton.notify_entered(&self.book, change.to, change.message);
            match change.to {
                ApplicationState::Completing => {
                    let alarm =
                        self.alarm(Op::Due(DueOp::CompletingOver { since_ns: baton.now_ns }));
                    let leaf = &baton.directory.queue(self.leaf_facts.slot).facts;
                    baton.effects.remind(leaf.config.settings.completing_timeout, alarm);
                }
                ApplicationState::Running => {
                    if let Some((wait, until_ns)) = self.run_limit.begin(baton.now_ns) {
                        let number = baton
                            .effects
                            .arm(wait, self.alarm(Op::Due(DueOp::RunOver { until_ns })));
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

    /// Returns leaf and id of the application, for the records of its decisions.
    fn decided_for(&self) -> DecidedFor<'_> {
        DecidedFor { leaf: &self.leaf_facts.config.path, id: &self.book.id }
    }

    /// Returns the alarm that brings the application this order.
    fn alarm(&self, op: Op) -> Alarm {
        Alarm::Order { application: self.slot, id: Arc::clone(&self.book.id), op: Box::new(op) }
    }

    /// Ends the application with its partition. The RM is notified that it is `Failing`, if its state
    /// allows that, and that each of its asks has ended; it is not notified of its allocations
    /// (`docs/partitions.md#closing-a-partition`).
    pub(crate) fn dismiss(&mut self, baton: &mut Baton) {
        for ask in self.book.unanswered() {
            let (ending, message) = (Ending::StoppedByRm, "partition removed");
            baton.notify_ask_released(&self.book.id, ask, ending, message);
        }
        self.book.fire(ApplicationEvent::Fail, baton.now_ns, &mut self.changes);
        for change in std::mem::take(&mut self.changes) {
            baton.tally.state_change(change, &self.book.queue);
            baton.notify_entered(&self.book, change.to, "PartitionRemoved");
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

    fn visit(&mut self, mut baton: Box<Baton>, mail: ApplicationMail, _ctx: &mut Self::Context) {
        self.give_image(&mut baton);
        match mail {
            ApplicationMail::Visit(ops) => self.ordered(baton, ops),
            ApplicationMail::Offer => {
                let _timer = baton.tally.message(ActorKind::Application);
                if baton.offer.phase == Phase::Pairs {
                    self.pairs.begin(&baton.books.nodes);
                }
                self.consider(baton);
            }
            ApplicationMail::Placed(placement, answer) => self.answered(baton, placement, answer),
            ApplicationMail::Survey(mut surveyor) => {
                let _timer = baton.tally.message(ActorKind::Application);
                surveyor.survey.at_application(self, &mut baton);
                surveyor.go_on(baton);
            }
        }
    }
}

impl Application {
    /// Handles the answer of a node to a placement.
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
        self.give_image(&mut baton);
        let _timer = baton.tally.message(ActorKind::Application);
        self.go_on(baton, resume.priority, &resume.delta);
    }
}

impl Handler<Answered> for Application {
    type Result = ();

    fn handle(&mut self, Answered { mut baton, answers }: Answered, _ctx: &mut Self::Context) {
        self.give_image(&mut baton);
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

impl Handler<Attached> for Application {
    type Result = ();

    fn handle(&mut self, Attached { mut baton, row }: Attached, _ctx: &mut Self::Context) {
        self.give_image(&mut baton);
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
