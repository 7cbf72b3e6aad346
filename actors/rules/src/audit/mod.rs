//! The audit: the books compared with a full search, which bounds, trees and running totals must
//! agree with.
//!
//! # Why
//! The scheduler is fast because it skips: by bounds, marks, lanes and totals it knows that a
//! search would have no result. The only symptom of a fault there is an ask that is pending without
//! end, which a test that lists placements does not notice. So all results are also computed a
//! second time, without any skipping.
//!
//! [`Facts`] are the reports of all actors between two steps. [`Facts::check`] verifies that sums,
//! limits and states agree with each other. [`Facts::next_decision`] is the reference scheduler: it
//! sorts all queues and applications again, examines every ask and every node, and uses no bounds,
//! marks or lanes, and no headroom that an offer carries. Tests compare every decision with it, and
//! every offer without a decision. Limits of users and groups are read from the configuration that
//! queues report, and the usage of users and groups is summed up from their applications; the
//! trackers are only compared with it.

mod applications;
mod bundle;
mod check;
mod lent;
mod lost;
mod search;

pub mod sound;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use applications::BesideBook;
pub use lost::MembersFact;
pub use search::{About, Answers, Passes, Prefers};

use crate::allocations::Pairing;
use crate::applications::application_state::ApplicationState;
use crate::applications::gang::Group;
use crate::applications::native::{Native, Stage};
use crate::books::Books;
use crate::limits::{GroupUsage, UserUsage};
use crate::nodes::Domain;
use crate::order::ledger::QueueLedger;
use crate::pending::nominations::Nominations;
use crate::pending::reservations::Holder;
use crate::queues::QueueConfig;
use crate::queues::object_state::ObjectState;
use crate::specs::ask::TaskGroup;
use crate::specs::constraint::AskConstraint;
use crate::specs::declaration::Topology;
use crate::specs::quotas::Held;
use crate::specs::tags::Tags;
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot, NodeSlot};
use crate::values::resources::{Limits, Resources, Sum};
use crate::values::texts::Texts;

/// The facts of a queue.
#[derive(Clone, Debug)]
pub struct QueueFact {
    /// The slot in the directory; root is 0.
    pub slot: u32,
    /// The slot of the parent.
    pub parent: Option<u32>,
    /// The totals of the queue.
    pub ledger: QueueLedger,
    /// The priority that its parent sees.
    pub priority: i32,
    /// The settings as configured.
    pub config: Arc<QueueConfig>,
    /// Whether it is active, drains or is stopped.
    pub state: ObjectState,
    /// The base of its share.
    pub fair_max: Option<Limits>,
}

/// The facts of an application.
#[derive(Clone, Debug)]
pub struct ApplicationFact {
    /// The task groups that stay in a domain.
    pub domains: Vec<(TaskGroup, Arc<Domain>)>,
    /// The slot in the directory.
    pub slot: ApplicationSlot,
    /// The id of the application.
    pub id: Arc<str>,
    /// The slot of its leaf.
    pub leaf: u32,
    /// The user who owns the application.
    pub user: Arc<str>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The group that it counts for.
    pub group: Option<Arc<str>>,
    /// The state of the application.
    pub state: ApplicationState,
    /// The time when it was submitted, ns since the epoch.
    pub submitted_ns: i64,
    /// The amount that the application holds.
    pub allocated: Resources,
    /// The amount that the application asks for.
    pub pending: Sum,
    /// The highest priority among its pending asks.
    pub priority: i32,
    /// The allocations of the application.
    pub allocations: Vec<AllocationId>,
    /// Placements that wait for their predicate, or for a placeholder to end.
    pub unsettled: Vec<AllocationId>,
    /// The part of `allocated` that its placeholders hold.
    pub placeholders: Resources,
    /// The counts of the placeholders of each task group.
    pub task_groups: BTreeMap<Arc<String>, Group>,
    /// The counts of members of each group; empty unless the gang was declared and is decided.
    pub members: Vec<MembersFact>,
    /// Whether it declared its members: places are held for them, and no RM knows its placeholders.
    pub is_native: bool,
    /// The undecided gang; `None` once its members have places.
    pub bundle: Option<BundleFact>,
    /// Whether a deadline of its placeholders is armed.
    pub has_placeholder_timer: bool,
    /// The pending asks of the application.
    pub asks: Vec<AskFact>,
    /// The number of its asks with a reserved node, including those that wait for a predicate.
    pub reserved: usize,
    /// The number of these whose reservation is suspended.
    pub suspended: usize,
    /// Whether it is passed over because its back-off has not ended.
    pub backs_off: bool,
    /// The time when asks that were too young to reserve a node are tried again, ns since the
    /// epoch.
    pub aging_ns: Option<i64>,
}

/// A declared gang that is not decided.
#[derive(Clone, Debug)]
pub struct BundleFact {
    /// The name of each group and the number of members that it needs, as declared.
    pub groups: Vec<(TaskGroup, u32)>,
    /// The topology of each group: where its members have to be relative to each other.
    pub topologies: Vec<Option<Arc<Topology>>>,
    /// The groups with internal asks where asks of members are missing.
    pub sized: Vec<TaskGroup>,
    /// Whether a search was without result, and the gang waits for a node to grow that can take a
    /// member. No such node has grown.
    pub rests: bool,
    /// Whether it waits because no member of it could be started.
    pub backs_off: bool,
    /// Whether all members have places, and wait for the answers of predicates.
    pub in_flight: bool,
}

impl BundleFact {
    /// Returns the facts of an undecided gang.
    pub fn of(native: &Native, rests: bool) -> Self {
        let groups = native.groups().iter();
        Self {
            groups: groups.clone().map(|it| (Arc::clone(&it.name), it.wanted())).collect(),
            topologies: groups.clone().map(|it| it.sought_topology().cloned()).collect(),
            sized: groups.filter(|it| it.spec.is_some()).map(|it| Arc::clone(&it.name)).collect(),
            rests,
            backs_off: native.backs_off(),
            in_flight: native.stage == Stage::InFlight,
        }
    }
}

/// A pending ask.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug)]
pub struct AskFact {
    /// The slot of the ask.
    pub slot: AskSlot,
    /// The RM's key.
    pub key: Arc<str>,
    /// The amount of each allocation.
    pub resources: Resources,
    /// The number of allocations that are outstanding.
    pub repeat: u32,
    /// The priority; higher is more important.
    pub priority: i32,
    /// The time when it was created, ns since the epoch.
    pub created_ns: i64,
    /// The number in the order of arrival.
    pub sequence: u64,
    /// The only node it may use.
    pub required_node: Option<Arc<str>>,
    /// Nodes that it may not use for a while.
    pub excluded: Vec<Arc<str>>,
    /// The task group of the ask.
    pub task_group: Option<TaskGroup>,
    /// Whether it is a placeholder for a member of that group.
    pub placeholder: bool,
    /// Whether it is marked as having a node reserved.
    pub is_reserved: bool,
    /// Whether its reserved node has to be tried, whatever it waits for.
    pub is_due_at_reserved: bool,
    /// Whether the RM refused the reservation; no other node is tried for a while.
    pub may_not_reserve: bool,
    /// Whether enough growths have passed it by.
    pub is_passed_by: bool,
    /// Whether another ask reserved a node in its place.
    pub was_replaced: bool,
    /// Whether it is an internal ask, for members of a declared gang without an ask.
    pub internal: bool,
    /// The placement constraint, and the number of its alternatives that the ask may use now.
    pub constraint: Option<(Arc<AskConstraint>, usize)>,
    /// The tags of the ask.
    pub tags: Option<Tags>,
    /// The domain in which its task group has to stay.
    pub domain: Option<Arc<Domain>>,
    /// Whether it waits because a start of it failed.
    pub backs_off: bool,
    /// Whether a start of it failed, and none has succeeded since.
    pub has_failed: bool,
    /// The nodes where its last starts failed.
    pub failed_nodes: Vec<Arc<str>>,
}

impl ApplicationFact {
    /// Whether it is accepted and does not count as running.
    fn is_starting(&self) -> bool {
        self.state == ApplicationState::Accepted && !self.may_run_soon()
    }

    /// Whether it counts as running although it is only accepted: its first placement waits for its
    /// predicate, or it has placeholders or a node reserved.
    fn may_run_soon(&self) -> bool {
        self.state == ApplicationState::Accepted && self.has_place()
    }

    /// Whether it holds an allocation, or has a node reserved.
    fn has_place(&self) -> bool {
        !(self.unsettled.is_empty() && self.allocations.is_empty())
            || self.reserved > self.suspended
    }

    /// Whether a real member of the task group waits for a placeholder.
    fn waits_for_placeholders(&self, group: &TaskGroup) -> bool {
        let of_group = self.task_groups.get(group);
        of_group.is_some_and(|group| group.count > group.replaced + group.timed_out)
    }
}

/// The facts of a node.
#[derive(Clone, Debug)]
pub struct NodeFact {
    /// The slot in the index.
    pub slot: NodeSlot,
    /// The id.
    pub id: Arc<str>,
    /// The capacity of the node.
    pub total: Resources,
    /// The amount that this scheduler placed there.
    pub allocated: Resources,
    /// The amount that others use there.
    pub others: Resources,
    /// The available amount, without zero entries.
    pub available: Resources,
    /// The allocations on the node.
    pub holds: Vec<AllocationId>,
    /// Whether it takes new allocations.
    pub open: bool,
    /// The attributes of the node.
    pub attributes: Arc<Texts>,
}

/// The facts of an allocation.
#[derive(Clone, Debug)]
pub struct AllocationFact {
    /// The id.
    pub id: AllocationId,
    /// The application that it belongs to.
    pub application: ApplicationSlot,
    /// The node that it is on.
    pub node: NodeSlot,
    /// The amount that the allocation holds.
    pub resources: Resources,
    /// The question whose answer it waits for.
    pub question: Option<u64>,
    /// The name within the application.
    pub uuid: Arc<str>,
    /// The task group, if it is a placeholder.
    pub place_in: Option<TaskGroup>,
    /// The task group that it is a member of.
    pub member_of: Option<TaskGroup>,
    /// Creation time of the ask, ns since the epoch.
    pub created_ns: i64,
    /// Whether the RM was asked to end it.
    pub leaves: bool,
    /// Its part in the replacement of a placeholder.
    pub pairing: Pairing,
    /// The tags of the allocation.
    pub tags: Option<Tags>,
    /// Whether it is a hold: a place that is held for a member, which its RM does not know.
    pub is_hold: bool,
    /// Whether its RM counts it as running, but was not notified of it.
    pub is_assumed: bool,
}

impl AllocationFact {
    /// Whether it waits for the end of the placeholder whose place it takes.
    fn takes_a_place(&self) -> bool {
        matches!(self.pairing, Pairing::Takes { .. })
    }

    /// Whether its RM has to assume it: it is a held place, or takes the place of a placeholder,
    /// and it waits for no predicate.
    fn is_to_be_assumed(&self) -> bool {
        let is_asked = self.question.is_some() || self.pairing == Pairing::InBundle;
        !is_asked && (self.is_hold || self.takes_a_place())
    }

    /// Whether it holds an amount on its node.
    fn is_on_node(&self) -> bool {
        !matches!(self.pairing, Pairing::Takes { in_place: true, .. })
    }
}

/// The facts of a reservation.
#[derive(Clone, Debug)]
pub struct ReservationFact {
    /// The application of the ask.
    pub application: ApplicationSlot,
    /// The key of the ask.
    pub key: Arc<str>,
    /// The amount that the ask needs.
    pub resources: Resources,
    /// The node that the ask requires.
    pub required_node: Option<Arc<str>>,
    /// The node that is reserved.
    pub node: NodeSlot,
    /// The time when it was made, ns since the epoch.
    pub since_ns: i64,
    /// The priority of the ask.
    pub priority: i32,
    /// The holder of the reservation.
    pub holder: Holder,
    /// Whether it is suspended: the node is open to all asks, because this one could not run.
    pub is_suspended: bool,
    /// Whether it counts for the share of the cluster that reservations may cost.
    pub is_bounded: bool,
}

/// The facts of a node in the node index.
#[derive(Clone, Debug)]
pub struct IndexFact {
    /// The slot of the node in the index.
    pub slot: NodeSlot,
    /// The score of the node.
    pub score: f64,
    /// The amount that the node has left.
    pub available: Resources,
    /// Whether searches may use the node.
    pub open: bool,
    /// Whether it is set aside.
    pub reserved: bool,
}

/// The facts of all actors and books of a partition between two steps.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Every queue.
    pub queues: Vec<QueueFact>,
    /// Every active application.
    pub applications: Vec<ApplicationFact>,
    /// Every node.
    pub nodes: Vec<NodeFact>,
    /// Every allocation in the table, unsettled placements included.
    pub allocations: Vec<AllocationFact>,
    /// The number of allocations in the table that are booked.
    pub n_booked: usize,
    /// Every reservation.
    pub reservations: Vec<ReservationFact>,
    /// The nominations of preemptors.
    pub nominations: Nominations,
    /// The open questions about placements, each with its placement.
    pub questions: Vec<(u64, AllocationId)>,
    /// Every node as the node index has it.
    pub index: Vec<IndexFact>,
    /// The sum of all nodes' capacities, according to the node index.
    pub capacity: Resources,
    /// The tracked users, with their usage.
    pub users: Vec<UserUsage>,
    /// The tracked groups, with their usage.
    pub groups: Vec<GroupUsage>,
    /// The counts of the RM's quotas for this partition; `None`: they are not compared.
    pub held: Option<Held>,
}

/// The next decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An ask of an application is placed on a node.
    Place {
        /// The application's id.
        application: Arc<str>,
        /// The ask's key.
        key: Arc<str>,
        /// The node's id.
        node: Arc<str>,
    },
    /// All members of a declared gang get their places.
    Gang {
        /// The application's id.
        application: Arc<str>,
        /// Each member with the id of its node, sorted: `false` and its key, or `true` and its task
        /// group if a place is held for it.
        members: Vec<(bool, Arc<str>, Arc<str>)>,
    },
    /// A declared gang gives up its nomination, because a member may not run on its node.
    GiveUpRooms {
        /// The application's id.
        application: Arc<str>,
    },
    /// An ask takes the place of a placeholder of its application, which has to end.
    Replace {
        /// The application's id.
        application: Arc<str>,
        /// The ask's key.
        key: Arc<str>,
        /// The placeholder's UUID.
        placeholder: Arc<str>,
        /// The id of the node where the ask is to run.
        node: Arc<str>,
    },
    /// An ask reserves a node.
    Reserve {
        /// The application's id.
        application: Arc<str>,
        /// The ask's key.
        key: Arc<str>,
        /// The node's id.
        node: Arc<str>,
    },
    /// An ask gives up the node that it has reserved.
    GiveUp {
        /// The application's id.
        application: Arc<str>,
        /// The ask's key.
        key: Arc<str>,
        /// The node's id.
        node: Arc<str>,
    },
}

impl Decision {
    /// Builds the decision that an ask of an application reserves a node.
    pub fn reserve(application: &Arc<str>, key: &Arc<str>, node: &Arc<str>) -> Self {
        let [application, key, node] = [application, key, node].map(Arc::clone);
        Self::Reserve { application, key, node }
    }

    /// Builds the decision that an ask of an application gives up the node that it has reserved.
    pub fn give_up(application: &Arc<str>, key: &Arc<str>, node: &Arc<str>) -> Self {
        let [application, key, node] = [application, key, node].map(Arc::clone);
        Self::GiveUp { application, key, node }
    }
}

/// The result of a full search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// The next decision.
    Next(Decision),
    /// There is no decision to make.
    Nothing,
    /// The result depends on the time when an ask that waits for a deadline is tried again.
    Unknown,
}

impl Facts {
    /// Adds the facts of the books.
    pub fn take_books(&mut self, books: &Books) {
        self.held = Some(books.quotas.here);
        self.allocations = books
            .allocations
            .iter()
            .map(|(id, entry)| AllocationFact {
                id,
                application: entry.application,
                node: entry.node,
                resources: entry.resources().clone(),
                question: entry.question,
                uuid: Arc::clone(&entry.uuid),
                place_in: entry.spec.place_in().cloned(),
                member_of: entry.spec.member_of().cloned(),
                created_ns: entry.created_ns,
                leaves: entry.leaving.is_some(),
                pairing: entry.pairing,
                tags: entry.spec.tags.clone(),
                is_hold: entry.is_hold(),
                is_assumed: entry.is_assumed,
            })
            .collect();
        self.n_booked = books.n_booked();
        let questions = books.unsettled.iter();
        self.questions =
            questions.map(|(number, question)| (number, question.allocation)).collect();
        self.index = books
            .nodes
            .by_id()
            .map(|slot| IndexFact {
                slot,
                score: books.nodes.score(slot),
                available: books.nodes.available(slot).clone().pruned(),
                open: books.nodes.is_open(slot),
                reserved: books.nodes.is_reserved(slot),
            })
            .collect();
        self.nominations = books.nominations.clone();
        let reservations = books.reservations.iter();
        self.reservations = reservations
            .map(|(who, reservation)| ReservationFact {
                application: who.application,
                key: Arc::clone(&reservation.spec.key),
                resources: Resources::clone(&reservation.spec.resources),
                required_node: reservation.spec.required_node.clone(),
                node: reservation.node,
                since_ns: reservation.since_ns,
                priority: reservation.spec.priority,
                holder: reservation.holder.clone(),
                is_suspended: reservation.is_suspended,
                is_bounded: reservation.is_bounded(),
            })
            .collect();
        self.capacity = books.nodes.capacity().clone();
        self.users = books.trackers.users().collect();
        self.groups = books.trackers.groups().collect();
    }

    fn table(&self) -> BTreeMap<AllocationId, &AllocationFact> {
        self.allocations.iter().map(|fact| (fact.id, fact)).collect()
    }

    fn queue(&self, slot: u32) -> Option<&QueueFact> {
        self.queues.iter().find(|queue| queue.slot == slot)
    }

    fn children(&self, slot: u32) -> impl Iterator<Item = &QueueFact> {
        self.queues.iter().filter(move |queue| queue.parent == Some(slot))
    }

    /// Returns a queue and the queues above it, up to root.
    fn path_of(&self, slot: u32) -> impl Iterator<Item = &QueueFact> {
        let above = |queue: &&QueueFact| self.queue(queue.parent?);
        std::iter::successors(self.queue(slot), above)
    }

    fn root_path(&self) -> Arc<str> {
        self.queue(0).map_or_else(|| Arc::from("root"), |root| Arc::clone(&root.config.path))
    }
}
