//! What a list of a partition takes from an actor, before it is made into what clients read.
//!
//! # Why not snapshots at once
//! A snapshot is text: a hundred small allocations for a node with ten allocations on it. They are
//! not made on the thread of the partition, where decisions wait meanwhile. A row shares what the
//! scheduler shares itself (specifications, names), so that taking one is cheap; whoever asked
//! makes the snapshot of it.
//!
//! # Invariants
//! * A row does not change when the scheduler goes on. It is of one moment, unless it is so long that
//!   it is taken in parts: then each part is.
//! * What is there all the time while a row is taken in parts is in exactly one of them. Asks come
//!   first, and what is allocated is found out behind the last of them: so an ask that is placed
//!   meanwhile is not lost, and where it was taken as one that waits, it no longer counts as such.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::applications::application::Application;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::applications::resource_seconds::History;
use monoceros_rules::asks::failures::FailureLog;
use monoceros_rules::decide::quota_timer::QuotaTimer;
use monoceros_rules::limits::{GroupUsage, PlaceUsage, UserUsage};
use monoceros_rules::order::ledger::QueueLedger;
use monoceros_rules::order::used_names::UsedNames;
use monoceros_rules::pending::promises::Promisee;
use monoceros_rules::pending::reservations::Reserver;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, AskSlot};
use monoceros_rules::values::resources::{Limits, Resources};
use monoceros_rules::values::texts::Texts;

use crate::node::{Foreign, Node};
use crate::queue::QueueFacts;
use crate::snapshot::PlaceholderData;
use crate::step::{Baton, QueueCounts};

/// An allocation, with the names that its numbers stand for.
#[derive(Clone, Debug)]
pub(crate) struct AllocationRow {
    pub(super) allocation: Allocation,
    pub(super) node: Arc<str>,
    pub(super) application: Arc<str>,
}

impl AllocationRow {
    fn of(allocation: &Allocation, baton: &Baton) -> Self {
        Self {
            node: Arc::clone(baton.books.nodes.id(allocation.node)),
            application: baton.directory.application_id(allocation.application),
            allocation: allocation.clone(),
        }
    }
}

/// How far a list of allocations was taken, of those that there were when it was begun.
#[derive(Clone, Debug)]
pub(crate) struct TakenOfAllocations {
    ids: Arc<[AllocationId]>,
    taken: usize,
}

impl TakenOfAllocations {
    fn begin(ids: impl Iterator<Item = AllocationId>) -> Self {
        Self { ids: ids.collect(), taken: 0 }
    }

    /// The next ones that are still what they were, at most so many.
    fn take<'b>(
        &mut self,
        most: usize,
        is_it: impl Fn(&Allocation) -> bool + 'b,
        baton: &'b Baton,
    ) -> Vec<AllocationRow> {
        let from = self.taken;
        self.taken = self.ids.len().min(from + most);
        let ids = self.ids[from..self.taken].iter();
        let entries = ids.filter_map(|id| baton.books.allocations.get(*id));
        entries.filter(|entry| is_it(entry)).map(|entry| AllocationRow::of(entry, baton)).collect()
    }

    fn is_done(&self) -> bool {
        self.taken == self.ids.len()
    }
}

/// How far the row of a node was taken.
#[derive(Clone, Debug)]
pub(crate) enum TakenOfNode {
    /// Some of its allocations.
    Allocations(TakenOfAllocations),
    /// These, and what is foreign up to this key.
    Foreign(Option<Arc<str>>),
}

/// A node.
pub(crate) struct NodeRow {
    pub(crate) id: Arc<str>,
    /// How far it was taken; `None`: to its end.
    pub(crate) taken: Option<TakenOfNode>,
    /// How many parts it has: what it costs to take it.
    pub(crate) parts: usize,
    pub(super) attributes: Arc<Texts>,
    pub(super) total: Resources,
    pub(super) allocated: Resources,
    pub(super) occupied: Resources,
    pub(super) available: Resources,
    pub(super) is_open: bool,
    pub(super) allocations: Vec<AllocationRow>,
    /// How many it has, where they are left out.
    pub(super) n_allocations: Option<usize>,
    pub(super) foreign: Vec<(Arc<str>, Foreign)>,
    /// What those asked for that have it reserved.
    pub(super) reservations: Vec<Arc<AskSpec>>,
}

impl NodeRow {
    /// The next part of a node, with which the row has `most` parts, or the last.
    pub(crate) fn part(
        node: &Node,
        behind: Option<&TakenOfNode>,
        most: usize,
        baton: &Baton,
    ) -> Self {
        let (mut allocations, mut foreign) = (Vec::new(), Vec::new());
        let mut at = behind.cloned().unwrap_or_else(|| {
            let held = node.holds.iter().copied();
            TakenOfNode::Allocations(TakenOfAllocations::begin(held))
        });
        let mut parts = 1;
        if let TakenOfNode::Allocations(held) = &mut at {
            // A placement that waits for its predicate, or for a placeholder to go, is no allocation
            // yet, though it counts as used.
            let is_here = |entry: &Allocation| entry.node == node.slot && entry.is_booked();
            let before = held.taken;
            allocations = held.take(most.saturating_sub(parts), is_here, baton);
            parts += held.taken - before;
            if held.is_done() {
                at = TakenOfNode::Foreign(None);
            }
        }
        let mut taken = Some(at);
        if let Some(TakenOfNode::Foreign(from)) = &mut taken {
            let behind = from.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut rest = node.others.foreign.range((behind.cloned(), Bound::Unbounded));
            while parts < most
                && let Some((key, held)) = rest.next()
            {
                foreign.push((Arc::clone(key), held.clone()));
                parts += 1;
            }
            if rest.next().is_some() {
                *from = foreign.last().map(|(key, _)| Arc::clone(key)).or_else(|| from.take());
            } else {
                taken = None;
            }
        }
        let row = Self {
            taken,
            parts,
            allocations,
            n_allocations: None,
            foreign,
            ..Self::brief(node, baton)
        };
        if behind.is_none() { row } else { Self { reservations: Vec::new(), ..row } }
    }

    /// A node without what is on it, but how many allocations there are.
    pub(crate) fn brief(node: &Node, baton: &Baton) -> Self {
        let (n_allocations, n_looked_at) = if baton.books.n_unbooked() == 0 {
            (node.holds.len(), 0)
        } else {
            let table = &baton.books.allocations;
            let held = node.holds.iter().filter_map(|id| table.get(*id));
            (held.filter(|entry| entry.is_booked()).count(), node.holds.len())
        };
        let reservations = baton.books.reservations.on_node(node.slot);
        Self {
            id: Arc::clone(&node.id),
            taken: None,
            parts: 1 + n_looked_at / LOOKS_PER_PART,
            n_allocations: Some(n_allocations),
            attributes: Arc::clone(&node.attributes),
            total: (*node.total).clone(),
            allocated: node.allocated.clone(),
            occupied: node.others(),
            available: node.available().clone(),
            is_open: node.is_open(),
            allocations: Vec::new(),
            foreign: Vec::new(),
            reservations: reservations.map(|(_, it)| Arc::clone(&it.spec)).collect(),
        }
    }

    /// Adds the next part of the same node. Gives back the row of another.
    pub(crate) fn append(&mut self, next: Self) -> Option<Self> {
        if self.taken.is_none() || self.id != next.id {
            return Some(next);
        }
        self.taken = next.taken;
        self.allocations.extend(next.allocations);
        self.foreign.extend(next.foreign);
        None
    }
}

/// An ask that waits.
pub(crate) struct AskRow {
    pub(super) spec: Arc<AskSpec>,
    pub(super) created_ns: i64,
    pub(super) outstanding: u32,
    /// When that was so, ns since the epoch.
    read_ns: i64,
    pub(super) attempted: bool,
    pub(super) signalled: bool,
    /// Others leave for it, or for its gang.
    pub(super) has_preempted: bool,
    /// Shared by all asks of its class.
    pub(super) failures: Option<Arc<FailureLog>>,
}

/// How far the row of an application was taken.
#[derive(Clone, Debug)]
pub(crate) enum TakenOfApplication {
    /// Asks below this place.
    Asks(usize),
    /// All asks, and some of its allocations.
    Allocations(TakenOfAllocations),
}

/// A live application.
pub(crate) struct ApplicationRow {
    pub(crate) id: Arc<str>,
    /// How far it was taken; `None`: to its end.
    pub(crate) taken: Option<TakenOfApplication>,
    /// How many parts it has: what it costs to take it.
    pub(crate) parts: usize,
    slot: Option<ApplicationSlot>,
    pub(super) partition: Arc<str>,
    pub(super) queue: Arc<str>,
    pub(super) user: Arc<str>,
    pub(super) groups: Vec<String>,
    pub(super) used: Resources,
    pub(super) peak: Resources,
    pub(super) pending: Resources,
    pub(super) submitted_ns: i64,
    pub(super) started_ns: Option<i64>,
    pub(super) finished_ns: Option<i64>,
    pub(super) state: ApplicationState,
    pub(super) log: Vec<(i64, ApplicationState)>,
    pub(super) placeholders: Vec<PlaceholderData>,
    pub(super) history: History,
    pub(super) priority: i32,
    /// ns since the epoch.
    pub(super) backs_off_until: Option<i64>,
    pub(super) requests: Vec<AskRow>,
    pub(super) allocations: Vec<AllocationRow>,
    /// How many it has, where they are left out.
    pub(super) n_allocations: Option<usize>,
    pub(super) reservations: Vec<Arc<str>>,
}

impl ApplicationRow {
    /// The next part of an application, with which the row has about `most` parts, or the last; a
    /// brief one has no allocations. `backs_off_until`: ns since the epoch.
    pub(crate) fn part(
        book: &Application,
        behind: Option<&TakenOfApplication>,
        (most, is_brief): (usize, bool),
        backs_off_until: Option<i64>,
        baton: &Baton,
    ) -> Self {
        let mut parts = 1;
        let slot = baton.directory.application_slot(&book.id);
        let has_promise = |who: Promisee| baton.books.has_preempted(who);
        let has_preempted = |ask: AskSlot, of_gang: bool| {
            slot.is_some_and(|application| {
                has_promise(Promisee::Ask(Reserver { application, ask }))
                    || of_gang && has_promise(Promisee::Gang(application))
            })
        };
        let mut logs = Logs::default();
        let (mut requests, mut reservations) = (Vec::new(), Vec::new());
        let mut at = behind.cloned().unwrap_or(TakenOfApplication::Asks(0));
        if let TakenOfApplication::Asks(place) = &mut at {
            let end = book.asks.bound();
            let mut n_looked_at = 0;
            // Satisfied asks are looked at, too.
            while *place < end && parts + n_looked_at / LOOKS_PER_PART < most {
                let at = u32::try_from(*place).ok().map(AskSlot::at);
                *place += 1;
                n_looked_at += 1;
                let Some((at, ask)) = at.and_then(|at| Some((at, book.asks.find(at)?))) else {
                    continue;
                };
                if ask.is_reserved() {
                    reservations.push(Arc::clone(&ask.key));
                }
                if ask.outstanding == 0 {
                    continue;
                }
                requests.push(AskRow {
                    spec: Arc::clone(&ask.spec),
                    created_ns: ask.stated_creation_ns(),
                    outstanding: ask.outstanding,
                    read_ns: baton.now_ns,
                    attempted: ask.attempted,
                    signalled: ask.signalled,
                    has_preempted: has_preempted(at, ask.task_group.is_some()),
                    failures: logs.shared(book.asks.failures_of(&ask.key)),
                });
                parts += 1;
            }
            parts += n_looked_at / LOOKS_PER_PART;
            if *place >= end && !is_brief {
                let held = book.allocations.values().copied().chain(book.holds());
                at = TakenOfApplication::Allocations(TakenOfAllocations::begin(held));
            }
        }
        let mut allocations = Vec::new();
        let is_over = |at: &TakenOfApplication| match at {
            TakenOfApplication::Asks(place) => is_brief && *place >= book.asks.bound(),
            TakenOfApplication::Allocations(_) => false,
        };
        let mut taken = Some(at).filter(|at| !is_over(at));
        if let Some(TakenOfApplication::Allocations(held)) = &mut taken {
            let before = held.taken;
            let is_its = |entry: &Allocation| Some(entry.application) == slot;
            allocations = held.take(most.saturating_sub(parts), is_its, baton);
            parts += held.taken - before;
            if held.is_done() {
                taken = None;
            }
        }
        Self {
            id: Arc::clone(&book.id),
            taken,
            parts,
            slot,
            partition: Arc::clone(&baton.guard.partition),
            queue: Arc::clone(&book.queue),
            user: Arc::clone(&book.user),
            groups: book.groups.clone(),
            used: book.allocated().minus(book.placeholders()).pruned(),
            peak: book.peak().clone(),
            pending: book.asks.pending().shown().clone(),
            submitted_ns: book.submitted_ns,
            started_ns: book.started_ns,
            finished_ns: book.finished_ns,
            state: book.state(),
            log: book.log().to_vec(),
            placeholders: super::placeholders(book),
            history: book.history.clone(),
            priority: book.asks.priority(),
            backs_off_until,
            requests,
            allocations,
            n_allocations: is_brief.then(|| book.allocations.len() + book.holds().count()),
            reservations,
        }
    }

    /// Adds the next part of the same application. Gives back the row of another.
    pub(crate) fn append(&mut self, next: Self) -> Option<Self> {
        if self.taken.is_none() || self.id != next.id || self.slot != next.slot {
            return Some(next);
        }
        self.taken = next.taken;
        self.requests.extend(next.requests);
        self.allocations.extend(next.allocations);
        self.reservations.extend(next.reservations);
        if self.taken.is_none() {
            self.settle();
        }
        None
    }

    /// Leaves out what is in two parts: an ask that left and came again counts as it was read last,
    /// and one that was placed behind the part that it is in does not wait any more.
    fn settle(&mut self) {
        let mut last = HashMap::new();
        for (at, request) in self.requests.iter().enumerate() {
            last.insert(Arc::clone(&request.spec.key), at);
        }
        let mut at = 0;
        self.requests.retain(|request| {
            at += 1;
            last[&request.spec.key] == at - 1
        });
        let mut places: HashMap<_, _> =
            self.requests.iter_mut().map(|it| (Arc::clone(&it.spec.key), it)).collect();
        for AllocationRow { allocation, .. } in &self.allocations {
            if let Some(request) = places.get_mut(allocation.key())
                && allocation.bound_ns >= request.read_ns
            {
                request.outstanding = request.outstanding.saturating_sub(1);
            }
        }
        drop(places);
        self.requests.retain(|request| request.outstanding > 0);
    }
}

/// How many asks that do not wait, or allocations that are only counted, cost as much to look at as it
/// costs to take one part.
const LOOKS_PER_PART: usize = 4;

/// Logs of failures that are copied once for all asks that share them.
#[derive(Default)]
struct Logs(BTreeMap<*const FailureLog, Arc<FailureLog>>);

impl Logs {
    fn shared(&mut self, log: Option<&FailureLog>) -> Option<Arc<FailureLog>> {
        let log = log?;
        // Nothing moves while one application is looked at, so a place in memory is one log.
        let known = self.0.entry(std::ptr::from_ref(log));
        Some(Arc::clone(known.or_insert_with(|| Arc::new(log.clone()))))
    }
}

/// An application that is over, with its number in the list.
pub(crate) struct EndedRow {
    pub(crate) number: u64,
    pub(super) partition: Arc<str>,
    pub(super) ended: Ended,
}

impl EndedRow {
    pub(crate) fn of(number: u64, ended: &Ended, partition: &Arc<str>) -> Self {
        Self { number, partition: Arc::clone(partition), ended: ended.clone() }
    }

    pub(crate) fn parts(&self) -> usize {
        4 + self.ended.log.len() + self.ended.groups.len() + self.ended.task_groups.len()
    }
}

/// A queue, without those below it.
pub(crate) struct QueueRow {
    pub(crate) facts: Arc<QueueFacts>,
    /// Its own: of root, what nodes have left.
    pub(crate) headroom: Limits,
    pub(crate) ledger: QueueLedger,
    pub(crate) used_names: UsedNames,
    pub(crate) priority: i32,
    pub(crate) quota_timer: QuotaTimer,
    pub(crate) counts: QueueCounts,
    /// The accepted applications of this leaf that count as running.
    pub(crate) allocating: Vec<Arc<str>>,
}

impl QueueRow {
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.facts.config.path
    }
}

/// How many parts a user has: what it costs to take it.
pub(crate) fn parts_of_user(user: &UserUsage) -> usize {
    1 + user.groups.len() + parts_of_place(&user.queues)
}

/// As [`parts_of_user`].
pub(crate) fn parts_of_group(group: &GroupUsage) -> usize {
    1 + group.applications.len() + parts_of_place(&group.queues)
}

fn parts_of_place(place: &PlaceUsage) -> usize {
    1 + place.running.len() + place.children.iter().map(parts_of_place).sum::<usize>()
}
