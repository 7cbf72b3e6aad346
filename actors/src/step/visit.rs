//! What a visit leads to elsewhere: work on nodes, and a change that climbs the queues.
//!
//! Both are brought with the baton and taken off it by whoever gets it, so that no actor can meet a visit's
//! work during an offer or a survey.
//!
//! # Climbing together
//! A visit after which nothing waits, as nothing did before, changes the totals of queues and nothing of their
//! order; and until the next offer or survey nobody looks at totals. A shim that reports what runs names
//! another application each time. So the changes of such visits that follow one another are gathered, and climb
//! together, one climb for each leaf: before anything but a visit is done. Where a partition preempts by
//! quota, each change climbs by itself: one that takes a queue above its maximum begins the time to give that up.

use std::collections::{BTreeMap, VecDeque};

use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use monoceros_rules::values::resources::Resources;
use smallvec::SmallVec;

use super::offer::RowUpdate;
use super::slots::QueueSlot;

/// The changes of how many leaves are gathered before they climb.
const LEAVES_MAX: usize = 64;

/// Work on a node that follows from a decision already made: a node cannot refuse it.
pub(crate) enum NodeWork {
    Release(AllocationId, Resources),
    /// A placement that was never settled gives back what it held.
    Return(AllocationId, Resources),
    Hold(AllocationId, Resources),
    /// Members of a bundle have their places here, which take this much together.
    HoldAll(Vec<AllocationId>, Resources),
    Resize(Resources),
    /// A placeholder is gone, and the allocation that takes its place here holds this much more.
    Swap {
        placeholder: AllocationId,
        real: AllocationId,
        change: Resources,
    },
}

/// What a visit of an application leads to elsewhere: at nodes first, then up the queues.
#[derive(Default)]
pub(crate) struct Consequences {
    /// The work on nodes, done from the last to the first.
    pub(crate) node_work: SmallVec<[(NodeSlot, NodeWork); 1]>,
    /// Where what changed climbs first, and the change; none, if nothing changed for queues.
    pub(crate) climbing: Option<(QueueSlot, Climbing)>,
    /// Who goes on with its offer when the nodes are done. It does so instead of climbing.
    pub(crate) resume: Option<(ApplicationSlot, Resume)>,
}

/// New members of a gang by their nodes, with what they take there together.
#[derive(Default)]
pub(crate) struct NewMembers(BTreeMap<NodeSlot, (Vec<AllocationId>, Resources)>);

impl NewMembers {
    /// Adds a member that takes so much of this node.
    pub(crate) fn add(&mut self, id: AllocationId, node: NodeSlot, resources: &Resources) {
        let (ids, sum) = self.0.entry(node).or_default();
        ids.push(id);
        sum.add(resources);
    }

    /// Has the nodes hold what the members take, before the application goes on with its offer.
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

/// What an application is told that has decided about several nodes in an offer.
pub(crate) struct Resume {
    /// Its highest pending priority before the decision.
    pub(crate) priority: i32,
    /// How the counts of running applications changed.
    pub(crate) delta: LedgerDelta,
}

/// A change on its way up the queues, from a child that says what it is now.
pub(crate) struct Climbing {
    /// From an application none where nothing waits in the partition, now as before: nobody has a place in
    /// an order. A queue tells its parent of itself each time.
    pub(crate) update: Option<RowUpdate>,
    /// The change of the totals of every queue on the path.
    pub(crate) delta: LedgerDelta,
    /// The number of the loosening, if the change gives every queue on the path more room.
    pub(crate) loosening: Loosening,
    /// Some of it was charged without a look at the maximum of any queue.
    pub(crate) is_unchecked: bool,
}

/// Changes that wait to climb together.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Another visit follows the one that is under way, and what this one changes may wait for that.
    pub(crate) goes_on: bool,
    /// By leaf, in the order in which the first of each came.
    climbs: VecDeque<(QueueSlot, Climbing)>,
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.climbs.is_empty()
    }

    /// Whether it has as many leaves as one change is compared with.
    pub(crate) fn is_full(&self) -> bool {
        self.climbs.len() >= LEAVES_MAX
    }

    /// Takes the change that comes next.
    pub(super) fn next(&mut self) -> Option<(QueueSlot, Climbing)> {
        self.climbs.pop_front()
    }

    /// Adds a change, to that of the same leaf if there is one.
    pub(super) fn put(&mut self, leaf: QueueSlot, climbing: Climbing) {
        match self.climbs.iter_mut().find(|(other, _)| *other == leaf) {
            Some((_, gathered)) => gathered.join(climbing),
            None => self.climbs.push_back((leaf, climbing)),
        }
    }
}

impl Climbing {
    /// Whether it changes no order.
    pub(super) fn is_quiet(&self) -> bool {
        self.update.is_none()
    }

    /// Takes along what climbs from the same leaf after it.
    fn join(&mut self, later: Self) {
        debug_assert!(self.is_quiet(), "nothing is gathered behind a change of the order");
        self.update = later.update;
        self.delta.add(&later.delta);
        self.loosening = self.loosening.max(later.loosening);
        self.is_unchecked |= later.is_unchecked;
    }
}
