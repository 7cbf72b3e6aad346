//! The survey that a plan is made from: the queues, the preemptor, and the candidates on each node.
//!
//! # Why
//! A plan is made on plain numbers that were collected once, not by asking actors. The survey leaves
//! out whatever can play no part (allocations outside the fence, of queues within their guarantee,
//! of a higher priority, that leave already) while it is collected, so that what remains is small.
//!
//! # Order
//! Candidates are kept in the order in which they are taken: places that are held, placeholders,
//! ordinary ones, members of a gang that has no more than it needs; then those of these that are the
//! first of their application, then those that asked not to be preempted, then those that are both.
//! Places that are held come first whatever they asked for: nobody loses work with them. Among equals
//! the least important comes first, then the newest, then the lower UUID.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::demand::Demand;
use super::hierarchy::{Hierarchy, QueueFacts};
use super::rows::{Rows, covers};
use crate::allocations::Allocation;
use crate::asks::preemption::NoPreemption;
use crate::books::Books;
use crate::pending::nominations::{Nominations, Preemptor};
use crate::pending::reservations::{EffectivePriority, Reservation};
use crate::queues::PreemptionPolicy;
use crate::specs::ask::TaskGroup;
use crate::specs::tags::Tags;
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::instant::after;
use crate::values::resources::Resources;

/// The tag of an application that says which of its allocations are preempted together.
pub const DISRUPTION: &str = "monoceros.io/disruption";
/// The tag of an allocation by which its RM says that it was told to end and stays.
pub const STAYS: &str = "monoceros.io/stays";
/// For so long what has stayed is not told to end again.
pub const STAYS_FOR: std::time::Duration = std::time::Duration::from_secs(300);

/// Marks an entry that has no index in a table.
pub(super) const NONE: u32 = u32::MAX;

/// The facts of an application that may lose allocations.
#[derive(Clone, Debug)]
pub struct ApplicationFacts {
    /// The application.
    pub slot: ApplicationSlot,
    /// The index of its queue among the surveyed queues.
    pub queue: usize,
    /// How many more of its allocations may be preempted now; `None`: any number. See
    /// [`History::allowance`](crate::pending::history::History::allowance).
    pub allowance: Option<u32>,
    /// The application preempted the preemptor lately, so nothing is taken from it.
    /// See [`History::is_barred`](crate::pending::history::History::is_barred).
    pub is_barred: bool,
    /// When the first of these two bounds ends, ns since the epoch; none where there is none. See
    /// [`History::bound_ends_ns`](crate::pending::history::History::bound_ends_ns).
    pub bound_ends_ns: Option<i64>,
    /// The allocations are preempted together or not at all.
    pub goes_as_one: bool,
    /// The gang of the application.
    pub groups: Vec<GroupFacts>,
}

impl ApplicationFacts {
    /// An application of which nothing else is to be known.
    pub fn of(slot: ApplicationSlot, queue: usize) -> Self {
        Self {
            slot,
            queue,
            allowance: None,
            is_barred: false,
            bound_ends_ns: None,
            goes_as_one: false,
            groups: Vec::new(),
        }
    }
}

/// Members of a gang that are alike.
#[derive(Clone, Debug)]
pub struct GroupFacts {
    /// The name.
    pub name: TaskGroup,
    /// How many the gang needs. How many run is counted among its allocations.
    pub min_members: u32,
}

/// The facts of a node.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The node.
    pub slot: NodeSlot,
    /// The total.
    pub total: Resources,
    /// The available amount for the preemptor now.
    pub available: Resources,
    /// The node takes new allocations.
    pub is_open: bool,
    /// The reservations on the node, as the preemptor sees them.
    pub claim: Claimed,
}

impl NodeFacts {
    /// The facts of a node as a preemptor sees it.
    pub fn of(
        books: &Books,
        nominations: &Nominations,
        node: NodeSlot,
        preemptor: Claimant<'_>,
    ) -> Self {
        let mut others = books
            .reservations
            .on_node(node)
            .filter(|(who, _)| Preemptor::Ask(*who) != preemptor.who)
            .peekable();
        let claim = if others.peek().is_none() {
            Claimed::Free
        } else if others.all(|(who, reservation)| {
            !books.has_preempted(Preemptor::Ask(who)) && gives_way(reservation, &preemptor, books)
        }) {
            Claimed::GivesWay
        } else if books
            .reservations
            .on_node(node)
            .any(|(who, _)| nominations.of(Preemptor::Ask(who)).is_some())
        {
            Claimed::Nominated
        } else {
            Claimed::ByOthers
        };
        Self {
            slot: node,
            total: (**books.nodes.total(node)).clone(),
            available: books.nodes.available(node).plus(&nominations.kept_for(node, preemptor.who)),
            is_open: books.nodes.is_open(node),
            claim,
        }
    }
}

/// A preemptor, as seen by asks that have nodes reserved.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// The preemptor.
    pub who: Preemptor,
    /// The priority in each queue of the path.
    pub effective: &'a EffectivePriority,
}

/// The reservations on a node, as a preemptor sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Nobody, or the preemptor itself.
    Free,
    /// Others, and each of these reservations gives way to the preemptor.
    GivesWay,
    /// Others, among them one for which victims leave: it will be free again soon.
    Nominated,
    /// Others.
    ByOthers,
}

/// Whether the reservation of another gives way to a preemptor that takes what its queue is
/// guaranteed. That of an ask that requires the node does not, nor of one of a higher effective
/// priority, unless the queue of that has all of its own guarantee, or none. Nor does one for which
/// victims leave, which is not asked here.
pub(super) fn gives_way(
    reservation: &Reservation,
    preemptor: &Claimant<'_>,
    books: &Books,
) -> bool {
    let (leaf, spec) = (reservation.holder.leaf, &reservation.spec);
    let theirs = || EffectivePriority::in_leaf(&books.queues, leaf, spec.priority);
    !reservation.is_required()
        && (preemptor.effective.compare(&theirs()) != Ordering::Less
            || !books.queues.is_below_guarantee(leaf, &spec.resources))
}

/// A candidate: an allocation that may be preempted.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) id: AllocationId,
    /// Among the applications surveyed.
    pub(super) application: u32,
    pub(super) leaf: u32,
    /// Among the nodes surveyed; [`NONE`] on a node that is out.
    pub(super) node: u32,
    /// Among the groups surveyed, of a real member of a gang.
    pub(super) group: u32,
    /// [`score`](super::score) bits that it has by itself.
    pub(super) bits: u8,
    /// The index of its kind among the kinds of candidates.
    pub(super) class: u8,
    /// The priority as it is seen from the queue that it shares with the preemptor.
    pub(super) priority: i64,
    pub(super) is_hold: bool,
    /// Whether it counts as an eviction of its application.
    pub(super) is_counted: bool,
}

/// An application in a survey.
#[derive(Clone, Debug)]
pub(super) struct SurveyedApplication {
    pub(super) slot: ApplicationSlot,
    pub(super) queue: u32,
    pub(super) allowance: Option<u32>,
    pub(super) goes_as_one: bool,
    /// The index of its first group in the list of all groups.
    pub(super) first_group: u32,
    pub(super) groups: Vec<TaskGroup>,
    /// The number of allocations it has that do not leave yet.
    pub(super) alive: u32,
    /// The candidates of the application, if they go together.
    pub(super) together: Vec<u32>,
    /// Nothing of it may be taken, or all at once could not.
    pub(super) is_out: bool,
}

/// A group in a survey.
#[derive(Clone, Debug)]
pub(super) struct SurveyedGroup {
    pub(super) min_members: u32,
    pub(super) real: u32,
}

/// A node that may be used, in a survey.
#[derive(Clone, Debug)]
pub(super) struct SurveyedNode {
    pub(super) slot: NodeSlot,
    pub(super) gives_way: bool,
    /// The candidates on the node, in order.
    pub(super) candidates: Vec<u32>,
    /// A plan has reserved the node.
    pub(super) is_out: bool,
}

/// The sort key of candidates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    pub(super) class: u8,
    pub(super) priority: i64,
    pub(super) newest: std::cmp::Reverse<i64>,
    pub(super) uuid: Arc<str>,
}

/// The facts that are collected for one preemptor.
#[derive(Debug)]
pub struct Survey {
    pub(super) tree: Hierarchy,
    pub(super) preemptor: Demand,
    /// By leaf, what is possible there.
    pub(super) may_lose: Vec<bool>,
    pub(super) now_ns: i64,
    pub(super) bound_ends_ns: Option<i64>,
    pub(super) demand: Rows,
    /// The amounts of all members together.
    pub(super) total: super::rows::Row,
    pub(super) applications: Vec<SurveyedApplication>,
    pub(super) by_slot: BTreeMap<ApplicationSlot, u32>,
    pub(super) groups: Vec<SurveyedGroup>,
    pub(super) candidates: Vec<(Order, Candidate, super::rows::Row)>,
    pub(super) nodes: Vec<SurveyedNode>,
    /// A node that would do is reserved by an ask for which victims leave.
    pub(super) is_any_nominated: bool,
    pub(super) by_node: Vec<u32>,
    pub(super) rooms: Rows,
}

impl Survey {
    /// Begins with the queues: says at once where nothing can be taken, whatever runs.
    pub fn begin(
        queues: &[QueueFacts],
        preemptor: Demand,
        now_ns: i64,
    ) -> Result<Self, NoPreemption> {
        let tree = Hierarchy::new(queues, preemptor.queue, &preemptor.members);
        let mut demand = Rows::new(tree.columns().len());
        let mut total = tree.columns().amount(&Resources::new());
        for member in &preemptor.members {
            let row = tree.columns().amount(member);
            super::rows::add(&mut total, &row);
            demand.push(&row);
        }
        if !tree.has_any_guarantee() {
            return Err(NoPreemption::NoGuarantee);
        }
        let fence = tree.fence(&total);
        if fence == preemptor.queue {
            return Err(NoPreemption::AtItsFence { queue: Arc::clone(tree.name(fence)) });
        }
        let may_lose: Vec<bool> = (0..tree.len())
            .map(|queue| {
                queue != preemptor.queue
                    && tree.is_within(queue, fence)
                    && tree.settings(queue).preemption != PreemptionPolicy::Disabled
                    && tree.is_above_some_guarantee(queue)
            })
            .collect();
        Ok(Self {
            rooms: Rows::new(tree.columns().len()),
            tree,
            preemptor,
            may_lose,
            now_ns,
            bound_ends_ns: None,
            demand,
            total,
            applications: Vec::new(),
            by_slot: BTreeMap::new(),
            groups: Vec::new(),
            candidates: Vec::new(),
            nodes: Vec::new(),
            is_any_nominated: false,
            by_node: Vec::new(),
        })
    }

    /// Whether anything may be taken from a leaf; the applications of others need not be looked at.
    pub fn may_lose(&self, queue: usize) -> bool {
        self.may_lose[queue]
    }

    /// An application of a leaf that may lose something. It stands before its allocations.
    pub fn application(&mut self, facts: &ApplicationFacts) {
        let first_group = index(self.groups.len());
        let groups = facts.groups.iter().map(|group| TaskGroup::clone(&group.name)).collect();
        let surveyed = facts.groups.iter();
        self.groups.extend(
            surveyed.map(|group| SurveyedGroup { min_members: group.min_members, real: 0 }),
        );
        let is_out = facts.is_barred || !self.may_lose(facts.queue);
        if self.may_lose(facts.queue) {
            self.note_bound(facts.bound_ends_ns);
        }
        self.by_slot.insert(facts.slot, index(self.applications.len()));
        self.applications.push(SurveyedApplication {
            slot: facts.slot,
            queue: index(facts.queue),
            allowance: facts.allowance,
            goes_as_one: facts.goes_as_one,
            first_group,
            groups,
            alive: 0,
            together: Vec::new(),
            is_out,
        });
    }

    /// When the first bound ends that keeps anything surveyed so far from being taken, ns since the
    /// epoch; none where there is none. It may be taken then though nothing else has changed.
    pub fn bound_ends_ns(&self) -> Option<i64> {
        self.bound_ends_ns
    }

    pub(super) fn note_bound(&mut self, ends_ns: Option<i64>) {
        self.bound_ends_ns = self.bound_ends_ns.into_iter().chain(ends_ns).min();
    }

    /// A node. Nodes are surveyed in order of their ids, before the allocations on them.
    pub fn node(&mut self, facts: &NodeFacts) {
        let total = self.tree.columns().amount(&facts.total);
        let mut members = 0..self.preemptor.members.len();
        let is_of_use =
            facts.is_open && members.any(|member| covers(&total, self.demand.row(member)));
        self.is_any_nominated |= is_of_use && facts.claim == Claimed::Nominated;
        if !is_of_use || matches!(facts.claim, Claimed::Nominated | Claimed::ByOthers) {
            return;
        }
        if self.by_node.len() <= facts.slot.index() {
            self.by_node.resize(facts.slot.index() + 1, NONE);
        }
        self.by_node[facts.slot.index()] = index(self.nodes.len());
        self.nodes.push(SurveyedNode {
            slot: facts.slot,
            gives_way: facts.claim == Claimed::GivesWay,
            candidates: Vec::new(),
            is_out: false,
        });
        self.rooms.push(&self.tree.columns().amount(&facts.available));
    }

    /// Every node, and then every allocation, of the books. The applications stand before.
    pub fn books(&mut self, books: &Books, nominations: &Nominations, preemptor: Claimant<'_>) {
        for node in books.nodes.by_id() {
            self.node(&NodeFacts::of(books, nominations, node, preemptor));
        }
        for (id, allocation) in books.allocations.iter() {
            self.allocation(id, allocation);
        }
    }

    /// An allocation. Whether it may be preempted is found out here.
    pub fn allocation(&mut self, id: AllocationId, allocation: &Allocation) {
        let Some(&application) = self.by_slot.get(&allocation.application) else { return };
        let group = Self::group_of(&self.applications[application as usize], allocation);
        let entry = &mut self.applications[application as usize];
        if allocation.leaving.is_none() {
            entry.alive += 1;
        }
        if group != NONE && is_running(allocation) {
            self.groups[group as usize].real += 1;
        }
        if entry.is_out || !may_be_taken(allocation) {
            return;
        }
        let entry = &self.applications[application as usize];
        let leaf = entry.queue as usize;
        let size = self.tree.columns().amount(allocation.resources());
        // What goes with others of its application may be of no use by itself.
        if !entry.goes_as_one && !Hierarchy::is_of_use(&size, &self.total) {
            return;
        }
        let asks_with = self.tree.preemptor_priority_below_shared(leaf).of(self.preemptor.priority);
        let priority = self.tree.priority_below_shared(leaf).of(allocation.spec.priority);
        if priority > asks_with {
            return;
        }
        let least = self.tree.settings(leaf).eviction.min_runtime;
        if !may_be_taken_by_now(allocation, least, self.now_ns) {
            self.note_bound(Some(may_be_taken_at_ns(allocation, least)));
            return;
        }
        let order = Order {
            class: class_of(allocation, false),
            priority,
            newest: std::cmp::Reverse(allocation.created_ns),
            uuid: Arc::clone(&allocation.uuid),
        };
        let is_nobodys_work = allocation.is_hold() || allocation.spec.placeholder;
        let candidate = Candidate {
            id,
            application,
            leaf: index(leaf),
            node: self.by_node.get(allocation.node.index()).copied().unwrap_or(NONE),
            group,
            bits: super::score::own_bits(allocation),
            class: order.class,
            priority,
            is_hold: allocation.is_hold(),
            is_counted: !is_nobodys_work,
        };
        self.candidates.push((order, candidate, size));
    }

    pub(super) fn group_of(of: &SurveyedApplication, allocation: &Allocation) -> u32 {
        let is_real = !allocation.is_hold() && !allocation.spec.placeholder;
        let name = allocation.spec.task_group.as_ref().filter(|_| is_real);
        let at = name.and_then(|name| of.groups.iter().position(|group| group == name));
        at.map_or(NONE, |at| of.first_group + index(at))
    }
}

/// Whether an allocation may be preempted at all: it is there, does not leave yet, and is not bound
/// to its node by what it asked for. Shared by every kind of preemption.
pub fn may_be_taken(allocation: &Allocation) -> bool {
    allocation.is_booked()
        && allocation.leaving.is_none()
        && allocation.gives_way_to().is_none()
        && allocation.spec.required_node.is_none()
}

/// Whether it is a member of a gang that counts: it is there, and does not leave.
pub(super) fn is_running(allocation: &Allocation) -> bool {
    allocation.is_booked() && allocation.leaving.is_none()
}

/// Whether the allocations of an application with these tags are preempted together or not at all.
pub fn goes_as_one(tags: Option<&Tags>) -> bool {
    tags.and_then(|tags| tags.get(DISRUPTION)).is_some_and(|value| value == "all")
}

/// Whether the RM says by the tags of an allocation that was told to end that it stays.
pub fn stays(tags: Option<&Tags>) -> bool {
    tags.and_then(|tags| tags.get(STAYS)).is_some_and(|value| value == "true")
}

/// Whether it has run for as long as it may, and is none that stayed a moment ago.
pub(super) fn may_be_taken_by_now(
    allocation: &Allocation,
    least: std::time::Duration,
    now_ns: i64,
) -> bool {
    now_ns >= may_be_taken_at_ns(allocation, least)
}

/// When it will have run for so long, ns since the epoch. What keeps a place need not have run.
fn may_be_taken_at_ns(allocation: &Allocation, least: std::time::Duration) -> i64 {
    let stays_until_ns = allocation.stays_until_ns;
    if least.is_zero() || allocation.is_hold() || allocation.spec.placeholder {
        return stays_until_ns;
    }
    let recovered = allocation.spec.form == crate::specs::ask::Form::Recovered;
    let since_ns = if recovered { allocation.created_ns } else { allocation.bound_ns };
    after(since_ns, least).max(stays_until_ns)
}

/// The index of an allocation's kind among the kinds of candidates for a guarantee.
pub(super) fn class_of(allocation: &Allocation, is_short: bool) -> u8 {
    if allocation.is_hold() {
        return 0;
    }
    let spec = &allocation.spec;
    let kind = if spec.placeholder { 1 } else { 2 + u8::from(is_short) };
    let protection = 2 * u8::from(!spec.preemption.of_itself()) + u8::from(spec.originator);
    3 * protection + kind
}

pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).expect("what is surveyed has 32-bit numbers")
}
