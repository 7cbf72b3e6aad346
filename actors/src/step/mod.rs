//! What travels through a partition: one boxed baton that owns the books.
//!
//! # Why a baton
//! A partition runs one *step* at a time. A step is a baton that goes from actor to actor by
//! messages through synchronous handlers and comes home. State is written only with the baton in
//! hand, so that no two steps can overlap: there is no lock and no await, and the compiler checks
//! it.
//!
//! Three things travel with the baton, one at a time:
//! * an **offer** goes down the queues, is turned into decisions by an application and its nodes,
//!   and rises again ([`Offering`]);
//! * a **visit** goes to one application (or node, or leaf) with something to do, from there to the
//!   nodes it concerns ([`NodeWork`]), and then **climbs** the queues with what changed;
//! * a **survey** goes from actor to actor and reads or renews each ([`Survey`]).
//!
//! What a message brings is in the message, beside the baton (`Visit { baton, ops }`). The baton
//! itself has only what several handlers on its way look at. Where it goes for each ask, and on the
//! way of a survey, there is no message: it is put into the hand of the next actor, with what it brings
//! ([`Station`]), and taken off the baton there.
//!
//! # When things go wrong
//! A baton that is lost (a panic in a handler, a dead mailbox) drops its [`Guard`], and that tells
//! the Rm: the books are gone with it, so the partition is stopped and its RM is asked to resync.
//! A partition that closes in order disarms the guard first.

mod answering;
mod assuming;
mod directory;
pub(crate) mod named;
mod node_change;
mod notice;
mod offer;
mod op;
mod placement;
mod session;
mod station;
mod survey;
mod visit;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1::PredicatesArgs;
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::asks::failed_starts::StartRetry;
use monoceros_rules::books::Books;
use monoceros_rules::decide::reservations::Patience;
use monoceros_rules::decisions::Decisions;
use monoceros_rules::pending::promises::Promisee;
use monoceros_rules::pending::reservations::{End, Reserver};
use monoceros_rules::specs::quotas::{Held, QUEUE_BYTES, Standing};
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};
use monoceros_rules::values::resources::Resources;

use crate::api::callback::ResourceManagerCallback;
use crate::api::predicates::AnswerSink;
use crate::application::ApplicationMail;
use crate::clock::Clock;
use crate::events::{Event, EventKind, Tracking};
use crate::metrics::ActorKind;
use crate::node::NodeMail;
use crate::partition::{Home, Partition};
use crate::queue::QueueMail;
use crate::tally::Tally;

pub(crate) use answering::{Answers, Passed, Settlement};
pub(crate) use assuming::Counting;
pub(crate) use directory::{ApplicationEntry, Directory, QueueCounts, QueueEntry, QueueSlot};
pub(crate) use node_change::{ForeignReport, NodeChange};
pub(crate) use notice::{
    Alarm, Allocated, AskReleased, BACKOFF_LEAST, Barrier, BarrierPassed, Ending, Entered, Notice,
    Owner, PLACEHOLDER_TIMEOUT, RELEASED_BY_RM, Released, Successor, WaitsFor, WantsMachines,
    WantsOne,
};
pub(crate) use offer::{Frame, Offering, RowKey, RowSlot, RowUpdate};
pub(crate) use op::{Cause, ClaimAnswer, Existing, ManyEnd, NoVictims, Op, StartTime, Which};
pub(crate) use placement::{PlaceAnswer, Placement, REASONS_MAX, Takes};
pub(crate) use session::{HeldNow, PartitionClosed, PartitionLost, Prepared, Said, SessionLink};
pub(crate) use station::{Station, Visited};
pub(crate) use survey::{Route, Survey, Surveyed, Surveyor};
pub(crate) use visit::{Climbing, Consequences, Gathered, NodeWork, Resume};

/// What a step carries from actor to actor: the books, the addresses of all actors, and all that
/// the step has said and noted so far.
pub(crate) struct Baton {
    pub(crate) books: Books,
    pub(crate) directory: Directory,
    /// The time of this step, ns since the epoch.
    pub(crate) now_ns: i64,
    /// What the step has to say to the RM, in order.
    pub(crate) notices: Vec<Notice>,
    /// What the step wants to be reminded of, and in how long.
    pub(crate) alarms: Vec<(Duration, Alarm)>,
    /// As `alarms`, with numbers by which they can be [disarmed](Self::disarmed).
    pub(crate) timers: Vec<(Duration, u64, Alarm)>,
    /// The number of the next of `timers`.
    pub(crate) next_timer: u64,
    /// Applications that entered a terminal state, or were removed, in this step.
    pub(crate) ended: Vec<(ApplicationSlot, Option<RowSlot>)>,
    /// What is to be kept of those that entered a terminal state.
    pub(crate) terminated: Vec<Ended>,
    /// What is to be told of those that ran, and were removed.
    pub(crate) removed: Vec<Ended>,
    pub(crate) offer: Offering,
    pub(crate) gathered: Gathered,
    /// Deadlines that are not needed any more.
    pub(crate) disarmed: Vec<u64>,
    /// Applications that waited for a node which has come or grown.
    pub(crate) woken: Vec<(ApplicationSlot, Arc<str>)>,
    /// Asks whose reservation was ended by others than their application, which has to know.
    pub(crate) unreserved: Vec<(ApplicationSlot, Arc<str>, End)>,
    /// When nodes may be reserved, and for how long.
    pub(crate) patience: Patience,
    /// The back-off of requests whose start failed.
    pub(crate) start_retry: StartRetry,
    /// What applications have to do once this step is over, before any other.
    pub(crate) revisits: Vec<(ApplicationSlot, Op)>,
    /// What applications have still to do, in order, once others had their turn.
    pub(crate) unfinished: Vec<(ApplicationSlot, Vec<Op>)>,
    /// Nodes that changed, of which gangs may keep something.
    pub(crate) with_rooms: BTreeSet<NodeSlot>,
    /// Those who would preempt others, found in this step.
    pub(crate) preemptors: Vec<Preemptor>,
    /// Whether asks preempt others in this partition.
    pub(crate) preempts: bool,
    /// Whether events are wanted.
    pub(crate) tracking: Tracking,
    /// Applications that may have waited for what a placement gave back to a node.
    pub(crate) woken_by_return: Vec<(ApplicationSlot, Arc<str>)>,
    pub(crate) tally: Tally,
    /// For what is followed alone: all else goes by the time of the step.
    pub(crate) clock: Clock,
    /// The last decisions.
    pub(crate) decisions: Decisions,
    /// The RM's predicates.
    pub(crate) callback: Arc<dyn ResourceManagerCallback>,
    pub(crate) home: Arc<Station<Partition>>,
    /// The sink for the RM's answers to questions about placements.
    pub(crate) answers: AnswerSink,
    /// What is brought to the node, the application, the queue or the partition that it goes to.
    pub(crate) for_node: Option<NodeMail>,
    pub(crate) for_application: Option<ApplicationMail>,
    pub(crate) for_queue: Option<QueueMail>,
    pub(crate) for_partition: Option<Home>,
    /// Filled anew for each question, to spare the allocations.
    pub(crate) question: PredicatesArgs,
    pub(crate) guard: Guard,
}

/// One who would preempt others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Preemptor {
    /// For what its queue is guaranteed. The nodes that have room may have been tried for it in vain.
    ForGuarantee { who: Promisee, nodes_were_tried: bool },
    /// For the node that it requires.
    ForNode(Reserver, NodeSlot),
}

impl Preemptor {
    /// Who it is.
    pub(crate) fn who(self) -> Promisee {
        match self {
            Self::ForGuarantee { who, .. } => who,
            Self::ForNode(who, _) => Promisee::Ask(who),
        }
    }
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
    pub(crate) session: SessionLink,
    pub(crate) partition: Arc<str>,
    pub(crate) armed: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.session.lost.post(PartitionLost { partition: Arc::clone(&self.partition) });
        }
    }
}

impl Baton {
    /// Charges a placement to every queue on the path of the offer.
    pub(crate) fn charge(&mut self, resources: &Resources) {
        self.offer.charge(resources);
        let queues = &mut self.books.queues;
        let mut is_used_up = false;
        for frame in &self.offer.frames {
            is_used_up |= queues.charge(frame.facts.slot.0, resources);
        }
        if is_used_up {
            self.books.nodes.note_lending();
        }
    }

    /// Notes that a decision leaves this much less allocated in every queue on the path of the offer.
    pub(crate) fn give_back(&mut self, resources: &Resources, loosening: Loosening) {
        self.offer.give_back(resources, loosening);
        for frame in &self.offer.frames {
            self.books.queues.give_back(frame.facts.slot.0, resources);
        }
    }

    /// Queues are configured anew: who may use what others have reserved is found out again.
    pub(crate) fn lend_anew(&mut self) {
        self.books.nodes.rank_otherwise(self.books.queues.changes_priorities());
        self.books.nodes.lend_anew();
    }

    /// The node that an ask has reserved is for all until that could run. Its application is told
    /// before anything else is decided.
    pub(crate) fn suspend(&mut self, who: Reserver) {
        let Books { nodes, reservations, .. } = &mut self.books;
        let Some(reservation) = reservations.of(who) else { return };
        let key = Arc::clone(&reservation.spec.key);
        if reservations.suspend(nodes, who) {
            tracing::debug!(ask = %key, "reservation suspended");
            self.revisits.push((who.application, Op::Suspended(key)));
            self.offer.rise_to(0);
        }
    }

    /// What the quotas of the RM say, by what is here now.
    pub(crate) fn quotas(&self) -> Standing {
        let mut standing = self.books.quotas;
        let queues = self.directory.queues.len() as u64;
        standing.here.queues = queues;
        standing.here.bytes += queues * QUEUE_BYTES;
        standing
    }

    /// Has the quotas of the RM know what a node has by now.
    pub(crate) fn note_node(&mut self, node: NodeSlot, now: Held) {
        let before = self.directory.held_by_nodes.take(node).unwrap_or_default();
        self.directory.held_by_nodes.insert_at(node, now);
        self.books.quotas.change(before, now);
    }

    /// The node is gone.
    pub(crate) fn forget_held_by_node(&mut self, node: NodeSlot) {
        let before = self.directory.held_by_nodes.take(node).unwrap_or_default();
        self.books.quotas.change(before, Held::default());
    }

    /// Adds notices to those of the step.
    pub(crate) fn say(&mut self, notices: &mut Vec<Notice>) {
        if self.notices.is_empty() {
            std::mem::swap(&mut self.notices, notices);
        } else {
            self.notices.append(notices);
        }
    }

    /// Adds an event to the notices, if events are wanted; it is made with the time of the step.
    pub(crate) fn happens(&mut self, event: impl FnOnce(i64) -> Event) {
        if self.tracking.is_on() {
            self.notices.push(Notice::Happened(event(self.now_ns).into()));
        }
    }

    /// Has the step reminded of something after a while. The number disarms it.
    pub(crate) fn arm(&mut self, wait: Duration, alarm: Alarm) -> u64 {
        self.next_timer += 1;
        self.timers.push((wait, self.next_timer, alarm));
        self.next_timer
    }

    /// Notes that a node came or changed, for the applications that wait for it by name, and those
    /// that have it reserved.
    pub(crate) fn wake_named(&mut self, node: NodeSlot, id: &Arc<str>) {
        let mut waiting = self.directory.named.take(id);
        waiting.extend(self.reservers(node));
        self.woken.extend(waiting.into_iter().map(|slot| (slot, Arc::clone(id))));
    }

    /// Notes that a placement that was never settled gave back what it held of a node.
    pub(crate) fn wake_named_by_return(&mut self, node: NodeSlot, id: &Arc<str>) {
        let mut waiting: BTreeSet<_> = self.directory.named.waiting_for(id).collect();
        waiting.extend(self.reservers(node));
        self.woken_by_return.extend(waiting.into_iter().map(|slot| (slot, Arc::clone(id))));
    }

    /// The applications that have the node reserved.
    fn reservers(&self, node: NodeSlot) -> impl Iterator<Item = ApplicationSlot> {
        self.books.reservations.on_node(node).map(|(who, _)| who.application)
    }

    /// Ends the reservation of an ask, of whichever application, which is told before anything
    /// else is decided. A node that is free for all again may be what an earlier queue waits for.
    pub(crate) fn unreserve(&mut self, who: Reserver, why: End) {
        if let Some(key) = self.end_reservation(who, why) {
            self.unreserved.push((who.application, key, why));
            self.offer.rise_to(0);
        }
    }

    /// Ends the reservation of an ask in the books, and what was promised with it. Returns the key of
    /// the ask, if it had one.
    pub(crate) fn end_reservation(&mut self, who: Reserver, why: End) -> Option<Arc<str>> {
        let key = self.take_reservation(who, why)?;
        self.end_promise(Promisee::Ask(who), why == End::Placed);
        Some(key)
    }

    /// Ends the reservation of an ask that has been promised another node.
    pub(crate) fn move_reservation(&mut self, who: Reserver) {
        self.take_reservation(who, End::Moved);
    }

    fn take_reservation(&mut self, who: Reserver, why: End) -> Option<Arc<str>> {
        let Books { nodes, reservations, .. } = &mut self.books;
        let ended = reservations.end(nodes, who)?;
        if nodes.is_reserved(ended.node) {
            // To those who look for victims the others may give way.
            self.books.note_change();
        } else {
            self.offer.rise_to(0);
        }
        let nodes = &self.books.nodes;
        let (node, spec) = (Arc::clone(nodes.id(ended.node)), ended.spec);
        tracing::debug!(ask = %spec.key, %node, %why, "reservation ended");
        let event = |at| Event::of(EventKind::NodeUnreserved, &node, at);
        self.happens(|at| event(at).asked_for(&spec));
        Some(Arc::clone(&spec.key))
    }

    /// Goes to the next node that a visit concerns, then up the queues, then home.
    pub(crate) fn follow(self: Box<Self>, mut consequences: Consequences) {
        while let Some((node, _)) = consequences.node_work.last() {
            if let Some(address) = self.directory.nodes.find(*node).cloned() {
                address.hand(self, NodeMail::Work(Box::new(consequences)));
                return;
            }
            // A node that left in this step takes its holdings with it.
            consequences.node_work.pop();
        }
        if let Some((application, resume)) = consequences.resume {
            application.do_send(crate::application::Resumed { baton: self, resume });
            return;
        }
        match consequences.climbing {
            Some((leaf, climbing)) => self.climb(leaf, climbing),
            None => self.go_home(),
        }
    }

    /// Goes to the node that the next answer concerns; when no answer is left, to the application
    /// that they are about.
    pub(crate) fn take_answers(self: Box<Self>, mut answers: Answers) {
        if let Some((node, passed)) = answers.next_passed(&self.books) {
            let address = Arc::clone(&self.directory.nodes[node]);
            address.do_send(crate::node::Confirm { baton: self, passed, answers });
            return;
        }
        let Some(entry) = self.directory.applications.find(answers.application) else {
            debug_assert!(false, "an application stays while a placement of it waits");
            self.go_home();
            return;
        };
        let address = Arc::clone(&entry.address);
        address.do_send(crate::application::Answered { baton: self, answers: answers.settled });
    }

    pub(crate) fn go_home(mut self: Box<Self>) {
        self.homeward().hand(self, Home);
    }

    /// The address of its partition; the message by which the baton comes home is counted.
    pub(crate) fn homeward(&mut self) -> Arc<Station<Partition>> {
        self.tally.post(ActorKind::Partition);
        Arc::clone(&self.home)
    }
}
