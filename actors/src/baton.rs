//! What travels through a partition: one boxed baton that owns the books.
//!
//! A partition runs one *step* at a time. A step is a baton that goes from actor to actor by
//! `do_send` through synchronous handlers and comes home. State is written only with the baton in
//! hand, so no two steps can overlap: there is no lock and no await, and the compiler checks it.
//!
//! Three things travel on the baton, one at a time:
//! * an **offer** goes down the queues, is turned into decisions by an application and its nodes,
//!   and rises again ([`Offering`]);
//! * a **visit** goes to one application (or node, or leaf) with something to do, from there to the
//!   nodes it concerns ([`NodeWork`]), and then **climbs** the queues with what changed;
//! * a **walk** goes through a list of actors and reads or refreshes each ([`Walk`]).
//!
//! # When things go wrong
//! A baton that is lost (a panic in a handler, a dead mailbox) drops its [`Guard`], and that tells
//! the Rm: the books are gone with it, so the partition is stopped and its RM is asked to resync.
//! A partition that closes in order disarms the guard first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use monoceros_proto::si::v1::PredicatesArgs;
use monoceros_rules::allocations::{AllocationId, ApplicationSlot, Form, Tags};
use monoceros_rules::application_state::ApplicationState;
use monoceros_rules::asks::{AskSlot, ClassId, Preemption, TaskGroup};
use monoceros_rules::audit::Facts;
use monoceros_rules::books::Books;
use monoceros_rules::ledger::LedgerDelta;
use monoceros_rules::limits::{LaneId, LimitId};
use monoceros_rules::nodes::{NodeIndex, NodeSlot};
use monoceros_rules::order::{ApplicationKey, QueueKey};
use monoceros_rules::rejection::{Ignored, Rejection};
use monoceros_rules::resources::{Limits, Resources};
use monoceros_rules::scale_up::ApplicationWaiting;
use monoceros_rules::utilization::NodeFigures;
use monoceros_rules::waits::{View, Waits};

use crate::application::Application;
use crate::callback::ResourceManagerCallback;
use crate::events::{Event, Tracking};
use crate::metrics::Kind;
use crate::named::Named;
use crate::node::Node;
use crate::partition::{Awaited, Partition, Room};
use crate::predicates::{PredicateQuestion, QuestionId};
use crate::queue::{Queue, QueueFacts};
use crate::rm::{PartitionLost, Rm, Settling};
use crate::snapshot::{ApplicationSnapshot, NodeSnapshot, OutstandingRequest, QueueSnapshot};
use crate::tally::Tally;

/// Nodes that one offer may ask in vain before it goes home, so that steps get their turn.
const REFUSALS_PER_TRIP: u32 = 1_024;

/// A queue of this partition: its place in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueSlot(pub(crate) u32);

/// Owns the books while a step is under way. See the module.
pub(crate) struct Baton {
    pub(crate) books: Books,
    pub(crate) directory: Directory,
    /// The time of this step, ns since the epoch.
    pub(crate) now_ns: i64,
    /// What the step has to say to the RM, in order.
    pub(crate) said: Vec<Saying>,
    /// What the step wants to be reminded of, and in how long.
    pub(crate) alarms: Vec<(Duration, Alarm)>,
    /// Applications that entered a terminal state, or were removed, in this step.
    pub(crate) ended: Vec<(ApplicationSlot, Option<RowSlot>)>,
    pub(crate) offer: Offering,
    pub(crate) placing: Option<Placing>,
    pub(crate) errand: Errand,
    /// Done from the last to the first.
    pub(crate) node_work: Vec<(NodeSlot, NodeWork)>,
    pub(crate) climb: Climbing,
    pub(crate) walk: Walk,
    /// Deadlines that are not needed any more.
    pub(crate) disarmed: Vec<u64>,
    /// Applications that waited for a node which has come or grown.
    pub(crate) woken: Vec<(ApplicationSlot, Arc<str>)>,
    /// Whether events are wanted.
    pub(crate) tracking: Tracking,
    /// Applications that may have waited for what a placement gave back to a node.
    pub(crate) woken_by_return: Vec<(ApplicationSlot, Arc<str>)>,
    pub(crate) tally: Tally,
    /// The RM's predicates.
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    pub(crate) home: Arc<Addr<Partition>>,
    /// Filled anew for each question, to spare the allocations.
    pub(crate) question: PredicatesArgs,
    pub(crate) guard: Guard,
}

/// A baton that is dropped before the partition closed takes the partition with it: its actors end,
/// and the guard tells the Rm.
impl Drop for Baton {
    fn drop(&mut self) {
        if self.guard.armed {
            self.directory.halt_all();
        }
    }
}

/// Tells the Rm when the baton is dropped before the partition closed.
pub(crate) struct Guard {
    pub(crate) rm: Addr<Rm>,
    pub(crate) partition: Arc<str>,
    pub(crate) armed: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.rm.do_send(PartitionLost { partition: Arc::clone(&self.partition) });
        }
    }
}

/// Where everything of the partition is.
#[derive(Default)]
pub(crate) struct Directory {
    /// By the index of the slot; parents before children.
    pub(crate) queues: Vec<Option<QueueEntry>>,
    /// Slots whose queue is gone.
    pub(crate) free_queues: BTreeSet<QueueSlot>,
    pub(crate) queue_by_path: BTreeMap<Arc<str>, QueueSlot>,
    /// By the index of the slot.
    pub(crate) nodes: Vec<Option<Arc<Addr<Node>>>>,
    pub(crate) applications: Vec<Option<ApplicationEntry>>,
    pub(crate) free_applications: Vec<u32>,
    pub(crate) application_by_id: BTreeMap<Arc<str>, ApplicationSlot>,
    /// Applications that no queue would have.
    pub(crate) rejected: u64,
    /// Applications that wait for a node that only they may use.
    pub(crate) named: Named,
    /// Applications with an ask that predicates refused; perhaps some more.
    pub(crate) refused: BTreeSet<ApplicationSlot>,
}

pub(crate) struct QueueEntry {
    /// As configured; what the queue itself has comes here first.
    pub(crate) facts: Arc<QueueFacts>,
    pub(crate) address: Arc<Addr<Queue>>,
    /// Its place in its parent; none for root.
    pub(crate) row: Option<RowSlot>,
    /// Applications in it, and queues right below it.
    pub(crate) applications: usize,
    pub(crate) children: usize,
    pub(crate) counts: QueueCounts,
    /// The queue itself has not yet heard of its facts.
    pub(crate) is_stale: bool,
}

impl QueueEntry {
    pub(crate) fn new(
        facts: Arc<QueueFacts>,
        address: Arc<Addr<Queue>>,
        row: Option<RowSlot>,
    ) -> Self {
        let counts = QueueCounts::default();
        Self { facts, address, row, applications: 0, children: 0, counts, is_stale: false }
    }

    /// Whether neither applications nor queues are in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.applications == 0 && self.children == 0
    }
}

/// What is counted for a leaf since it is there, for metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueCounts {
    /// Applications by state; the terminated ones are never taken off.
    pub(crate) states: BTreeMap<ApplicationState, i64>,
    pub(crate) allocated: u64,
    pub(crate) released: u64,
}

impl QueueCounts {
    /// An application left one state, or came into one, or both.
    pub(crate) fn moved(&mut self, from: Option<ApplicationState>, to: Option<ApplicationState>) {
        if let Some(from) = from {
            *self.states.entry(from).or_default() -= 1;
        }
        if let Some(to) = to {
            *self.states.entry(to).or_default() += 1;
        }
    }
}

pub(crate) struct ApplicationEntry {
    pub(crate) id: Arc<str>,
    pub(crate) leaf: QueueSlot,
    pub(crate) address: Arc<Addr<Application>>,
}

impl Directory {
    pub(crate) fn root(&self) -> &Arc<Addr<Queue>> {
        &self.queue(QueueSlot(0)).address
    }

    pub(crate) fn queue(&self, slot: QueueSlot) -> &QueueEntry {
        self.queues[slot.0 as usize].as_ref().expect("a slot is that of a queue")
    }

    pub(crate) fn queue_mut(&mut self, slot: QueueSlot) -> &mut QueueEntry {
        self.queues[slot.0 as usize].as_mut().expect("a slot is that of a queue")
    }

    /// Every queue, parents before children.
    pub(crate) fn all_queues(&self) -> impl DoubleEndedIterator<Item = &QueueEntry> {
        self.queues.iter().flatten()
    }

    /// What is known of a queue and of each above it, root last.
    pub(crate) fn upward(&self, queue: QueueSlot) -> impl Iterator<Item = &Arc<QueueFacts>> {
        let facts = |slot| &self.queue(slot).facts;
        std::iter::successors(Some(facts(queue)), move |below| below.parent.map(facts))
    }

    /// A slot for one more queue below another: behind it, so that parents stay before children.
    pub(crate) fn next_queue_slot(&self, parent: Option<QueueSlot>) -> QueueSlot {
        let behind = parent.map_or(0, |parent| parent.0 + 1);
        let free = self.free_queues.range(QueueSlot(behind)..).next().copied();
        free.unwrap_or_else(|| QueueSlot(u32::try_from(self.queues.len()).expect("queues fit u32")))
    }

    /// Takes a queue off; its slot is free again.
    pub(crate) fn forget_queue(&mut self, slot: QueueSlot) -> QueueEntry {
        let entry = self.queues[slot.0 as usize].take().expect("a queue goes once");
        self.queue_by_path.remove(&entry.facts.config.path);
        self.free_queues.insert(slot);
        if let Some(parent) = entry.facts.parent {
            self.queue_mut(parent).children -= 1;
        }
        entry
    }

    /// Notes a queue at its slot, which is free.
    pub(crate) fn enter_queue(&mut self, entry: QueueEntry) {
        let (slot, parent) = (entry.facts.slot, entry.facts.parent);
        self.queue_by_path.insert(Arc::clone(&entry.facts.config.path), slot);
        self.free_queues.remove(&slot);
        let at = slot.0 as usize;
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, || None);
        }
        self.queues[at] = Some(entry);
        if let Some(parent) = parent {
            self.queue_mut(parent).children += 1;
        }
    }

    pub(crate) fn application(&self, slot: ApplicationSlot) -> Option<&ApplicationEntry> {
        self.applications.get(slot.0 as usize).and_then(Option::as_ref)
    }

    pub(crate) fn node(&self, slot: NodeSlot) -> Option<&Arc<Addr<Node>>> {
        self.nodes.get(slot.index()).and_then(Option::as_ref)
    }

    /// Ends every actor.
    pub(crate) fn halt_all(&self) {
        for entry in self.applications.iter().flatten() {
            entry.address.do_send(crate::Halt);
        }
        for address in self.nodes.iter().flatten() {
            address.do_send(crate::Halt);
        }
        for entry in self.all_queues() {
            entry.address.do_send(crate::Halt);
        }
    }

    /// What is counted for a leaf.
    pub(crate) fn counts(&mut self, leaf: QueueSlot) -> &mut QueueCounts {
        &mut self.queue_mut(leaf).counts
    }

    /// The id of an application that is in the directory; empty once it has left.
    pub(crate) fn application_id(&self, slot: ApplicationSlot) -> Arc<str> {
        self.application(slot).map_or_else(|| Arc::from(""), |entry| Arc::clone(&entry.id))
    }
}

/// A partition tells its RM something.
#[derive(Debug)]
pub(crate) enum Saying {
    /// Said before the acceptance, and without a queue once the application has left.
    ApplicationPlaced {
        id: Arc<str>,
        queue: Option<Arc<str>>,
    },
    ApplicationAccepted(Arc<str>),
    ApplicationRejected {
        id: Arc<str>,
        reason: Rejection,
    },
    ApplicationUpdated {
        id: Arc<str>,
        state: ApplicationState,
        at_ns: i64,
        message: &'static str,
        queue: Arc<str>,
    },
    Allocated(Box<Allocated>),
    Released(Box<Released>),
    AskRejected {
        form: Form,
        key: Arc<str>,
        application: Arc<str>,
        reason: Rejection,
    },
    NodeAccepted(Arc<str>),
    NodeRejected {
        id: Arc<str>,
        reason: Rejection,
    },
    /// More machines would help this request.
    WantsMachines {
        application: Arc<str>,
        key: Arc<str>,
    },
    /// Something to be told as an event. What other sayings stand for as well (a placement, a
    /// state that is entered) is not said again.
    Happened(Box<Event>),
    /// Something had no effect and has no answer: it is counted.
    Ignored(Ignored),
    /// The RM's predicate is wanted.
    Asked(Box<PredicateQuestion>),
    /// It is not wanted any more.
    Withdrawn(QuestionId),
    /// Everything before this was decided and said.
    Settled(Arc<Settling>),
}

#[derive(Debug)]
pub(crate) struct Allocated {
    pub(crate) application: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) uuid: Arc<str>,
    pub(crate) node: Arc<str>,
    pub(crate) resources: Resources,
    pub(crate) priority: i32,
    pub(crate) originator: bool,
    pub(crate) preemption: Preemption,
    pub(crate) task_group: Option<TaskGroup>,
    /// Only of asks in the older form.
    pub(crate) tags: Option<Tags>,
    /// Path of the application's leaf.
    pub(crate) queue: Arc<str>,
    /// Who uses it.
    pub(crate) user: Arc<str>,
    /// The group that its application counts for.
    pub(crate) group: Option<Arc<str>>,
    /// ns since the epoch.
    pub(crate) at_ns: i64,
}

/// Who ended an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    StoppedByRm,
    Timeout,
}

#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) application: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) uuid: Arc<str>,
    pub(crate) ending: Ending,
    pub(crate) message: &'static str,
}

/// Something to come back to later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// An application has been Completing for its time; `since_ns` is its entry into that state.
    Completing { application: ApplicationSlot, id: Arc<str>, since_ns: i64 },
    /// An ask that every node refused may be tried again.
    PredicateRetry { application: ApplicationSlot, id: Arc<str>, key: Arc<str>, retry: u32 },
    /// An application has backed off until then, ns since the epoch.
    Backoff { application: ApplicationSlot, id: Arc<str>, until_ns: i64 },
    /// It is time to tell the RM what more machines would help.
    ScaleUp,
    /// A dynamic queue may have been empty for its time.
    CleanQueues,
    /// Items have waited for what they name for as long as they may.
    ReorderWindow { awaited: Awaited },
    /// An allocation has run for as long as its ask allowed.
    ExecutionTimeout { allocation: AllocationId },
}

// ------------------------------------------------------------------------------------ the offer

/// An offer under way.
#[derive(Default)]
pub(crate) struct Offering {
    /// One per queue on the way down, root first.
    pub(crate) frames: Vec<Frame>,
    /// Of the child or application the offer goes to next: whom it must stay ahead of.
    pub(crate) runner_up: Option<RowKey>,
    /// Decisions so far, and after how many the offer goes home.
    pub(crate) decided: u32,
    pub(crate) budget: u32,
    /// Nodes asked in vain so far; beyond [`REFUSALS_PER_TRIP`] the offer goes home, too.
    pub(crate) refused: u32,
    /// Predicates are not asked by the node: what it holds waits for the RM's answer.
    pub(crate) asks_later: bool,
    /// What the child that the offer comes back from says of itself.
    pub(crate) rising: Option<RowUpdate>,
    /// A decision that only whoever is that far up can follow: the number of frames that stay.
    pub(crate) rise_to: usize,
    /// Root had nothing to offer to.
    pub(crate) fruitless: bool,
    /// Something is pending below root.
    pub(crate) waiting: bool,
}

/// A queue on the path of an offer.
pub(crate) struct Frame {
    pub(crate) facts: Arc<QueueFacts>,
    /// Room for whatever is below this queue; shrinks with each decision.
    pub(crate) headroom: Limits,
    /// See [`View`].
    pub(crate) stamp: u64,
    pub(crate) may_start: bool,
    /// This queue or one above limits running applications.
    pub(crate) counts_running: bool,
    /// The queue's own totals with this offer's decisions, for its key.
    pub(crate) allocated: Resources,
    pub(crate) pending: Resources,
    pub(crate) priority: i32,
    /// The next of this queue's siblings: while its own key is smaller, the offer may stay below.
    pub(crate) runner_up: Option<RowKey>,
    /// What was decided below and the queue has not yet taken into its totals.
    pub(crate) delta: LedgerDelta,
}

impl Frame {
    pub(crate) fn view<'a>(&'a self, nodes: &'a NodeIndex) -> View<'a> {
        View {
            headroom: &self.headroom,
            stamp: self.stamp,
            may_start: self.may_start,
            nodes: Some(nodes),
        }
    }

    /// Whether this queue still comes before its runner-up.
    fn leads(&self) -> bool {
        let Some(runner_up) = &self.runner_up else {
            return true;
        };
        let key = self.facts.key(self.priority, &self.allocated, &self.pending);
        RowKey::Queue(key) < *runner_up
    }
}

impl Offering {
    /// Charges a placement to every queue on the path.
    pub(crate) fn charge(&mut self, resources: &Resources) {
        self.decided += 1;
        for frame in &mut self.frames {
            frame.headroom.take(resources);
            frame.allocated.add(resources);
            frame.pending.subtract(resources);
            frame.pending.prune();
            frame.delta.allocated.add(resources);
            frame.delta.pending.subtract(resources);
        }
    }

    /// Notes that only the queue with this number of frames (itself included) may go on.
    pub(crate) fn rise_to(&mut self, frames: usize) {
        self.rise_to = self.rise_to.min(frames);
    }

    /// How many frames stay: below the first queue that has fallen behind its runner-up, nobody may
    /// go on.
    pub(crate) fn level(&self) -> usize {
        if self.decided >= self.budget || self.refused >= REFUSALS_PER_TRIP {
            return 0;
        }
        let leading = self.frames.iter().take_while(|frame| frame.leads()).count();
        leading.min(self.rise_to)
    }
}

/// The key of a row: parents order queues, leaves order applications.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowKey {
    Queue(QueueKey),
    Application(ApplicationKey),
}

/// A row of a queue: its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowSlot(pub(crate) u32);

/// What a child tells its parent of itself.
pub(crate) struct RowUpdate {
    pub(crate) row: RowSlot,
    /// Of an application, where limits of its user or group hold it.
    pub(crate) lane: Option<LaneId>,
    /// `None`: nothing is pending, the row leaves the order.
    pub(crate) key: Option<RowKey>,
    /// What the parent's priority is made of.
    pub(crate) priority: i32,
    pub(crate) waits: Waits,
}

/// An ask on its way to a node.
pub(crate) struct Placing {
    pub(crate) ask: AskSlot,
    pub(crate) node: NodeSlot,
    /// Whom to ask after `node` in the same question, in order.
    pub(crate) alternatives: Vec<NodeSlot>,
    pub(crate) resources: Resources,
    pub(crate) key: Arc<str>,
    /// A required-node ask may also go to a node that takes no other.
    pub(crate) required: bool,
    pub(crate) allocation: AllocationId,
    pub(crate) application: Arc<Addr<Application>>,
    /// What the node says.
    pub(crate) outcome: Outcome,
    /// What predicates said so far, each with the number of nodes; only for events.
    pub(crate) refusals: BTreeMap<String, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not asked yet.
    Open,
    /// The node holds it.
    Held,
    /// No room, or not taking new placements: the index promised what the node does not have.
    NoRoom,
    /// The RM's predicate says no.
    Refused,
}

// --------------------------------------------------------------------------- visits and climbs

/// What a visit is to do.
#[derive(Default)]
pub(crate) enum Errand {
    #[default]
    None,
    /// To an application.
    Application(Vec<crate::application::Op>),
    /// To a leaf: an application joins.
    Attach { address: Arc<Addr<Application>> },
    /// To a queue: an application or a queue leaves it.
    Detach { row: RowSlot },
    /// To a queue: one more is to grow below it.
    Plant { facts: Box<QueueFacts> },
    /// To a node.
    Node(crate::node::Change),
    /// What a visit brought home.
    Done(Report),
}

/// What a visit brings home beside what it said.
#[derive(Default)]
pub(crate) struct Report {
    /// Of a node that leaves: what was on it, by application.
    pub(crate) stranded: Vec<AllocationId>,
    /// Of a node that must not take them any more: what is not settled.
    pub(crate) given_up: Vec<AllocationId>,
}

/// What is to be done on a node; forced, nothing here can fail.
pub(crate) enum NodeWork {
    Release(AllocationId, Resources),
    /// As a release, of what was never settled.
    Return(AllocationId, Resources),
    Hold(AllocationId, Resources),
    Resize(Resources),
}

/// A change on its way up the queues.
#[derive(Default)]
pub(crate) struct Climbing {
    /// Where it goes first.
    pub(crate) leaf: Option<Arc<Addr<Queue>>>,
    pub(crate) update: Option<RowUpdate>,
    pub(crate) delta: LedgerDelta,
    /// It gives every queue on its path more room: the number of the loosening, or 0.
    pub(crate) loosens: u64,
}

// ---------------------------------------------------------------------------------------- walks

/// A walk through a list of actors, last first: applications, then queues from the leaves upward,
/// then nodes.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) queues: Vec<Arc<Addr<Queue>>>,
    pub(crate) applications: Vec<Arc<Addr<Application>>>,
    pub(crate) nodes: Vec<Arc<Addr<Node>>>,
    pub(crate) purpose: Purpose,
    /// Fair maximum of every queue, by slot, for a refresh.
    pub(crate) fair_max: Vec<Option<Limits>>,
    /// Lanes to be looked at again, by leaf.
    pub(crate) lanes: BTreeMap<QueueSlot, Vec<LaneId>>,
    /// Key and priority that children leave for their parent.
    pub(crate) rows: BTreeMap<QueueSlot, Vec<RowUpdate>>,
    /// Snapshots that children leave for their parent.
    pub(crate) trees: BTreeMap<QueueSlot, Vec<QueueSnapshot>>,
    pub(crate) applications_read: Vec<ApplicationSnapshot>,
    pub(crate) nodes_read: Vec<NodeSnapshot>,
    /// Capacity and use of each node.
    pub(crate) loads: Vec<(Resources, Resources)>,
    pub(crate) facts: Facts,
    /// What is accounted of nodes.
    pub(crate) figures: Vec<(Arc<str>, NodeFigures)>,
    /// What queues have left, for the scale-up signal.
    pub(crate) rooms: BTreeMap<QueueSlot, Room>,
    /// What the limits of users and groups leave to them.
    pub(crate) limits: BTreeMap<LimitId, Limits>,
    /// What applications wait for, by leaf.
    pub(crate) waiting: Vec<(QueueSlot, ApplicationWaiting)>,
    /// What of it would run on more machines.
    pub(crate) wanted: BTreeMap<ApplicationSlot, Vec<(ClassId, u64)>>,
    /// The same for people, and how much of it they want.
    pub(crate) outstanding: Vec<OutstandingRequest>,
    pub(crate) outstanding_limit: usize,
}

/// What a walk does at each actor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Root's capacity or the configuration changed: keys are made anew.
    #[default]
    Refresh,
    /// Limits were loosened: lanes are looked at again.
    LookAgain,
    /// The partition goes: its RM is told of each application.
    Dismiss,
    /// A snapshot for people.
    Read,
    /// Capacity and use of nodes.
    Load,
    /// What is accounted of nodes.
    Figures,
    /// What queues have left.
    Room,
    /// What applications wait for.
    Waiting,
    /// The RM is told which asks would run on more machines.
    Signal,
    /// The same for people.
    Outstanding,
    /// The facts of an audit.
    Audit,
}

impl Baton {
    /// Says an event, if any are wanted; it is given the time.
    pub(crate) fn happens(&mut self, event: impl FnOnce(i64) -> Event) {
        if self.tracking.is_on() {
            self.said.push(Saying::Happened(Box::new(event(self.now_ns))));
        }
    }

    /// Notes that a node came or changed, for those who want no other.
    pub(crate) fn wake_named(&mut self, node: &Arc<str>) {
        let waiting = self.directory.named.take(node).into_iter();
        self.woken.extend(waiting.map(|slot| (slot, Arc::clone(node))));
    }

    /// Notes that a placement that was never settled gave back what it held of a node.
    pub(crate) fn wake_named_by_return(&mut self, node: &Arc<str>) {
        let waiting = self.directory.named.waiting_for(node);
        self.woken_by_return.extend(waiting.map(|slot| (slot, Arc::clone(node))));
    }

    /// Sends the walk on to its next actor, or home.
    pub(crate) fn walk_on(mut self: Box<Self>) {
        if let Some(application) = self.walk.applications.pop() {
            application.do_send(crate::application::Walk(self));
        } else if let Some(queue) = self.walk.queues.pop() {
            queue.do_send(crate::queue::Walk(self));
        } else if let Some(node) = self.walk.nodes.pop() {
            node.do_send(crate::node::Walk(self));
        } else {
            self.go_home();
        }
    }

    /// Goes to the next node that the visit concerns, then up the queues, then home.
    pub(crate) fn visit_on(mut self: Box<Self>) {
        if let Some((node, _)) = self.node_work.last() {
            if let Some(address) = self.directory.node(*node).cloned() {
                address.do_send(crate::node::Work(self));
                return;
            }
            // A node that left in this step takes its holdings with it.
            self.node_work.pop();
            self.visit_on();
        } else if let Some(leaf) = self.climb.leaf.take() {
            leaf.do_send(crate::queue::Climb(self));
        } else {
            self.go_home();
        }
    }

    pub(crate) fn go_home(mut self: Box<Self>) {
        self.tally.post(Kind::Partition);
        let home = Arc::clone(&self.home);
        home.do_send(crate::partition::Home(self));
    }
}
