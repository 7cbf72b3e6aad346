//! The books compared with a full search: what the bounds, the tree and the running totals must
//! agree with.
//!
//! # Why
//! The scheduler is quick because it skips: bounds, marks, lanes and totals say that a look would
//! be without result. A fault there shows no symptom but an ask that waits for ever, which nobody notices
//! in a test that lists what was placed. So everything is also computed a second time, without any
//! skipping.
//!
//! [`Facts`] is what every actor says of itself between two steps. [`Facts::check`] verifies that
//! sums, limits and states agree with each other; [`Facts::next_decision`] is the reference
//! scheduler: it sorts everything anew, looks at every ask and every node, and knows nothing of
//! bounds, marks, lanes or headroom that travels. Tests compare every decision and every silence
//! with it. Limits of users and groups are read from what the queues say of their configuration,
//! and what users and groups use is summed up from their applications; the trackers are only
//! compared with it.

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

pub use lost::MembersFact;
pub use search::{About, Answers, Passes, Prefers};

use crate::allocations::Pairing;
use crate::applications::application_state::ApplicationState;
use crate::applications::gang::Group;
use crate::applications::native::{Native, Stage};
use crate::asks::Asks;
use crate::books::Books;
use crate::limits::{GroupUsage, UserUsage};
use crate::nodes::{Domain, NodeIndex};
use crate::order::ledger::QueueLedger;
use crate::pending::nominations::Nominations;
use crate::pending::reservations::Holder;
use crate::queues::QueueConfig;
use crate::queues::object_state::ObjectState;
use crate::specs::ask::{Form, TaskGroup};
use crate::specs::constraint::AskConstraint;
use crate::specs::declaration::Topology;
use crate::specs::quotas::Held;
use crate::specs::tags::Tags;
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot, NodeSlot};
use crate::values::resources::{Limits, Resources, Sum};
use crate::values::texts::Texts;

/// What a queue says of itself.
#[derive(Clone, Debug)]
pub struct QueueFact {
    /// Its place in the directory; root is 0.
    pub slot: u32,
    /// Its parent's place.
    pub parent: Option<u32>,
    /// Its totals.
    pub ledger: QueueLedger,
    /// What its parent sees of its priority.
    pub priority: i32,
    /// Its settings, as configured.
    pub config: Arc<QueueConfig>,
    /// Whether it is active, drains or is stopped.
    pub state: ObjectState,
    /// What its share is measured against.
    pub fair_max: Option<Limits>,
}

/// What an application says of itself.
#[derive(Clone, Debug)]
pub struct ApplicationFact {
    /// The task groups that stay in a domain.
    pub domains: Vec<(TaskGroup, Arc<Domain>)>,
    /// Its place in the directory.
    pub slot: ApplicationSlot,
    /// The id of the application.
    pub id: Arc<str>,
    /// Place of its leaf.
    pub leaf: u32,
    /// Who owns it.
    pub user: Arc<str>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The group it counts for.
    pub group: Option<Arc<str>>,
    /// Its state.
    pub state: ApplicationState,
    /// When it was submitted, ns since the epoch.
    pub submitted_ns: i64,
    /// What the application holds.
    pub allocated: Resources,
    /// What the application asks for.
    pub pending: Sum,
    /// The highest priority among its pending asks.
    pub priority: i32,
    /// Its allocations.
    pub allocations: Vec<AllocationId>,
    /// Its placements that wait for their predicate, or for a placeholder to go.
    pub unsettled: Vec<AllocationId>,
    /// The part of what it holds that its placeholders hold.
    pub placeholders: Resources,
    /// What is counted of the placeholders of each task group.
    pub task_groups: BTreeMap<Arc<String>, Group>,
    /// The counts of members of each group; empty unless the gang was declared and is decided.
    pub members: Vec<MembersFact>,
    /// It declared its members: places are held for them, and no RM knows of its placeholders.
    pub is_native: bool,
    /// What it declared of its members, as long as they have no places.
    pub bundle: Option<BundleFact>,
    /// A deadline of its placeholders is set.
    pub has_placeholder_timer: bool,
    /// Its pending asks.
    pub asks: Vec<AskFact>,
    /// How many of its asks have a node reserved, those included that wait for a predicate.
    pub reserved: usize,
    /// How many of these are suspended.
    pub suspended: usize,
    /// It is passed over until its back-off ends.
    pub backs_off: bool,
    /// When asks that were too young to reserve a node are looked at again, ns since the epoch.
    pub aging_ns: Option<i64>,
}

/// A declared gang that is not decided.
#[derive(Clone, Debug)]
pub struct BundleFact {
    /// The name of each group and how many members it needs, as declared.
    pub groups: Vec<(TaskGroup, u32)>,
    /// Where the members of each group are relative to each other.
    pub topologies: Vec<Option<Arc<Topology>>>,
    /// The groups that are asked for internally where asks are missing.
    pub sized: Vec<TaskGroup>,
    /// It was looked for, and waits for some node to grow that can take a member, since only that
    /// is certain to change anything: none has grown.
    pub rests: bool,
    /// Whether it waits because no member of it could be started.
    pub backs_off: bool,
    /// Places are found, and all that is asked for is held there until predicates are answered.
    pub in_the_air: bool,
}

impl BundleFact {
    /// What is to be known of a gang that is undecided.
    pub fn of(native: &Native, rests: bool) -> Self {
        let groups = native.groups().iter();
        Self {
            groups: groups.clone().map(|it| (Arc::clone(&it.name), it.wanted())).collect(),
            topologies: groups.clone().map(|it| it.sought_topology().cloned()).collect(),
            sized: groups.filter(|it| it.spec.is_some()).map(|it| Arc::clone(&it.name)).collect(),
            rests,
            backs_off: native.backs_off(),
            in_the_air: native.stage == Stage::InTheAir,
        }
    }
}

/// A pending ask.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug)]
pub struct AskFact {
    /// Its place.
    pub slot: AskSlot,
    /// The RM's key.
    pub key: Arc<str>,
    /// What each allocation takes.
    pub resources: Resources,
    /// The number of allocations that are outstanding.
    pub repeat: u32,
    /// Higher is more important.
    pub priority: i32,
    /// When it was created, ns since the epoch.
    pub created_ns: i64,
    /// Its number in the order of arrival.
    pub sequence: u64,
    /// The only node it may use.
    pub required_node: Option<Arc<str>>,
    /// Nodes that it may not use for a while.
    pub excluded: Vec<Arc<str>>,
    /// The task group that it is in.
    pub task_group: Option<TaskGroup>,
    /// It keeps a place for a member of that group.
    pub placeholder: bool,
    /// It is marked as having a node reserved.
    pub is_reserved: bool,
    /// Its reserved node is to be looked at, whatever it waits for.
    pub is_due_at_reserved: bool,
    /// The RM refused the reservation; no other node is tried for a while.
    pub may_not_reserve: bool,
    /// Growths have passed it by.
    pub is_passed_by: bool,
    /// Another ask reserved a node in its place.
    pub was_replaced: bool,
    /// No RM has sent it: it is for members of a declared gang that have no ask.
    pub internal: bool,
    /// Which nodes it may use, and how many of the alternatives it may use by now.
    pub constraint: Option<(Arc<AskConstraint>, usize)>,
    /// Its tags.
    pub tags: Option<Tags>,
    /// The domain in which its task group stays.
    pub domain: Option<Arc<Domain>>,
    /// Whether it waits because a start of it failed.
    pub backs_off: bool,
    /// Whether a start of it failed, and none has succeeded since.
    pub has_failed: bool,
    /// The nodes where its last starts failed.
    pub failed_nodes: Vec<Arc<str>>,
}

impl ApplicationFact {
    /// It is accepted and does not count among those that run.
    fn is_starting(&self) -> bool {
        self.state == ApplicationState::Accepted && !self.may_run_soon()
    }

    /// An accepted application whose first placement waits for its predicate, or that has
    /// placeholders or a node reserved, counts among those that run.
    fn may_run_soon(&self) -> bool {
        self.state == ApplicationState::Accepted && self.has_place()
    }

    /// It holds something, or has a node reserved.
    fn has_place(&self) -> bool {
        !(self.unsettled.is_empty() && self.allocations.is_empty())
            || self.reserved > self.suspended
    }

    /// Whether a real member of the task group waits for a placeholder.
    fn waits_for_placeholders(&self, group: &TaskGroup) -> bool {
        let of_group = self.task_groups.get(group);
        of_group.is_some_and(|group| group.count > group.replaced + group.timed_out)
    }

    /// The pending ones of an application's asks.
    pub fn asks(asks: &Asks, nodes: &NodeIndex) -> Vec<AskFact> {
        let slots = asks.slots().into_iter().map(|slot| (slot, asks.ask(slot)));
        let pending = slots.filter(|(_, ask)| ask.outstanding > 0);
        let fact = |(slot, ask): (AskSlot, &crate::asks::Ask)| AskFact {
            slot,
            key: Arc::clone(&ask.key),
            resources: Resources::clone(&ask.resources),
            repeat: ask.outstanding,
            priority: ask.priority,
            created_ns: ask.created_ns,
            sequence: ask.sequence,
            required_node: ask.required_node.clone(),
            excluded: ask.request().excluded.iter().map(|it| Arc::clone(&it.node)).collect(),
            task_group: ask.task_group.clone(),
            placeholder: ask.placeholder,
            is_reserved: ask.is_reserved(),
            is_due_at_reserved: asks
                .slot_of(&ask.key)
                .is_some_and(|slot| asks.is_due_at_reserved(slot)),
            may_not_reserve: ask.may_not_reserve(),
            is_passed_by: ask.is_passed_by(nodes),
            was_replaced: ask.search.was_replaced,
            internal: ask.form == Form::Internal,
            constraint: ask.wish().map(|it| (Arc::clone(it.terms().constraint()), it.open())),
            tags: ask.spec.tags.clone(),
            domain: ask.search.domain.clone(),
            backs_off: ask.backs_off(),
            has_failed: ask.starts().is_some(),
            failed_nodes: ask.failed_nodes().to_vec(),
        };
        pending.map(fact).collect()
    }
}

/// What a node says of itself.
#[derive(Clone, Debug)]
pub struct NodeFact {
    /// Its place in the index.
    pub slot: NodeSlot,
    /// The id.
    pub id: Arc<str>,
    /// Its capacity.
    pub total: Resources,
    /// What this scheduler placed there.
    pub allocated: Resources,
    /// What anybody else uses there.
    pub others: Resources,
    /// What is left, without zero entries.
    pub available: Resources,
    /// Its allocations.
    pub holds: Vec<AllocationId>,
    /// Whether it takes new allocations.
    pub open: bool,
    /// Its attributes.
    pub attributes: Arc<Texts>,
}

/// What the books say of an allocation.
#[derive(Clone, Debug)]
pub struct AllocationFact {
    /// The id.
    pub id: AllocationId,
    /// The application that it belongs to.
    pub application: ApplicationSlot,
    /// The node that it is on.
    pub node: NodeSlot,
    /// What the allocation holds.
    pub resources: Resources,
    /// The question whose answer it waits for.
    pub question: Option<u64>,
    /// Its name within the application.
    pub uuid: Arc<str>,
    /// The task group in which it keeps a place, of a placeholder.
    pub place_in: Option<TaskGroup>,
    /// The task group that it is a member of.
    pub member_of: Option<TaskGroup>,
    /// Creation time of the ask, ns since the epoch.
    pub created_ns: i64,
    /// The RM was asked to end it.
    pub leaves: bool,
    /// Its part in the replacement of a placeholder.
    pub pairing: Pairing,
    /// Its tags.
    pub tags: Option<Tags>,
    /// It holds a place for a member, and its RM does not know of it.
    pub is_hold: bool,
    /// Its RM counts it as running, and was not told of it.
    pub is_assumed: bool,
}

impl AllocationFact {
    /// Whether it waits for a placeholder whose place it takes.
    fn takes_a_place(&self) -> bool {
        matches!(self.pairing, Pairing::Takes { .. })
    }

    /// Whether it counts as running and is not told: a held place, or what waits for a placeholder
    /// to go, once predicates have passed.
    fn is_to_be_assumed(&self) -> bool {
        let is_asked = self.question.is_some() || self.pairing == Pairing::InBundle;
        !is_asked && (self.is_hold || self.takes_a_place())
    }

    /// Whether it holds anything on its node.
    fn is_on_node(&self) -> bool {
        !matches!(self.pairing, Pairing::Takes { in_place: true, .. })
    }
}

/// What the books say of a reservation.
#[derive(Clone, Debug)]
pub struct ReservationFact {
    /// The application of the ask.
    pub application: ApplicationSlot,
    /// The key of the ask.
    pub key: Arc<str>,
    /// What the ask wants.
    pub resources: Resources,
    /// The node that the ask requires.
    pub required_node: Option<Arc<str>>,
    /// The node that is reserved.
    pub node: NodeSlot,
    /// When it was made, ns since the epoch.
    pub since_ns: i64,
    /// The priority of the ask.
    pub priority: i32,
    /// Who has it.
    pub holder: Holder,
    /// Whether the node is for all, since the ask could not run.
    pub is_suspended: bool,
    /// Whether it counts for the share of the cluster that reservations may cost.
    pub is_bounded: bool,
}

/// What the node index says of a node.
#[derive(Clone, Debug)]
pub struct IndexFact {
    /// The place of the node in the index.
    pub slot: NodeSlot,
    /// The score of the node.
    pub score: f64,
    /// What the node has left.
    pub available: Resources,
    /// Whether it is searched.
    pub open: bool,
    /// Whether it is set aside.
    pub reserved: bool,
}

/// What all actors and books of a partition say of themselves between two steps.
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
    /// How many of them are counted as allocations.
    pub n_booked: usize,
    /// Every reservation.
    pub reservations: Vec<ReservationFact>,
    /// What was nominated to preemptors for whom others leave.
    pub nominations: Nominations,
    /// Open questions about placements, each with the placement it is about.
    pub questions: Vec<(u64, AllocationId)>,
    /// Every node as the node index has it.
    pub index: Vec<IndexFact>,
    /// The sum of all nodes' capacities, according to the node index.
    pub capacity: Resources,
    /// The users that are tracked.
    pub users: Vec<UserUsage>,
    /// The groups that are tracked.
    pub groups: Vec<GroupUsage>,
    /// What the quotas of the RM count here; `None`: it is not compared.
    pub held: Option<Held>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An ask of an application goes to a node.
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
        /// Each member with the id of its node: `false` and its key, or `true` and its task group
        /// where a place is held for it. Sorted.
        members: Vec<(bool, Arc<str>, Arc<str>)>,
    },
    /// A declared gang gives up the rooms that were nominated to it, since a member may not have its
    /// own.
    GiveUpRooms {
        /// The application's id.
        application: Arc<str>,
    },
    /// An ask takes the place of a placeholder of its application, which is to go.
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
    /// An ask gives the node up that it has reserved.
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
    /// An ask of an application reserves a node.
    pub fn reserve(application: &Arc<str>, key: &Arc<str>, node: &Arc<str>) -> Self {
        let [application, key, node] = [application, key, node].map(Arc::clone);
        Self::Reserve { application, key, node }
    }

    /// An ask of an application gives up the node that it has reserved.
    pub fn give_up(application: &Arc<str>, key: &Arc<str>, node: &Arc<str>) -> Self {
        let [application, key, node] = [application, key, node].map(Arc::clone);
        Self::GiveUp { application, key, node }
    }
}

/// What a search of everything foresees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// This comes next.
    Next(Decision),
    /// Nothing can be decided.
    Nothing,
    /// It depends on when something is looked at again that waits for a deadline.
    Unknown,
}

impl Facts {
    /// Adds what the books know.
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

    /// A queue and those it is in, up to root.
    fn path_of(&self, slot: u32) -> impl Iterator<Item = &QueueFact> {
        let above = |queue: &&QueueFact| self.queue(queue.parent?);
        std::iter::successors(self.queue(slot), above)
    }

    fn root_path(&self) -> Arc<str> {
        self.queue(0).map_or_else(|| Arc::from("root"), |root| Arc::clone(&root.config.path))
    }
}
