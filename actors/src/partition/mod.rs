//! A partition: the door that everything enters by, and the home of the books.
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
//! * What a step said is handed to the outlet when the step is at home, in the order it was said.

mod admission;
mod nodes;
mod reads;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use monoceros_rules::allocations::ApplicationSlot;
use monoceros_rules::application::NewApplication;
use monoceros_rules::application_state::ApplicationState;
use monoceros_rules::config::{PartitionConfig, QueueConfig};
use monoceros_rules::ledger;
use monoceros_rules::nodes::{NodeOrder, NodeSlot};
use monoceros_rules::rejection::Rejection;
use monoceros_rules::resources::Resources;
use tokio::time::Instant;

use crate::application::Op;
use crate::baton::{
    Alarm, Baton, Climbing, Directory, Errand, Guard, Offering, Purpose, QueueEntry, QueueSlot,
    RowSlot, Saying, Walk,
};
use crate::callback::ResourceManagerCallback;
use crate::clock::Clock;
use crate::metrics::{Kind, Metrics};
use crate::node::Change;
use crate::oracle::{Oracle, Watch};
use crate::outlet::{Outlet, Say};
use crate::queue::{AddQueue, Queue, QueueFacts};
use crate::rm::{Credit, Rm, Settling};
use crate::tally::Tally;
pub(crate) use reads::{Answer, Question, Read};

/// How long an application stays Completing (applications chapter, 0.1).
pub(crate) const COMPLETING_TIMEOUT: Duration = Duration::from_secs(30);
/// After how long an ask that every node refused is tried again, at first and at most.
pub(crate) const PREDICATE_RETRY: Duration = Duration::from_secs(1);
pub(crate) const PREDICATE_RETRY_MAX: Duration = Duration::from_secs(30);
/// Decisions after which an offer comes home, so that steps get their turn.
pub(crate) const DECISIONS_PER_TRIP: u32 = 64;
/// Sayings on their way to the RM above which nothing new is decided.
const OUTSTANDING_MAX: usize = 65_536;

/// One request of an RM, translated. Each is one step.
pub(crate) enum Request {
    AddApplication(Box<NewApplication>),
    RemoveApplication(Arc<str>),
    /// Everything that one message wants of one application, in order.
    Application {
        id: Arc<str>,
        ops: Vec<Op>,
    },
    CreateNode(Box<NewNode>),
    ChangeNode {
        id: Arc<str>,
        change: Change,
    },
    RemoveNode(Arc<str>),
    /// Something placed by others.
    Foreign(Box<ForeignRequest>),
    ForeignGone(Arc<str>),
    /// What the translation refused already.
    Say(Saying),
    /// Pass this on once nothing is left to decide.
    Settle(Arc<Settling>),
}

impl Request {
    /// How much of a chunk it takes.
    pub(crate) fn items(&self) -> usize {
        match self {
            Self::Application { ops, .. } => ops.len(),
            _ => 1,
        }
    }
}

/// A node as its RM reports it.
pub(crate) struct NewNode {
    pub(crate) id: Arc<str>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) total: Resources,
    pub(crate) occupied: Resources,
    pub(crate) existing: Vec<(Arc<str>, crate::application::Existing)>,
    pub(crate) draining: bool,
}

/// An allocation that somebody else made.
pub(crate) struct ForeignRequest {
    pub(crate) key: Arc<str>,
    pub(crate) node: Arc<str>,
    pub(crate) resources: Resources,
    pub(crate) tags: Option<monoceros_rules::allocations::Tags>,
    pub(crate) preemptable: bool,
}

/// Requests of the RM, in order. The Rm hands in a bounded number ahead and learns by
/// [`Credit`] when they are done.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Requests(pub(crate) Vec<Request>);

/// A baton comes home.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Home(pub(crate) Box<Baton>);

/// The RM has taken this many sayings.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Heard(pub(crate) usize);

/// The partition ends: everything in it stops, without a word to the RM.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Close;

/// The books are gone: the partition ends at once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Abandon;

/// The earliest deadline is due.
#[derive(Message)]
#[rtype(result = "()")]
struct Ring;

enum Entry {
    Request(Request),
    /// The last request of a chunk is done.
    ChunkDone,
    Alarm(Alarm),
    Read(Box<Read>),
}

/// What a step has still to do.
enum Task {
    Visit(ApplicationSlot, Vec<Op>),
    VisitNode(NodeSlot, Change),
    Attach(ApplicationSlot),
    Detach(ApplicationSlot, RowSlot),
    /// The node's holdings came home: let their applications know.
    Strand,
    /// A node leaves the directory.
    ForgetNode(NodeSlot),
    /// Root's capacity changed: make the keys of all queues anew.
    Refresh,
    /// Goes through the actors that the baton's walk lists.
    Walk,
    /// The answer to a read is complete.
    Reply(Box<Read>),
    /// The facts are gathered: what must the next offer decide?
    Foresee,
}

/// See the module.
pub(crate) struct Partition {
    name: Arc<str>,
    config: Arc<PartitionConfig>,
    clock: Clock,
    baton: Option<Box<Baton>>,
    door: VecDeque<Entry>,
    agenda: VecDeque<Task>,
    /// Something may be decidable: no offer has come home in vain since the last step.
    may_decide: bool,
    /// The last trip was an offer's, so the next belongs to the door.
    door_first: bool,
    offering: bool,
    /// When the offer left, for one trip in 64.
    deadlines: BTreeMap<(Instant, u64), Alarm>,
    next_deadline: u64,
    timer: Option<(Instant, SpawnHandle)>,
    foreign: BTreeMap<Arc<str>, NodeSlot>,
    outlet: Addr<Outlet>,
    outstanding: usize,
    rm: Addr<Rm>,
    since_ns: i64,
    /// To be passed on when an offer has come home in vain and the door is empty.
    settling: Vec<Arc<Settling>>,
    watch: Watch,
    oracle: Oracle,
    closing: bool,
}

/// What a partition shows of itself beside its books.
pub(crate) struct View<'a> {
    pub(crate) name: &'a str,
    pub(crate) config: &'a PartitionConfig,
    pub(crate) since_ns: i64,
}

/// What a partition is made of.
pub(crate) struct Making {
    pub(crate) name: Arc<str>,
    pub(crate) config: Arc<PartitionConfig>,
    pub(crate) rm: Addr<Rm>,
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) watch: Watch,
}

impl Partition {
    /// A partition with its queues, on the present arbiter.
    pub(crate) fn new(making: Making, ctx: &mut Context<Self>) -> Self {
        let Making { name, config, rm, callback, clock, metrics, watch } = making;
        ctx.set_mailbox_capacity(0);
        let mut directory = Directory::default();
        plant(&config.root, None, true, &mut directory);
        let guard = Guard { rm: rm.clone(), partition: Arc::clone(&name), armed: true };
        let order = node_order(&config);
        let baton = Box::new(Baton {
            books: monoceros_rules::books::Books::new(order),
            directory,
            now_ns: clock.now_ns(),
            said: Vec::new(),
            alarms: Vec::new(),
            ended: Vec::new(),
            woken: Vec::new(),
            offer: Offering::default(),
            placing: None,
            errand: Errand::None,
            node_work: Vec::new(),
            climb: Climbing::default(),
            walk: Walk::default(),
            partition: Arc::from(monoceros_rules::config::plain_name(&name)),
            tally: Tally::new(&metrics),
            callback,
            question: monoceros_proto::si::v1::PredicatesArgs::default(),
            home: Arc::new(ctx.address()),
            guard,
        });
        let outlet = Outlet::new(Arc::clone(&name), rm.clone(), &metrics).start();
        Self {
            since_ns: clock.now_ns(),
            name,
            config,
            clock,
            baton: Some(baton),
            door: VecDeque::new(),
            agenda: VecDeque::new(),
            may_decide: false,
            door_first: true,
            offering: false,
            deadlines: BTreeMap::new(),
            next_deadline: 0,
            timer: None,
            foreign: BTreeMap::new(),
            outlet,
            outstanding: 0,
            rm,
            settling: Vec::new(),
            oracle: Oracle::default(),
            watch,
            closing: false,
        }
    }

    /// Runs steps and offers until the baton is out or there is nothing to do.
    fn turn(&mut self, ctx: &mut Context<Self>) {
        while let Some(mut baton) = self.baton.take() {
            if let Some(task) = self.agenda.pop_front() {
                self.baton = self.perform(task, baton);
                continue;
            }
            self.speak(&mut baton);
            self.arm(&mut baton, ctx);
            if self.agenda_from(&mut baton) {
                self.baton = Some(baton);
                continue;
            }
            if self.closing {
                self.dissolve(baton, ctx);
                return;
            }
            baton.now_ns = self.clock.now_ns();
            let may_offer = self.may_decide
                && self.outstanding < OUTSTANDING_MAX
                && !baton.books.nodes.is_empty();
            if may_offer && !(self.door_first && !self.door.is_empty()) {
                if self.watch.oracle && !self.oracle.has_foreseen() {
                    self.baton = Some(baton);
                    self.foresee();
                    continue;
                }
                self.door_first = true;
                self.offer(baton);
                continue;
            }
            self.door_first = false;
            let Some(entry) = self.door.pop_front() else {
                let can_decide = self.may_decide && !baton.books.nodes.is_empty();
                if !self.settling.is_empty() && !can_decide {
                    let settled = std::mem::take(&mut self.settling).into_iter();
                    baton.said.extend(settled.map(Saying::Settled));
                    self.speak(&mut baton);
                }
                baton.tally.flush();
                self.baton = Some(baton);
                return;
            };
            self.baton = self.enter(entry, baton);
        }
    }

    fn offer(&mut self, mut baton: Box<Baton>) {
        self.offering = true;
        baton.offer = Offering {
            budget: self.watch.decisions_per_trip,
            rise_to: usize::MAX,
            frames: std::mem::take(&mut baton.offer.frames),
            ..Offering::default()
        };
        baton.tally.offer_leaves();
        let root = Arc::clone(baton.directory.root());
        root.do_send(crate::queue::Offer(baton));
    }

    /// Begins the step of one entry. The baton stays here when there was nothing to send it for.
    fn enter(&mut self, entry: Entry, mut baton: Box<Baton>) -> Option<Box<Baton>> {
        match entry {
            Entry::Request(request) => {
                self.may_decide = true;
                self.request(request, &mut baton);
            }
            Entry::ChunkDone => {
                self.rm.do_send(Credit { partition: Arc::clone(&self.name) });
            }
            Entry::Alarm(alarm) => {
                self.may_decide = true;
                self.alarm(alarm, &mut baton);
            }
            Entry::Read(read) => self.read(read, &mut baton),
        }
        Some(baton)
    }

    fn request(&mut self, request: Request, baton: &mut Baton) {
        match request {
            Request::AddApplication(new) => self.add_application(*new, baton),
            Request::RemoveApplication(id) => {
                if let Some(slot) = baton.directory.application_by_id.get(&id) {
                    self.agenda.push_back(Task::Visit(*slot, vec![Op::Remove]));
                }
            }
            Request::Application { id, ops } => self.application_request(&id, ops, baton),
            Request::CreateNode(new) => self.create_node(*new, baton),
            Request::ChangeNode { id, change } => self.change_node(&id, change, baton),
            Request::RemoveNode(id) => self.remove_node(&id, baton),
            Request::Foreign(foreign) => self.foreign(*foreign, baton),
            Request::ForeignGone(key) => self.foreign_gone(&key),
            Request::Settle(settling) => self.settling.push(settling),
            Request::Say(saying) => {
                if matches!(saying, Saying::ApplicationRejected { .. }) {
                    baton.directory.count_state(None, Some(ApplicationState::Rejected));
                    baton.tally.application_rejected();
                }
                baton.said.push(saying);
            }
        }
    }

    fn application_request(&mut self, id: &Arc<str>, ops: Vec<Op>, baton: &mut Baton) {
        if let Some(slot) = baton.directory.application_by_id.get(id) {
            self.agenda.push_back(Task::Visit(*slot, ops));
            return;
        }
        for op in ops {
            let spec = match op {
                Op::Ask(spec) | Op::Unified(spec) => *spec,
                Op::Existing(existing) => existing.spec,
                // Releases of what is gone are no news to anybody.
                _ => continue,
            };
            baton.tally.ask_rejected(false);
            baton.said.push(Saying::AskRejected {
                form: spec.form,
                key: spec.key,
                application: Arc::clone(id),
                reason: Rejection::ApplicationUnknown(Arc::clone(id)),
            });
        }
    }

    fn alarm(&mut self, alarm: Alarm, baton: &mut Baton) {
        let is_same = |baton: &Baton, slot: ApplicationSlot, id: &Arc<str>| {
            baton.directory.application(slot).is_some_and(|entry| entry.id == *id)
        };
        match alarm {
            Alarm::Completing { application, id, since_ns } => {
                if is_same(baton, application, &id) {
                    let ops = vec![Op::CompletingOver { since_ns }];
                    self.agenda.push_back(Task::Visit(application, ops));
                }
            }
            Alarm::PredicateRetry { application, id, key, changes } => {
                if !is_same(baton, application, &id) {
                    return;
                }
                if baton.books.node_changes() == changes {
                    let again = Alarm::PredicateRetry { application, id, key, changes };
                    baton.alarms.push((PREDICATE_RETRY_MAX, again));
                } else {
                    self.agenda.push_back(Task::Visit(application, vec![Op::Retry { key }]));
                }
            }
            Alarm::ExecutionTimeout { allocation } => {
                if let Some(entry) = baton.books.allocations.get(allocation) {
                    let ops = vec![Op::Overdue(allocation)];
                    self.agenda.push_back(Task::Visit(entry.application, ops));
                }
            }
        }
    }

    /// Sends the baton out for one task of the step, or does it here.
    fn perform(&mut self, task: Task, mut baton: Box<Baton>) -> Option<Box<Baton>> {
        match task {
            Task::Visit(slot, ops) => {
                let entry = baton.directory.application(slot);
                let address = Arc::clone(&entry?.address);
                baton.errand = Errand::Application(ops);
                address.do_send(crate::application::Visit(baton));
                return None;
            }
            Task::VisitNode(slot, change) => {
                if let Some(address) = baton.directory.node(slot).cloned() {
                    baton.errand = Errand::Node(change);
                    address.do_send(crate::node::Visit(baton));
                    return None;
                }
            }
            Task::Attach(slot) => {
                let entry = baton.directory.application(slot).expect("just entered");
                let address = Arc::clone(&entry.address);
                let leaf = Arc::clone(&baton.directory.queue(entry.leaf).address);
                baton.errand = Errand::Attach { address };
                leaf.do_send(crate::queue::Membership(baton));
                return None;
            }
            Task::Detach(slot, row) => {
                let taken = baton.directory.applications[slot.0 as usize].take();
                let entry = taken.expect("an application leaves once");
                baton.directory.application_by_id.remove(&entry.id);
                baton.directory.free_applications.push(slot.0);
                let leaf = Arc::clone(&baton.directory.queue(entry.leaf).address);
                entry.address.do_send(crate::Halt);
                baton.errand = Errand::Detach { row };
                leaf.do_send(crate::queue::Membership(baton));
                return None;
            }
            Task::Strand => self.strand(&mut baton),
            Task::ForgetNode(slot) => self.forget_node(slot, &mut baton),
            Task::Refresh => {
                self.refresh(baton);
                return None;
            }
            Task::Walk => {
                baton.walk_on();
                return None;
            }
            Task::Reply(read) => self.reply(*read, &mut baton),
            Task::Foresee => {
                let mut facts = std::mem::take(&mut baton.walk.facts);
                facts.take_books(&baton.books);
                let order = node_order(&self.config);
                self.oracle.foresee(&facts, &order, &*baton.callback);
            }
        }
        Some(baton)
    }

    /// Root's capacity changed: every queue's share may have, so keys are made anew from the leaves
    /// upward with fair maxima computed from root downward.
    fn refresh(&mut self, mut baton: Box<Baton>) {
        let mut fair: Vec<Option<monoceros_rules::resources::Limits>> = Vec::new();
        for entry in &baton.directory.queues {
            let own = match entry.facts.parent {
                None => ledger::stored_limits(baton.books.nodes.capacity()),
                Some(parent) => ledger::fair_max(
                    fair[parent.0 as usize].as_ref(),
                    entry.facts.config.max.as_ref(),
                ),
            };
            fair.push(own);
        }
        let queues =
            baton.directory.queues.iter().map(|entry| Arc::clone(&entry.address)).collect();
        baton.walk = Walk { purpose: Purpose::Refresh, queues, fair_max: fair, ..Walk::default() };
        baton.walk_on();
    }

    /// Gathers the facts of everything, for the oracle.
    fn foresee(&mut self) {
        let baton = self.baton.as_mut().expect("the oracle looks while the baton is at home");
        reads::walk_all(baton);
        self.agenda.push_back(Task::Walk);
        self.agenda.push_back(Task::Foresee);
    }

    /// Hands what the step said to the outlet.
    fn speak(&mut self, baton: &mut Baton) {
        if baton.said.is_empty() {
            return;
        }
        self.outstanding += baton.said.len();
        self.outlet.do_send(Say(std::mem::take(&mut baton.said)));
    }

    /// Notes the step's deadlines and keeps one timer for the earliest.
    fn arm(&mut self, baton: &mut Baton, ctx: &mut Context<Self>) {
        if !baton.alarms.is_empty() {
            let now = Instant::now();
            for (wait, alarm) in baton.alarms.drain(..) {
                // A wait beyond what the clock can hold never ends.
                if let Some(due) = now.checked_add(wait) {
                    self.deadlines.insert((due, self.next_deadline), alarm);
                    self.next_deadline += 1;
                }
            }
        }
        let Some(&(due, _)) = self.deadlines.keys().next() else { return };
        if self.timer.as_ref().is_some_and(|(at, _)| *at <= due) {
            return;
        }
        if let Some((_, handle)) = self.timer.take() {
            ctx.cancel_future(handle);
        }
        let wait = due.saturating_duration_since(Instant::now());
        let handle = ctx.run_later(wait, |partition, ctx| {
            partition.timer = None;
            ctx.notify(Ring);
        });
        self.timer = Some((due, handle));
    }

    /// What the step left behind that the step itself must still do. Says whether there is any.
    fn agenda_from(&mut self, baton: &mut Baton) -> bool {
        for (slot, row) in std::mem::take(&mut baton.ended) {
            if let Some(row) = row {
                self.agenda.push_back(Task::Detach(slot, row));
            }
        }
        for (slot, node) in std::mem::take(&mut baton.woken) {
            self.agenda.push_back(Task::Visit(slot, vec![Op::WakeNamed(node)]));
        }
        !self.agenda.is_empty()
    }

    /// Stops every actor of the partition.
    fn dissolve(&mut self, mut baton: Box<Baton>, ctx: &mut Context<Self>) {
        baton.guard.armed = false;
        baton.tally.flush();
        for entry in baton.directory.applications.iter().flatten() {
            entry.address.do_send(crate::Halt);
        }
        for address in baton.directory.nodes.iter().flatten() {
            address.do_send(crate::Halt);
        }
        for entry in &baton.directory.queues {
            entry.address.do_send(crate::Halt);
        }
        self.outlet.do_send(crate::Halt);
        self.rm.do_send(crate::rm::PartitionClosed { partition: Arc::clone(&self.name) });
        ctx.stop();
    }
}

/// The configured order of nodes.
fn node_order(config: &PartitionConfig) -> NodeOrder {
    NodeOrder::new(config.node_order.policy, &config.node_order.weights).unwrap_or_default()
}

/// Starts the actor of a queue and of all below it, parents before children.
fn plant(
    config: &QueueConfig,
    parent: Option<(QueueSlot, Arc<Addr<Queue>>, RowSlot)>,
    priority_first: bool,
    directory: &mut Directory,
) {
    let slot = QueueSlot(u32::try_from(directory.queues.len()).expect("queues fit u32"));
    let mut own = config.clone();
    let children = std::mem::take(&mut own.children);
    let facts = Arc::new(QueueFacts {
        slot,
        parent: parent.as_ref().map(|(slot, _, _)| *slot),
        config: Arc::new(own),
        fair_max: None,
        priority_first,
    });
    let above = parent.as_ref().map(|(_, address, row)| (Arc::clone(address), *row));
    let address = Arc::new(Queue::new(Arc::clone(&facts), above).start());
    if let Some((_, above, row)) = parent {
        above.do_send(AddQueue { row, address: Arc::clone(&address) });
    }
    directory.queue_by_path.insert(Arc::clone(&facts.config.path), slot);
    directory.queues.push(QueueEntry { facts, address: Arc::clone(&address) });
    for (row, child) in children.iter().enumerate() {
        let row = RowSlot(u32::try_from(row).expect("the children of a queue fit u32"));
        let above = (slot, Arc::clone(&address), row);
        plant(child, Some(above), config.settings.priority_sort, directory);
    }
}

impl Actor for Partition {
    type Context = Context<Self>;
}

impl Handler<Requests> for Partition {
    type Result = ();

    fn handle(&mut self, Requests(requests): Requests, ctx: &mut Self::Context) {
        self.door.extend(requests.into_iter().map(Entry::Request));
        self.door.push_back(Entry::ChunkDone);
        self.turn(ctx);
    }
}

impl Handler<Home> for Partition {
    type Result = ();

    fn handle(&mut self, Home(mut baton): Home, ctx: &mut Self::Context) {
        let timer = baton.tally.message(Kind::Partition);
        if std::mem::take(&mut self.offering) {
            self.may_decide = !baton.offer.fruitless;
            let decided = baton.offer.decided;
            if self.watch.oracle {
                self.oracle.compare(&baton.said, baton.offer.fruitless);
            }
            baton.tally.offer_home(decided);
        }
        self.baton = Some(baton);
        self.turn(ctx);
        drop(timer);
    }
}

impl Handler<Heard> for Partition {
    type Result = ();

    fn handle(&mut self, Heard(count): Heard, ctx: &mut Self::Context) {
        self.outstanding = self.outstanding.saturating_sub(count);
        self.turn(ctx);
    }
}

impl Handler<Ring> for Partition {
    type Result = ();

    fn handle(&mut self, _: Ring, ctx: &mut Self::Context) {
        let now = Instant::now();
        while let Some(entry) = self.deadlines.first_entry() {
            if entry.key().0 > now {
                break;
            }
            self.door.push_back(Entry::Alarm(entry.remove()));
        }
        self.turn(ctx);
    }
}

impl Handler<Close> for Partition {
    type Result = ();

    fn handle(&mut self, _: Close, ctx: &mut Self::Context) {
        self.closing = true;
        self.door.clear();
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

impl Handler<Read> for Partition {
    type Result = ();

    fn handle(&mut self, read: Read, ctx: &mut Self::Context) {
        self.door.push_back(Entry::Read(Box::new(read)));
        self.turn(ctx);
    }
}
