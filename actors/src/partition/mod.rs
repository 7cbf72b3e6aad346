//! A partition: the inbox that everything enters by, and the home of the books.
//!
//! # Why an actor
//! Whatever can change a partition enters here, in a queue, and runs as one *step* at a time: the
//! next starts when the last has come home. Steps of an RM and trips of offers take turns, so that
//! neither side starves.
//!
//! # Invariants
//! * The baton is either here or out with exactly one step.
//! * A step with something left on its agenda goes on before anything else begins.
//! * After an offer that found nothing, nothing runs until a step comes: an idle partition costs
//!   nothing.
//! * While a new configuration is proposed, nothing begins until it is concluded (`reloading`).
//! * What a step said is handed to the outlet when the step is at home, in the order it was said, at
//!   the latest when nothing else is left to do at once.

mod admission;
mod control;
mod deadlines;
mod dynamic;
mod early;
mod foreign;
mod nodes;
mod observing;
pub(crate) mod oracle;
mod queue_lifecycle;
mod reloading;
mod requests;
mod scale_up;
mod standing;
pub(crate) mod surveys;
mod tasks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use monoceros_config::PartitionConfig;
use monoceros_config::placement::Placement;
use monoceros_rules::books::Books;
use monoceros_rules::limits::Tables;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::values::epoch::Loosening;
use tokio::time::Instant;

use crate::api::callback::ResourceManagerCallback;
use crate::api::predicates::{QuestionId, Verdict};
use crate::clock::Clock;
use crate::events::{Event, EventKind, Tracking};
use crate::front::rm::{Barrier, Control, Credit, Intake, Rm};
use crate::metrics::{ActorKind, Metrics};
use crate::outlet::{Outlet, Publish};
use crate::partition::oracle::{Oracle, Watch};
use crate::step::{Alarm, Baton, Directory, Guard, Notice, Offering, Survey};
use crate::tally::Tally;
use control::Controls;
pub(crate) use control::{Answers, Unasked};
pub(crate) use deadlines::{BACKOFF_LEAST, COMPLETING_TIMEOUT};
pub(crate) use early::Awaited;
use early::Early;
pub(crate) use nodes::NodeReported;
pub(crate) use observing::Measurements;
use queue_lifecycle::{add_queue, node_order};
use reloading::Proposal;
pub(crate) use reloading::{Conclude, Preparing, Wanted};
pub(crate) use requests::{ForeignRequest, NewNode, Request};
pub(crate) use standing::StateChange;
use surveys::Refresh;
use tasks::Task;

/// Decisions after which an offer comes home, so that steps get their turn.
pub(crate) const DECISIONS_PER_TRIP: u32 = 64;
/// Notices after which the outlet gets them though more steps follow at once.
const NOTICES_TOGETHER: usize = 64;
/// Notices on their way to the RM above which nothing new is decided.
const OUTSTANDING_MAX: usize = 65_536;

/// Requests of the RM, in order. The Rm hands in a bounded number ahead and learns by
/// [`Credit`] when they are done.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Requests(pub(crate) Vec<Request>);

/// A baton comes home.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Home(pub(crate) Box<Baton>);

/// The RM has taken this many notices.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Ack(pub(crate) usize);

/// The partition ends: everything in it stops, without a word to the RM.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Close;

/// The books are gone: the partition ends at once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Abandon;

enum Entry {
    Request(Request),
    /// The last request of a chunk is done.
    ChunkDone,
    Alarm(Alarm),
    Read(Box<dyn Survey>),
    Control(Control),
    /// No verdict: the question never reached the RM.
    Answers(Vec<(QuestionId, Option<Verdict>)>),
}

/// Steps and offers take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Door,
    Offer,
}

/// What the baton is out for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trip {
    #[default]
    Step,
    Offer,
}

/// See the module.
pub(crate) struct Partition {
    name: Arc<str>,
    config: Arc<PartitionConfig>,
    /// Where applications go, by the rules of the configuration.
    placement: Placement,
    clock: Clock,
    baton: Option<Box<Baton>>,
    inbox: VecDeque<Entry>,
    agenda: VecDeque<Task>,
    /// Something may be decidable: no offer has come home in vain since the last step.
    may_decide: bool,
    /// Whose turn it is while both have something to do.
    turn: Turn,
    trip: Trip,
    /// Root's capacity is not what the index says: refreshed before anything but another node.
    capacity_changed: bool,
    deadlines: BTreeMap<(Instant, u64), Alarm>,
    next_deadline: u64,
    /// When each deadline of an allocation is due, to take it back.
    due: BTreeMap<u64, Instant>,
    timer: Option<(Instant, SpawnHandle)>,
    foreign: foreign::ForeignTable,
    observed: observing::ObservedTable,
    /// What came before the application or node that it names.
    early: Early,
    intake: Intake,
    outlet: Addr<Outlet>,
    outstanding: usize,
    rm: Addr<Rm>,
    /// To be passed on when an offer has come home in vain and the inbox is empty.
    barriers: Vec<Arc<Barrier>>,
    watch: Watch,
    oracle: Oracle,
    scale_up: scale_up::Signal,
    /// Dynamic queues in which nothing is.
    empty: dynamic::EmptyQueues,
    /// What it takes; see [`standing`].
    state: ObjectState,
    state_since_ns: i64,
    /// A configuration that is wanted: nothing happens until it is known whether it comes.
    proposal: Option<Proposal>,
    controls: Controls,
    closing: bool,
    metrics: Arc<Metrics>,
}

/// What a partition shows of itself beside its books.
pub(crate) struct View<'a> {
    pub(crate) name: &'a str,
    pub(crate) config: &'a PartitionConfig,
    pub(crate) state: ObjectState,
    pub(crate) state_since_ns: i64,
}

/// What a partition is made of.
pub(crate) struct PartitionParams {
    pub(crate) name: Arc<str>,
    /// How many partitions its RM had before it in this session.
    pub(crate) nth: u64,
    pub(crate) config: Arc<PartitionConfig>,
    pub(crate) rm: Addr<Rm>,
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    pub(crate) clock: Clock,
    pub(crate) reorder_window: Duration,
    pub(crate) intake: Intake,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) watch: Watch,
    pub(crate) tracking: Tracking,
}

impl Partition {
    /// A partition with its queues, on the present arbiter.
    pub(crate) fn new(params: PartitionParams, ctx: &mut Context<Self>) -> Self {
        let PartitionParams {
            name,
            nth,
            config,
            rm,
            callback,
            clock,
            metrics,
            watch,
            tracking,
            ..
        } = params;
        ctx.set_mailbox_capacity(0);
        let mut directory = Directory::default();
        add_queue(&config.root, None, true, &metrics, &mut directory);
        let guard = Guard { rm: rm.clone(), partition: Arc::clone(&name), armed: true };
        let mut books = Books::new(node_order(&config));
        books.unsettled.widest = watch.candidates_per_question;
        books.unsettled.number_as(nth);
        let baton = Box::new(Baton {
            books,
            directory,
            now_ns: clock.now_ns(),
            notices: Vec::new(),
            alarms: Vec::new(),
            ended: Vec::new(),
            woken: Vec::new(),
            woken_by_return: Vec::new(),
            disarmed: Vec::new(),
            offer: Offering::default(),
            tracking,
            tally: Tally::new(&metrics),
            callback,
            question: monoceros_proto::si::v1::PredicatesArgs::default(),
            home: Arc::new(ctx.address()),
            guard,
        });
        let outlet = Outlet::new(Arc::clone(&name), rm.clone(), &metrics).start();
        Self {
            name,
            placement: admission::placement(&config),
            config,
            clock,
            baton: Some(baton),
            inbox: VecDeque::new(),
            agenda: VecDeque::new(),
            may_decide: false,
            turn: Turn::Door,
            trip: Trip::Step,
            capacity_changed: false,
            deadlines: BTreeMap::new(),
            next_deadline: 0,
            due: BTreeMap::new(),
            timer: None,
            foreign: foreign::ForeignTable::default(),
            observed: observing::ObservedTable::default(),
            early: Early::new(params.reorder_window),
            intake: params.intake,
            outlet,
            outstanding: 0,
            rm,
            barriers: Vec::new(),
            oracle: Oracle::default(),
            watch,
            scale_up: scale_up::Signal::default(),
            empty: dynamic::EmptyQueues::default(),
            state: ObjectState::Active,
            state_since_ns: clock.now_ns(),
            proposal: None,
            controls: Controls::default(),
            closing: false,
            metrics,
        }
    }

    /// The events of the queues and limits that there are from the start.
    fn begin(&mut self) {
        let baton = self.baton.as_mut().expect("the baton is at home until the first step");
        let queues = baton.directory.all_queues();
        let paths: Vec<_> = queues.map(|entry| Arc::clone(&entry.facts.config.path)).collect();
        for path in paths {
            baton.happens(|at| Event::of(EventKind::QueueAdded, &path, at));
        }
        let limits = Arc::new(Tables::of(&self.config.root));
        let limits = baton.books.trackers.reload(&limits, Loosening::NONE).unwrap_or_default();
        reloading::tell_limits(&limits.events, baton);
    }

    /// Runs steps and offers until the baton is out or there is nothing to do.
    fn turn(&mut self, ctx: &mut Context<Self>) {
        while let Some(mut baton) = self.baton.take() {
            if let Some(task) = self.agenda.pop_front() {
                self.baton = self.perform(task, baton);
                continue;
            }
            if !self.may_say_more(&baton) {
                self.speak(&mut baton);
            }
            self.arm(&mut baton, ctx);
            if self.agenda_from(&mut baton) {
                self.baton = Some(baton);
                continue;
            }
            if self.closing {
                self.dissolve(baton, ctx);
                return;
            }
            if self.proposal.is_some() {
                baton.tally.flush();
                self.baton = Some(baton);
                return;
            }
            if self.capacity_changed && !self.node_is_next() {
                self.capacity_changed = false;
                self.may_decide = true;
                self.agenda.push_back(Task::survey(Refresh::of_changed(BTreeSet::new())));
                self.baton = Some(baton);
                continue;
            }
            baton.now_ns = self.clock.now_ns();
            let can_decide = self.may_decide && self.decides() && !baton.books.nodes.is_empty();
            let has_room = self.outstanding < OUTSTANDING_MAX && self.budget(&baton) > 0;
            let may_offer = can_decide && has_room;
            // What was foreseen holds for the offer that follows at once, whoever came meanwhile.
            let is_offers_turn =
                self.turn == Turn::Offer || self.inbox.is_empty() || self.oracle.has_foreseen();
            if may_offer && is_offers_turn && !self.capacity_changed {
                if self.watch.oracle && !self.oracle.has_foreseen() {
                    self.baton = Some(baton);
                    self.foresee();
                    continue;
                }
                self.turn = Turn::Door;
                self.offer(baton);
                continue;
            }
            self.turn = Turn::Offer;
            let Some(entry) = self.inbox.pop_front() else {
                let waits = can_decide || !baton.books.unsettled.is_empty();
                if !self.barriers.is_empty() && !waits && self.early.is_empty() {
                    let settled = std::mem::take(&mut self.barriers).into_iter();
                    baton.notices.extend(settled.map(Notice::Barrier));
                    self.speak(&mut baton);
                }
                baton.tally.flush();
                self.baton = Some(baton);
                return;
            };
            self.enter(entry, &mut baton);
            self.baton = Some(baton);
        }
    }

    /// Whether the next entry is one more node that comes, changes or leaves: queues are refreshed
    /// once for all of a request.
    fn node_is_next(&self) -> bool {
        use Request::{ChangeNode, CreateNode, RemoveNode};
        let next = self.inbox.front();
        matches!(next, Some(Entry::Request(CreateNode(_) | ChangeNode { .. } | RemoveNode(_))))
    }

    fn offer(&mut self, mut baton: Box<Baton>) {
        self.trip = Trip::Offer;
        baton.offer = Offering {
            budget: self.budget(&baton),
            asks_later: self.controls.asks_later(),
            rise_to: usize::MAX,
            frames: std::mem::take(&mut baton.offer.frames),
            ..Offering::default()
        };
        baton.tally.offer_leaves();
        let root = Arc::clone(baton.directory.root());
        root.do_send(crate::queue::Offer(baton));
    }

    /// Begins the step of one entry: what it has to be sent out for is on the agenda then.
    fn enter(&mut self, entry: Entry, baton: &mut Baton) {
        match entry {
            Entry::Request(request) => {
                let is_quiet = matches!(
                    request,
                    Request::Barrier(_) | Request::Notice(_) | Request::Prepare(_)
                );
                self.may_decide |= !is_quiet;
                self.request(request, baton);
            }
            Entry::ChunkDone => {
                self.rm.do_send(Credit { partition: Arc::clone(&self.name) });
            }
            Entry::Alarm(alarm) => {
                self.may_decide |= !matches!(alarm, Alarm::ScaleUp | Alarm::CleanQueues);
                self.alarm(alarm, baton);
            }
            Entry::Read(survey) => self.agenda.push_back(Task::Survey(survey)),
            Entry::Control(control) => self.control(control, baton),
            Entry::Answers(answers) => self.answers(answers, baton),
        }
    }

    /// Whether the outlet may wait for what further steps say. A step of its own for each of many
    /// short ones would wake the RM's thread each time.
    fn may_say_more(&self, baton: &Baton) -> bool {
        let goes_on = match self.inbox.front() {
            // Puts what it says itself in an order of its own.
            None | Some(Entry::Request(Request::RemoveNode(_))) => false,
            Some(_) => !self.closing && self.proposal.is_none() && !self.watch.oracle,
        };
        goes_on && baton.notices.len() < NOTICES_TOGETHER
    }

    /// Hands what was said since the last time to the outlet.
    fn speak(&mut self, baton: &mut Baton) {
        if baton.notices.is_empty() {
            return;
        }
        baton.tally.in_flight(baton.books.unsettled.len());
        self.outstanding += baton.notices.len();
        self.outlet.do_send(Publish(std::mem::take(&mut baton.notices)));
    }
}

impl Actor for Partition {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.metrics.actor_started(ActorKind::Partition);
        self.begin();
        self.turn(ctx);
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.metrics.actor_stopped(ActorKind::Partition);
    }
}

impl Handler<Requests> for Partition {
    type Result = ();

    fn handle(&mut self, Requests(requests): Requests, ctx: &mut Self::Context) {
        self.inbox.extend(requests.into_iter().map(Entry::Request));
        self.inbox.push_back(Entry::ChunkDone);
        self.turn(ctx);
    }
}

impl Handler<Home> for Partition {
    type Result = ();

    fn handle(&mut self, Home(mut baton): Home, ctx: &mut Self::Context) {
        let timer = baton.tally.message(ActorKind::Partition);
        if std::mem::take(&mut self.trip) == Trip::Offer {
            self.may_decide = !baton.offer.fruitless;
            let decided = baton.offer.decided;
            if self.watch.oracle {
                self.oracle.compare(&baton.notices, baton.offer.fruitless);
            }
            baton.tally.offer_home(decided);
            if baton.offer.fruitless {
                self.arm_scale_up(&mut baton);
            }
        }
        self.baton = Some(baton);
        self.turn(ctx);
        drop(timer);
    }
}

impl Handler<Ack> for Partition {
    type Result = ();

    fn handle(&mut self, Ack(count): Ack, ctx: &mut Self::Context) {
        self.outstanding = self.outstanding.saturating_sub(count);
        self.turn(ctx);
    }
}

impl Handler<Close> for Partition {
    type Result = ();

    fn handle(&mut self, _: Close, ctx: &mut Self::Context) {
        self.closing = true;
        self.inbox.clear();
        self.turn(ctx);
    }
}

impl Handler<Abandon> for Partition {
    type Result = ();

    fn handle(&mut self, _: Abandon, ctx: &mut Self::Context) {
        self.outlet.do_send(crate::Halt);
        ctx.stop();
    }
}
