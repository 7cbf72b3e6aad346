//! What a list of a partition takes from an actor, before it is made into what clients read.
//!
//! # Why not snapshots at once
//! A snapshot is text: a hundred small allocations for a node with ten allocations on it. They are
//! not made on the thread of the partition, where decisions wait meanwhile. A row shares what the
//! scheduler shares itself (specifications, names), so that taking one is cheap; whoever asked
//! makes the snapshot of it.
//!
//! # Invariants
//! * A row is of one moment, and does not change when the scheduler goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::limits::{GroupUsage, PlaceUsage, UserUsage};
use monoceros_rules::order::ledger::QueueLedger;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::Allocation;
use monoceros_rules::work::application::Application;
use monoceros_rules::work::application_state::ApplicationState;
use monoceros_rules::work::asks::failures::FailureLog;
use monoceros_rules::work::asks::{Ask, AskSpec};
use monoceros_rules::work::ended::Ended;
use monoceros_rules::work::resource_seconds::History;

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

/// A node.
pub(crate) struct NodeRow {
    pub(crate) id: Arc<str>,
    pub(super) attributes: Arc<BTreeMap<String, String>>,
    pub(super) total: Resources,
    pub(super) allocated: Resources,
    pub(super) occupied: Resources,
    pub(super) available: Resources,
    pub(super) is_open: bool,
    pub(super) allocations: Vec<AllocationRow>,
    pub(super) foreign: Vec<(Arc<str>, Foreign)>,
    pub(super) reservations: Vec<Arc<str>>,
}

impl NodeRow {
    pub(crate) fn of(node: &Node, baton: &Baton) -> Self {
        let table = &baton.books.allocations;
        // A placement that waits for its predicate, or for a placeholder to go, is no allocation
        // yet, though it counts as used.
        let held = node.holds.iter().filter_map(|id| table.get(*id));
        let held = held.filter(|entry| entry.is_booked());
        let reservations = baton.books.reservations.on_node(node.slot);
        let foreign = node.foreign.iter().map(|(key, held)| (Arc::clone(key), held.clone()));
        Self {
            id: Arc::clone(&node.id),
            attributes: Arc::clone(&node.attributes),
            total: node.total.clone(),
            allocated: node.allocated.clone(),
            occupied: node.others(),
            available: node.available().clone(),
            is_open: node.is_open(),
            allocations: held.map(|entry| AllocationRow::of(entry, baton)).collect(),
            foreign: foreign.collect(),
            reservations: reservations.map(|(_, it)| Arc::clone(&it.spec.key)).collect(),
        }
    }

    /// How many parts it has: what it costs to take it.
    pub(crate) fn parts(&self) -> usize {
        1 + self.allocations.len() + self.foreign.len()
    }
}

/// An ask that waits.
pub(crate) struct AskRow {
    pub(super) spec: Arc<AskSpec>,
    pub(super) created_ns: i64,
    pub(super) outstanding: u32,
    pub(super) attempted: bool,
    pub(super) signalled: bool,
    /// Shared by all asks of its class.
    pub(super) failures: Option<Arc<FailureLog>>,
}

/// A live application.
pub(crate) struct ApplicationRow {
    pub(crate) id: Arc<str>,
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
    pub(super) reservations: Vec<Arc<str>>,
    asks: usize,
}

impl ApplicationRow {
    /// `backs_off_until`: ns since the epoch.
    pub(crate) fn of(book: &Application, backs_off_until: Option<i64>, baton: &Baton) -> Self {
        let table = &baton.books.allocations;
        let held = book.allocations.values().copied().chain(book.holds());
        let held = held.filter_map(|id| table.get(id));
        let mut logs = Logs::default();
        let pending = book.asks.iter().filter(|ask| ask.outstanding > 0);
        let request = |ask: &Ask| AskRow {
            spec: Arc::clone(&ask.spec),
            created_ns: ask.created_ns,
            outstanding: ask.outstanding,
            attempted: ask.attempted,
            signalled: ask.signalled,
            failures: logs.shared(book.asks.failures_of(&ask.key)),
        };
        let requests = pending.map(request).collect();
        let reserved = book.asks.iter().filter(|ask| ask.is_reserved());
        Self {
            id: Arc::clone(&book.id),
            partition: Arc::clone(&baton.guard.partition),
            queue: Arc::clone(&book.queue),
            user: Arc::clone(&book.user),
            groups: book.groups.clone(),
            used: book.allocated().minus(book.placeholders()).pruned(),
            peak: book.peak().clone(),
            pending: book.asks.pending().clone(),
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
            allocations: held.map(|entry| AllocationRow::of(entry, baton)).collect(),
            reservations: reserved.map(|ask| Arc::clone(&ask.key)).collect(),
            asks: book.asks.len(),
        }
    }

    /// How many parts it has: what it costs to take it. Satisfied asks are looked at, too.
    pub(crate) fn parts(&self) -> usize {
        1 + self.allocations.len() + self.requests.len() + self.asks / 4
    }
}

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
    pub(crate) ledger: QueueLedger,
    pub(crate) priority: i32,
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
