//! The survey from which a plan is made: the queues, the preemptor, and the candidates on each
//! node.
//!
//! # Why
//! A plan is made from numbers that were collected once, without asking actors. Allocations that
//! cannot be victims are left out while the survey is collected, so that it is small: those outside
//! the fence, of queues within their guarantee, of a higher priority, or already being released.
//!
//! # Order
//! Candidates are sorted in the order in which they are taken: held places, placeholders, ordinary
//! allocations, then members of a gang that has no more members than it needs. After all of these
//! come, in the same order, the first allocations of their applications; then those that asked not
//! to be preempted; then those that are both. Held places come first whatever they asked for, since
//! no work is lost with them. Among equals the least important comes first, then the newest, then
//! the lower UUID.

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

/// The tag of an application that decides whether its allocations are preempted together.
pub const DISRUPTION: &str = "monoceros.io/disruption";
/// The tag of an allocation by which its RM reports that it stays after it was asked to end.
pub const STAYS: &str = "monoceros.io/stays";
/// The time for which an allocation that stays is not preempted again.
pub const STAYS_FOR: std::time::Duration = std::time::Duration::from_secs(300);

/// Stands for a missing index.
pub(super) const NONE: u32 = u32::MAX;

/// The facts of an application that may lose allocations.
#[derive(Clone, Debug)]
pub struct ApplicationFacts {
    /// The application.
    pub slot: ApplicationSlot,
    /// The index of its queue among the surveyed queues.
    pub queue: usize,
    /// The number of its allocations that may still be preempted now; `None`: any number. See
    /// [`History::allowance`](crate::pending::history::History::allowance).
    pub allowance: Option<u32>,
    /// Whether the application preempted the preemptor's application recently, so that it loses
    /// nothing to it. See [`History::is_barred`](crate::pending::history::History::is_barred).
    pub is_barred: bool,
    /// The time at which the first of these two bounds ends, ns since the epoch; `None` if there is
    /// no bound. See [`History::bound_ends_ns`](crate::pending::history::History::bound_ends_ns).
    pub bound_ends_ns: Option<i64>,
    /// Whether the allocations are preempted together or not at all.
    pub goes_as_one: bool,
    /// The task groups of the application's gang.
    pub groups: Vec<GroupFacts>,
}

impl ApplicationFacts {
    /// An application without bounds and without a gang.
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

/// A task group of a gang.
#[derive(Clone, Debug)]
pub struct GroupFacts {
    /// The name.
    pub name: TaskGroup,
    /// The number of members that the gang needs. The number that runs is counted from the
    /// allocations.
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
    /// Whether the node takes new allocations.
    pub is_open: bool,
    /// The reservations on the node, as the preemptor sees them.
    pub claim: Claimed,
}

impl NodeFacts {
    /// Returns the facts of a node as a preemptor sees it.
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

/// A preemptor, as compared with asks that have reserved nodes.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// The preemptor.
    pub who: Preemptor,
    /// The priority in each queue of its path.
    pub effective: &'a EffectivePriority,
}

/// The reservations on a node, as a preemptor sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The node has no reservation, or only that of the preemptor itself.
    Free,
    /// Others have reserved the node, and each of these reservations gives way to the preemptor.
    GivesWay,
    /// Others have reserved the node, among them an ask for which victims are being evicted: the
    /// node will be free again soon.
    Nominated,
    /// Others have reserved the node.
    ByOthers,
}

/// Whether the reservation of another ask gives way to a preemptor that claims its queue's
/// guarantee. Usually it does. It does not if its ask requires the node. If its ask has a higher
/// effective priority, it gives way only if the queue of that ask is not below its own guarantee,
/// or has none. Reservations for which victims are being evicted do not give way either; the caller
/// tests that.
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
    /// The index of its application in the survey.
    pub(super) application: u32,
    pub(super) leaf: u32,
    /// The index of its node in the survey; [`NONE`] if that node may not be used.
    pub(super) node: u32,
    /// The index of its task group in the survey, if it is a real member of a gang; otherwise
    /// [`NONE`].
    pub(super) group: u32,
    /// The [`score`](super::score) bits that it has by itself.
    pub(super) bits: u8,
    /// The rank of its kind in the order of candidates.
    pub(super) class: u8,
    /// The priority as seen from the queue that it shares with the preemptor.
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
    /// The number of its allocations that are not being released.
    pub(super) alive: u32,
    /// Its candidates, if they are preempted together.
    pub(super) together: Vec<u32>,
    /// Whether none of its allocations may be taken, or not all at once if they belong together.
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
    /// Whether a plan has reserved the node.
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
    /// Whether allocations in each queue may be taken.
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
    /// Whether a suitable node is reserved by an ask for which victims are being evicted.
    pub(super) is_any_nominated: bool,
    pub(super) by_node: Vec<u32>,
    pub(super) rooms: Rows,
}

impl Survey {
    /// Begins a survey with the queues. Returns an error if nothing can be taken, whatever runs.
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

    /// Whether allocations of a leaf may be taken. The applications of other leaves need not be
    /// surveyed.
    pub fn may_lose(&self, queue: usize) -> bool {
        self.may_lose[queue]
    }

    /// Adds an application of a leaf that may lose allocations. It has to be added before its
    /// allocations.
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

    /// Returns the time at which the first bound ends that keeps a surveyed allocation from being
    /// taken, ns since the epoch; `None` if there is no such bound. The allocation may be taken
    /// then without another change.
    pub fn bound_ends_ns(&self) -> Option<i64> {
        self.bound_ends_ns
    }

    pub(super) fn note_bound(&mut self, ends_ns: Option<i64>) {
        self.bound_ends_ns = self.bound_ends_ns.into_iter().chain(ends_ns).min();
    }

    /// Adds a node. Nodes are added in order of their ids, before the allocations on them.
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

    /// Adds all nodes of the books, then all allocations. The applications have to be added before.
    pub fn books(&mut self, books: &Books, nominations: &Nominations, preemptor: Claimant<'_>) {
        for node in books.nodes.by_id() {
            self.node(&NodeFacts::of(books, nominations, node, preemptor));
        }
        for (id, allocation) in books.allocations.iter() {
            self.allocation(id, allocation);
        }
    }

    /// Adds an allocation, if it may be preempted.
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
        // An allocation that is preempted together with others may be of no use by itself.
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

/// Whether an allocation may be preempted at all: it is booked, is not being released, and requires
/// no node. This holds for every kind of preemption.
pub fn may_be_taken(allocation: &Allocation) -> bool {
    allocation.is_booked()
        && allocation.leaving.is_none()
        && allocation.gives_way_to().is_none()
        && allocation.spec.required_node.is_none()
}

/// Whether an allocation counts as a member of its gang: it is booked and not being released.
pub(super) fn is_running(allocation: &Allocation) -> bool {
    allocation.is_booked() && allocation.leaving.is_none()
}

/// Whether the allocations of an application with these tags are preempted together or not at all.
pub fn goes_as_one(tags: Option<&Tags>) -> bool {
    tags.and_then(|tags| tags.get(DISRUPTION)).is_some_and(|value| value == "all")
}

/// Whether the RM reports by these tags that an allocation stays after it was asked to end.
pub fn stays(tags: Option<&Tags>) -> bool {
    tags.and_then(|tags| tags.get(STAYS)).is_some_and(|value| value == "true")
}

/// Whether the allocation has run for its minimum time, and has not stayed recently after it was
/// asked to end.
pub(super) fn may_be_taken_by_now(
    allocation: &Allocation,
    least: std::time::Duration,
    now_ns: i64,
) -> bool {
    now_ns >= may_be_taken_at_ns(allocation, least)
}

/// Returns the time from which the allocation may be taken, ns since the epoch. Held places and
/// placeholders have no minimum time.
fn may_be_taken_at_ns(allocation: &Allocation, least: std::time::Duration) -> i64 {
    let stays_until_ns = allocation.stays_until_ns;
    if least.is_zero() || allocation.is_hold() || allocation.spec.placeholder {
        return stays_until_ns;
    }
    let recovered = allocation.spec.form == crate::specs::ask::Form::Recovered;
    let since_ns = if recovered { allocation.created_ns } else { allocation.bound_ns };
    after(since_ns, least).max(stays_until_ns)
}

/// Returns the rank of an allocation in the order of candidates for a guarantee.
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
