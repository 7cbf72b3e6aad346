//! Consequences of a visit at other actors: work on nodes, and a change that climbs the queues.
//!
//! The baton brings both, and the actor that they are for takes them off it, so no actor can meet
//! the work of a visit during an offer or a survey.
//!
//! # Climbing together
//! A visit before and after which no ask is pending changes the totals of queues but not their
//! order, and the totals are not read until the next offer or survey. A shim that reports running
//! pods names another application each time. So the changes of consecutive visits of that kind are
//! gathered, and climb together, one climb for each leaf, before a step other than a visit begins.
//! In a partition that preempts by quota, each change climbs by itself: a change that takes a queue
//! above its maximum starts the time to fall below it again.
//!
//! # Reports together
//! Such a shim also names another node each time. A visit that brings only plain
//! [reports](Op::is_plain_report) reads no node, so the amounts that nodes have to hold are gathered
//! as well: each node is visited once for many reports, before a step that brings anything else.
//! Consecutive visits of that kind follow each other without a stop at home.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use monoceros_rules::values::resources::Resources;
use smallvec::SmallVec;

use super::offer::RowUpdate;
use super::op::Op;
use super::slots::QueueSlot;

/// Leaves whose changes are gathered at most before they climb.
const LEAVES_MAX: usize = 64;
/// Reports that are gathered at most before nodes hold their amounts. The nodes hold them in one
/// step, which takes some ten milliseconds for so many.
const HOLDS_MAX: usize = 16_384;

/// Work on a node that follows from a decision already made: a node cannot refuse it.
pub(crate) enum NodeWork {
    Release(AllocationId, Resources),
    /// Returns the amount that a placement held which was never settled.
    Return(AllocationId, Resources),
    Hold(AllocationId, Arc<Resources>),
    /// Holds the places of members of a bundle, which take this much together.
    HoldAll(Vec<AllocationId>, Resources),
    Resize(Resources),
    /// A placeholder is gone, and the allocation that takes its place here holds this much more.
    Swap {
        placeholder: AllocationId,
        real: AllocationId,
        change: Resources,
    },
}

/// Consequences of a visit of an application at other actors: at nodes first, then up the queues.
#[derive(Default)]
pub(crate) struct Consequences {
    /// The work on nodes, done from the last to the first.
    pub(crate) node_work: SmallVec<[(NodeSlot, NodeWork); 1]>,
    /// The leaf where a change begins to climb, and the change; `None` if nothing changed for
    /// queues.
    pub(crate) climbing: Option<(QueueSlot, Climbing)>,
    /// The application that continues with its offer when the nodes are done. It does so instead of
    /// climbing.
    pub(crate) resume: Option<(ApplicationSlot, Resume)>,
}

/// New members of a gang by their nodes, with the amount that they take there together.
#[derive(Default)]
pub(crate) struct NewMembers(BTreeMap<NodeSlot, (Vec<AllocationId>, Resources)>);

impl NewMembers {
    /// Adds a member that takes this amount on this node.
    pub(crate) fn add(&mut self, id: AllocationId, node: NodeSlot, resources: &Resources) {
        let (ids, sum) = self.0.entry(node).or_default();
        ids.push(id);
        sum.add(resources);
    }

    /// Has the nodes hold what the members take, before the application continues with its offer.
    pub(crate) fn then(self, application: ApplicationSlot, resume: Resume) -> Consequences {
        let work = self.0.into_iter();
        let work = work.map(|(node, (ids, sum))| (node, NodeWork::HoldAll(ids, sum)));
        Consequences {
            node_work: work.collect(),
            climbing: None,
            resume: Some((application, resume)),
        }
    }
}

/// State of an application's offer, kept while several nodes carry out one of its decisions.
pub(crate) struct Resume {
    /// The application's highest pending priority before the decision.
    pub(crate) priority: i32,
    /// The changes of the counts of running applications.
    pub(crate) delta: LedgerDelta,
}

/// A change on its way up the queues, from a child that reports itself.
pub(crate) struct Climbing {
    /// The child's report. An application's is `None` if nothing is pending in the partition before
    /// and after the visit, since no application is in an order then. A queue reports itself to its
    /// parent each time.
    pub(crate) update: Option<RowUpdate>,
    /// The change of the totals of every queue on the path.
    pub(crate) delta: LedgerDelta,
    /// The number of the loosening, if the change gives every queue on the path more headroom.
    pub(crate) loosening: Loosening,
    /// Whether part of it was charged without a check against the maximum of any queue.
    pub(crate) is_unchecked: bool,
}

/// Changes that wait to be carried out together, and visits that follow the one under way.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Whether another visit follows the planned ones, so that changes of queues may wait.
    pub(crate) goes_on: bool,
    /// Whether that visit brings only plain reports, so that work on nodes may wait, too.
    pub(crate) reports_on: bool,
    /// Visits that follow the one under way; all of them bring only plain reports.
    pub(crate) visits: VecDeque<(ApplicationSlot, Vec<Op>)>,
    /// Changes by leaf, in the order of their first changes.
    climbs: VecDeque<(QueueSlot, Climbing)>,
    /// Amounts that nodes have still to hold. While the nodes take them they are in order of the
    /// nodes, and taken from the end.
    holds: Vec<GatheredHold>,
    /// Consequences that follow once the nodes hold these amounts.
    then: Option<Box<Consequences>>,
}

/// An allocation that its node has still to hold.
struct GatheredHold {
    node: NodeSlot,
    id: AllocationId,
    amount: Arc<Resources>,
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.climbs.is_empty() && self.holds.is_empty()
    }

    pub(crate) fn has_holds(&self) -> bool {
        !self.holds.is_empty()
    }

    pub(super) fn has_climbs(&self) -> bool {
        !self.climbs.is_empty()
    }

    /// Whether it has [`LEAVES_MAX`] leaves: each further change is compared with all of them.
    pub(crate) fn is_full(&self) -> bool {
        self.climbs.len() >= LEAVES_MAX
    }

    /// Whether changes of queues by the visit under way may wait.
    pub(super) fn goes_on(&self) -> bool {
        (self.goes_on || !self.visits.is_empty()) && !self.is_full()
    }

    /// Whether all consequences of the visit under way may wait.
    pub(super) fn may_wait(&self, consequences: &Consequences) -> bool {
        let Consequences { node_work, climbing, resume } = consequences;
        let has_room = self.holds.len() < HOLDS_MAX;
        let reports_on = has_room && (self.reports_on || !self.visits.is_empty());
        let is_hold = |(_, work): &(NodeSlot, NodeWork)| matches!(work, NodeWork::Hold(..));
        let is_quiet = |(_, climbing): &(QueueSlot, Climbing)| climbing.is_quiet();
        self.goes_on()
            && resume.is_none()
            && climbing.as_ref().is_none_or(is_quiet)
            && (node_work.is_empty() || reports_on && node_work.iter().all(is_hold))
    }

    /// Takes the change that comes next.
    pub(super) fn next(&mut self) -> Option<(QueueSlot, Climbing)> {
        self.climbs.pop_front()
    }

    /// Adds a change. If there is a change of the same leaf, the two become one.
    pub(super) fn put(&mut self, leaf: QueueSlot, climbing: Climbing) {
        match self.climbs.iter_mut().find(|(other, _)| *other == leaf) {
            Some((_, gathered)) => gathered.join(climbing),
            None => self.climbs.push_back((leaf, climbing)),
        }
    }

    /// Adds an amount that a node has to hold.
    pub(super) fn put_hold(&mut self, node: NodeSlot, id: AllocationId, amount: Arc<Resources>) {
        self.holds.push(GatheredHold { node, id, amount });
    }

    /// Has the nodes hold the gathered amounts, and then carries out these consequences.
    pub(super) fn begin_holds(&mut self, then: Option<Consequences>) {
        debug_assert!(self.then.is_none(), "the amounts are taken once");
        self.then = then.map(Box::new);
        // The last comes first. Allocations of one node keep their order.
        self.holds.reverse();
        self.holds.sort_by_key(|hold| hold.node);
    }

    /// Returns the node that holds its amounts next.
    pub(super) fn next_node(&self) -> Option<NodeSlot> {
        self.holds.last().map(|hold| hold.node)
    }

    /// Takes the next amount that this node has to hold.
    pub(crate) fn next_hold(&mut self, node: NodeSlot) -> Option<(AllocationId, Arc<Resources>)> {
        let next = self.holds.pop_if(|hold| hold.node == node)?;
        Some((next.id, next.amount))
    }

    /// Takes what follows once the nodes hold all amounts.
    pub(super) fn take_then(&mut self) -> Option<Consequences> {
        self.then.take().map(|consequences| *consequences)
    }
}

impl Climbing {
    /// Whether it changes no order.
    pub(super) fn is_quiet(&self) -> bool {
        self.update.is_none()
    }

    /// Adds a later change that climbs from the same leaf.
    fn join(&mut self, later: Self) {
        debug_assert!(self.is_quiet(), "nothing is gathered behind a change of the order");
        self.update = later.update;
        self.delta.add(&later.delta);
        self.loosening = self.loosening.max(later.loosening);
        self.is_unchecked |= later.is_unchecked;
    }
}
