//! The actor of a partition: every change of the partition enters its inbox, and it holds the books
//! while no step is out.
//!
//! # Why an actor
//! Every change of a partition enters its queue (`inbox`) and runs as one *step*. One step runs at
//! a time: the next starts when the baton of the last has come home. So no two steps overlap, and
//! every step sees a partition whose parts agree. Steps of an RM and trips of offers take turns, so
//! that neither side starves.
//!
//! # The files
//! Entries are in `input`, their order in `inbox`, the handling of requests in `intake`, and items
//! that wait for the application or node that they name in `reorder`; `answers` and `control`
//! handle the messages of the RM besides its requests. A step is a list of `tasks`.
//!
//! # Invariants
//! * The baton is either here or out with exactly one step.
//! * A step with tasks left on its agenda continues before anything else begins.
//! * After an offer without result, nothing runs until another step begins: an idle partition costs
//!   nothing.
//! * While a new configuration is proposed, nothing begins until it is concluded (`reloading`).
//! * The notices of a step are handed to the outlet in order, once the step is at home, and at the
//!   latest when the partition has nothing else to do at once.

mod admission;
mod answers;
mod control;
mod deadlines;
mod dynamic;
mod ended;
mod foreign;
pub(crate) mod imaged;
mod inbox;
mod input;
mod inquiries;
mod intake;
mod nodes;
mod observing;
pub(crate) mod oracle;
mod pace;
mod queue_lifecycle;
mod reloading;
mod reorder;
mod reports;
mod scale_up;
mod standing;
mod state;
pub(crate) mod surveys;
mod tasks;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use monoceros_config::PartitionConfig;
use monoceros_proto::si::v1::PredicatesArgs;
use monoceros_rules::books::Books;
use monoceros_rules::decisions::Decisions;
use monoceros_rules::limits::Tables;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::specs::quotas::{Held, QuotaUsage, Quotas};
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::NameHolder;
use tokio::time::Instant;

use crate::api::callback::ResourceManagerCallback;
use crate::clock::Clock;
use crate::events::{Event, EventKind, Tracking};
use crate::mailbox::{Mailbox, Measured, Receive, receives};
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::node::NodeReport;
use crate::partition::oracle::{Oracle, Watch};
use crate::pulse::Beat;
use crate::run_times::{MeasuredRuns, RunTimeShelf};
use crate::session::Outlet;
use crate::step::{
    AwaitsAnswers, Barrier, Baton, BatonAddress, Directory, Gathered, Guard, Imaging, Mail,
    Offering, Services, SessionLink, StepEffects, StepSettings, Survey, Visited,
};
use crate::tally::Tally;
pub(crate) use control::ApplyControl;
pub use imaged::PartitionImage;
use imaged::{ImageUnderWay, Rest, Restored};
pub(crate) use imaged::{Part, ReadPart, ReadPartition};
use inbox::Inbox;
pub(crate) use input::{
    Conclude, Control, ForeignRequest, Input, NewNode, PartitionDocument, RefusedItem, Request,
    StateChange, UnknownNodes,
};
use reorder::ReorderBuffer;
pub(crate) use reports::Reports;
pub(crate) use state::ObservedKind;
use state::{
    Controls, DeadlineList, EmptyQueues, ForeignTable, Inquiries, Kept, ObservedTable, Proposal,
    Signal,
};

/// An entry of the inbox.
pub(crate) type Entry = input::Entry<Box<dyn Survey>>;

/// An entry of the inbox that decides nothing.
pub(crate) type LocalRequest = input::LocalRequest<Box<dyn Survey>>;

/// A task that a step has still to do.
type Task = state::Task<Box<dyn Survey>>;

/// The baton; `None` if a task has sent it out.
type AtHome = Option<Box<Baton>>;

/// A part of the RM's requests, in order. The Rm hands in a bounded number of chunks ahead and
/// learns by a [`Delivery`](crate::session::Delivery) when one is done.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Chunk(pub(crate) Vec<Entry>);

/// A baton comes home.
pub(crate) struct Home;

/// A baton comes home from a node that was changed, with the consequences for its allocations.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct NodeReported {
    pub(crate) baton: Box<Baton>,
    pub(crate) report: NodeReport,
}

impl NodeReported {
    pub(crate) fn go_home(mut self) {
        self.baton.homeward().do_send(self);
    }
}

/// The RM has taken this many notices since the last time.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Ack(pub(crate) usize);

/// Ends the partition: all its actors stop, without a notice to the RM.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Close;

/// Ends the partition at once, because the books are lost.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Abandon;

/// The reason why the baton is out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trip {
    #[default]
    Step,
    Offer,
}

/// The actor of one partition. While no step is out it holds the baton, and with it the books.
pub(crate) struct Partition {
    name: Arc<str>,
    config: Arc<PartitionConfig>,
    /// The resource types that its RM has in use.
    names: Arc<NameHolder>,
    clock: Clock,
    baton: Option<Box<Baton>>,
    inbox: Inbox<Box<dyn Survey>>,
    agenda: VecDeque<Task>,
    /// An offer may decide something: none has come home without result since the last step.
    /// Between two steps it also means that an ask is pending.
    may_decide: bool,
    /// The number of steps that may have changed a list.
    steps: u64,
    /// The number of this partition, which no other partition has or had.
    incarnation: u64,
    trip: Trip,
    /// The number of times that the baton was taken, including the present one. It lets the
    /// watchdog distinguish one long step from many short ones.
    n_turns: u64,
    /// Whether root's capacity differs from the index. Queues are then refreshed before any other
    /// step, except one of another node.
    capacity_changed: bool,
    deadlines: DeadlineList,
    timer: Option<(Instant, SpawnHandle)>,
    foreign: ForeignTable,
    observed: ObservedTable,
    /// Items that arrived before the application or node that they name.
    reorder: ReorderBuffer,
    unknown_nodes: UnknownNodes,
    outlet: Outlet,
    outstanding: usize,
    session: SessionLink,
    /// The quota usage that was last reported to the session.
    reported: Held,
    /// Barriers to be passed on when an offer has come home without result and the inbox is empty.
    barriers: Vec<Arc<Barrier>>,
    watch: Watch,
    oracle: Oracle,
    scale_up: Signal<Box<dyn Survey>>,
    /// Preemptors, and the search for victims that waits for answers.
    inquiries: Inquiries<Box<dyn AwaitsAnswers>>,
    /// The count of changes when victims were last searched for asks that wait for a change.
    changes_at_search: u64,
    /// Dynamic queues that are empty.
    empty: EmptyQueues,
    /// Terminated applications.
    ended: Kept,
    /// The state of the partition; see [`standing`].
    state: ObjectState,
    state_since_ns: i64,
    /// A proposed configuration: no step begins until it is concluded.
    proposal: Option<Proposal>,
    /// The image under way.
    image: Option<Box<ImageUnderWay>>,
    controls: Controls,
    closing: bool,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

/// Parameters of a new partition.
pub(crate) struct PartitionParams {
    pub(crate) name: Arc<str>,
    /// The number of partitions that its RM had before it in this session.
    pub(crate) nth: u64,
    pub(crate) config: Arc<PartitionConfig>,
    pub(crate) names: Arc<NameHolder>,
    pub(crate) quotas: Quotas,
    pub(crate) session: SessionLink,
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    pub(crate) clock: Clock,
    pub(crate) reorder_window: Duration,
    pub(crate) unknown_nodes: UnknownNodes,
    /// The most ended applications that are kept in each of the three lists.
    pub(crate) ended_applications: usize,
    /// The most decisions that are kept.
    pub(crate) decisions: usize,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) watch: Watch,
    pub(crate) tracking: Tracking,
    /// `None`: run times are not measured.
    pub(crate) run_times: Option<RunTimeShelf>,
    /// The state from which it goes on; `None`: it begins empty.
    pub(crate) image: Option<Box<PartitionImage>>,
}

impl Partition {
    /// Builds a partition with its queues, whose actors run on the current arbiter.
    pub(crate) fn new(mut params: PartitionParams, ctx: &mut Context<Self>) -> Self {
        let (books, directory, rest) = begun(&mut params);
        let PartitionParams {
            name,
            config,
            session,
            callback,
            clock,
            metrics,
            watch,
            tracking,
            ..
        } = params;
        ctx.set_mailbox_capacity(0);
        let guard = Guard { session: session.clone(), partition: Arc::clone(&name), armed: true };
        let baton = Box::new(Baton {
            books,
            directory,
            now_ns: clock.now_ns(),
            offer: Offering::default(),
            gathered: Gathered::default(),
            effects: StepEffects::default(),
            settings: StepSettings {
                patience: watch.patience,
                start_retry: watch.start_retry,
                preempts: config.preemption.enabled,
                tracking,
            },
            services: Services {
                clock,
                callback,
                answers: Mailbox::new(ctx.address(), &metrics).answer_sink(),
                question: PredicatesArgs::default(),
                home: BatonAddress::of(ctx),
            },
            tally: Tally::new(&metrics),
            decisions: Decisions::new(params.decisions),
            run_times: MeasuredRuns::new(Arc::clone(&name), params.run_times),
            imaging: Imaging::default(),
            mail: Mail::default(),
            guard,
        });
        let outlet = Outlet::new(Arc::clone(&name), session.clone());
        let mut partition = Self {
            name,
            config,
            names: params.names,
            clock,
            baton: Some(baton),
            inbox: Inbox::default(),
            agenda: VecDeque::new(),
            may_decide: false,
            steps: 0,
            incarnation: incarnation(&clock),
            trip: Trip::Step,
            n_turns: 0,
            capacity_changed: false,
            deadlines: DeadlineList::default(),
            timer: None,
            foreign: ForeignTable::default(),
            observed: ObservedTable::default(),
            reorder: ReorderBuffer::new(params.reorder_window),
            unknown_nodes: params.unknown_nodes,
            outlet,
            outstanding: 0,
            session,
            reported: Held::default(),
            barriers: Vec::new(),
            oracle: Oracle::default(),
            watch,
            scale_up: Signal::default(),
            inquiries: Inquiries::default(),
            changes_at_search: 0,
            empty: EmptyQueues::default(),
            ended: Kept::new(params.ended_applications),
            state: ObjectState::Active,
            state_since_ns: clock.now_ns(),
            proposal: None,
            image: None,
            controls: Controls::default(),
            closing: false,
            _counted: metrics.counted(ActorKind::Partition),
            metrics,
        };
        match rest {
            None => partition.begin(),
            Some((step, rest)) => {
                let mut baton = partition.baton.take().expect("no step has begun");
                partition.go_on_from(step, rest, &mut baton);
                partition.baton = Some(baton);
            }
        }
        partition
    }

    /// Records the events of the initial queues and limits.
    fn begin(&mut self) {
        let baton = self.baton.as_mut().expect("the baton is at home until the first step");
        let queues = baton.directory.all_queues();
        let paths: Vec<_> = queues.map(|entry| Arc::clone(&entry.facts.config.path)).collect();
        for path in paths {
            baton.happens(|at| Event::of(EventKind::QueueAdded, &path, at));
        }
        let limits = Arc::new(Tables::of(&self.config.root));
        let limits = baton.books.trackers.reload(&limits, Loosening::NONE).unwrap_or_default();
        baton.record_limits(&limits.events);
    }
}

/// Starts the actors of a partition: its queues, or all of its image. Returns its books and its
/// directory, and of an image its step and the rest.
fn begun(params: &mut PartitionParams) -> (Books, Directory, Option<(u64, Rest)>) {
    if let Some(image) = params.image.take() {
        let Restored { books, directory, step, rest } = Restored::start(*image, &params.metrics);
        return (books, directory, Some((step, rest)));
    }
    let (config, mut directory) = (&params.config, Directory::default());
    directory.start_queues(&config.root, None, true, config.preemption.quota, &params.metrics);
    let mut books = new_books(config, &directory, &params.watch, params.nth);
    books.quotas = QuotaUsage::new(params.quotas);
    (books, directory, None)
}

/// Builds the books of an empty partition.
fn new_books(config: &PartitionConfig, directory: &Directory, watch: &Watch, nth: u64) -> Books {
    let mut books = Books::new(config.node_order.held());
    books.unsettled.widest = watch.candidates_per_question;
    books.unsettled.number_as(nth);
    books.nodes.set_reservation_share(watch.patience.share_percent);
    for entry in directory.all_queues() {
        let facts = &entry.facts;
        books.enter_queue(facts.slot.0, facts.parent.map(|parent| parent.0), &facts.config);
    }
    books
}

/// Returns a number that no other partition has, of this process or of an earlier one.
fn incarnation(clock: &Clock) -> u64 {
    static SO_FAR: AtomicU64 = AtomicU64::new(0);
    clock.now_ns().cast_unsigned().wrapping_add(SO_FAR.fetch_add(1, Ordering::Relaxed))
}

impl Actor for Partition {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.turn(ctx);
    }
}

impl Measured for Partition {
    const KIND: ActorKind = ActorKind::Partition;
}

receives!(Partition);

impl Receive<Chunk> for Partition {
    fn receive(&mut self, Chunk(entries): Chunk, ctx: &mut Context<Self>) {
        for entry in entries {
            self.inbox.push(entry);
        }
        self.inbox.push(Entry::Local(LocalRequest::ChunkDone));
        self.turn(ctx);
    }
}

impl Visited for Partition {
    type Baton = Baton;
    type Mail = Home;

    fn mail(baton: &mut Baton) -> &mut Option<Home> {
        &mut baton.mail.partition
    }

    fn visit(&mut self, mut baton: Box<Baton>, Home: Home, ctx: &mut Self::Context) {
        let timer = baton.tally.message(ActorKind::Partition);
        if std::mem::take(&mut self.trip) == Trip::Offer {
            self.may_decide = !baton.offer.is_without_result;
            let decided = baton.offer.decided;
            if self.watch.oracle {
                self.oracle.compare(&baton.effects.notices, &baton.offer);
            }
            baton.tally.offer_home(decided);
            if baton.offer.is_without_result {
                self.arm_scale_up(&mut baton);
            }
        }
        self.baton = Some(baton);
        self.turn(ctx);
        drop(timer);
    }
}

impl Receive<Beat> for Partition {
    const MAY_BE_FOLLOWED: bool = false;

    fn receive(&mut self, beat: Beat, _ctx: &mut Context<Self>) {
        beat.answer(self.baton.is_none().then_some(self.n_turns));
    }
}

impl Receive<Ack> for Partition {
    fn receive(&mut self, Ack(count): Ack, ctx: &mut Context<Self>) {
        self.inbox.acknowledge(count);
        self.turn(ctx);
    }
}

impl Receive<Close> for Partition {
    fn receive(&mut self, _: Close, ctx: &mut Context<Self>) {
        self.closing = true;
        self.inbox.clear();
        self.turn(ctx);
    }
}

impl Receive<Abandon> for Partition {
    fn receive(&mut self, _: Abandon, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}
