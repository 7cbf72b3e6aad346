//! The queues as one preemptor sees them: the remaining guarantee of each queue, while candidates
//! are tentatively removed and put back.
//!
//! # Remaining guarantee
//! The remaining guarantee of a queue is its own guarantee less its usage, and at most the
//! remaining guarantee of the queues above it. It may be negative. A queue without a guarantee, own
//! or above, has no remaining guarantee. That is not the same as zero: any of its allocations may
//! be preempted, and it cannot be the queue of a preemptor. Two exceptions, both only if the
//! preemptor's leaf has a guarantee of its own:
//! * For this leaf, only its own guarantee counts.
//! * For every other queue, the guarantees of the queues below root that it shares with the
//!   preemptor's leaf are ignored, and with them those further up.
//!
//! # Usage
//! The usage is the allocated amount without the allocations that are being preempted. When the
//! preemptor's queue is judged, nominations of earlier preemptors that are not placed yet count as
//! usage, too, so that many consecutive asks take no more than one large one. When a queue that may
//! lose allocations is judged, they do not count.
//!
//! # Invariants
//! * Taking an amount and giving it back leaves every number unchanged.

use std::sync::Arc;

use smallvec::SmallVec;

use super::rows::{Columns, Row, Rows, UNSET, add, have_in_common, subtract};
use crate::order::ledger::QueueLedger;
use crate::pending::nominations::Nominations;
use crate::queues::{PreemptionPolicy, PriorityPolicy, QueueSettings};
use crate::values::resources::{Limits, Resources};

/// What is to be known of a queue. Queues are surveyed from root down: the one above stands before
/// those below.
#[derive(Clone, Debug)]
pub struct QueueFacts {
    /// The full path.
    pub path: Arc<str>,
    /// The index of the queue above among the surveyed queues; `None` for root.
    pub parent: Option<usize>,
    /// The guarantee of the queue itself.
    pub guaranteed: Option<Resources>,
    /// The maximum of the queue itself; root has none.
    pub max: Option<Limits>,
    /// The capacity of all nodes; only of root.
    pub capacity: Option<Limits>,
    /// The usage.
    pub allocated: Resources,
    /// The part of the usage that victims of preemption hold.
    pub preempting: Resources,
    /// The nominations of preemptors here and below, without what they have by now
    /// ([`Nominations::nominated`]).
    pub nominated: Resources,
    /// The settings of the queue.
    pub settings: QueueSettings,
}

impl QueueFacts {
    /// The facts of a queue with this ledger.
    pub fn of(
        path: &Arc<str>,
        parent: Option<usize>,
        ledger: &QueueLedger,
        settings: QueueSettings,
        nominations: &Nominations,
    ) -> Self {
        Self {
            path: Arc::clone(path),
            parent,
            guaranteed: ledger.guaranteed.clone(),
            max: ledger.max.clone(),
            capacity: ledger.capacity.clone(),
            allocated: ledger.allocated().clone(),
            preempting: ledger.preempting().clone(),
            nominated: nominations.nominated(path).cloned().unwrap_or_default(),
            settings,
        }
    }
}

/// The queues with their fences, and what is left of their guarantees.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    columns: Columns,
    /// From root to the queue itself.
    paths: Vec<SmallVec<[u32; 8]>>,
    names: Vec<Arc<str>>,
    settings: Vec<QueueSettings>,
    allocated: Rows,
    used: Rows,
    guaranteed: Rows,
    has_guarantee: Vec<bool>,
    max: Rows,
    /// The capacity of all nodes.
    capacity: Row,
    nominated: Rows,
    preemptor: usize,
    is_above_preemptor: Vec<bool>,
    /// Of each queue, how many queues of its path are also on that of the preemptor.
    shared: Vec<usize>,
    /// The amount by which the preemptor has grown tentatively, for what was removed.
    grown: Row,
}

impl Hierarchy {
    /// The queues as `preemptor` sees them, which wants the names of `demand`.
    pub(super) fn new(queues: &[QueueFacts], preemptor: usize, demand: &[Resources]) -> Self {
        let columns = columns(queues, demand);
        let rows = || Rows::new(columns.len());
        let mut tree = Self {
            paths: Vec::with_capacity(queues.len()),
            names: queues.iter().map(|queue| Arc::clone(&queue.path)).collect(),
            settings: queues.iter().map(|queue| queue.settings).collect(),
            allocated: rows(),
            used: rows(),
            guaranteed: rows(),
            has_guarantee: Vec::with_capacity(queues.len()),
            max: rows(),
            capacity: columns.limit(queues.first().and_then(|root| root.capacity.as_ref())),
            nominated: rows(),
            preemptor,
            is_above_preemptor: vec![false; queues.len()],
            shared: Vec::with_capacity(queues.len()),
            grown: Row::from_elem(0, columns.len()),
            columns,
        };
        for (at, queue) in queues.iter().enumerate() {
            tree.add(at, queue);
        }
        let path = tree.paths[preemptor].clone();
        for &queue in &path[..path.len() - 1] {
            tree.is_above_preemptor[queue as usize] = true;
        }
        for of in &tree.paths {
            tree.shared
                .push(of.iter().zip(&path).take_while(|(left, right)| left == right).count());
        }
        tree
    }

    fn add(&mut self, at: usize, queue: &QueueFacts) {
        debug_assert!(queue.parent.is_none_or(|parent| parent < at), "parents stand first");
        let mut path = queue.parent.map(|parent| self.paths[parent].clone()).unwrap_or_default();
        path.push(u32::try_from(at).expect("a partition has fewer queues"));
        self.paths.push(path);
        let allocated = self.columns.amount(&queue.allocated);
        let mut used = allocated.clone();
        subtract(&mut used, &self.columns.amount(&queue.preempting));
        self.allocated.push(&allocated);
        self.used.push(&used);
        let guaranteed = self.columns.guarantee(queue.guaranteed.as_ref());
        self.has_guarantee.push(guaranteed.iter().any(|number| *number != UNSET));
        self.guaranteed.push(&guaranteed);
        self.max.push(&self.columns.limit(queue.max.as_ref()));
        self.nominated.push(&self.columns.amount(&queue.nominated));
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(super) fn preemptor(&self) -> usize {
        self.preemptor
    }

    pub(super) fn name(&self, queue: usize) -> &Arc<str> {
        &self.names[queue]
    }

    pub(super) fn settings(&self, queue: usize) -> &QueueSettings {
        &self.settings[queue]
    }

    /// Whether one queue is the other, or below it.
    pub(super) fn is_within(&self, queue: usize, above: usize) -> bool {
        self.paths[queue].iter().any(|on_path| *on_path as usize == above)
    }

    /// The queue below which an ask may take something: the nearest above it that is root, or a
    /// fence, or whose maximum would not bear the ask. It may be the leaf itself. What all nodes
    /// have is a maximum here: where a leaf would use more than that, only what is below it can
    /// give way.
    pub(super) fn fence(&self, demand: &[i64]) -> usize {
        let path = &self.paths[self.preemptor];
        let mut max: SmallVec<[Row; 8]> = SmallVec::new();
        for &queue in path {
            let mut row = Row::from_slice(self.max.row(queue as usize));
            let above = max.last().unwrap_or(&self.capacity);
            row.iter_mut().zip(above).for_each(|(own, above)| *own = (*own).min(*above));
            max.push(row);
        }
        let above_root = path.iter().zip(&max).skip(1).rev();
        for (&queue, max) in above_root {
            let queue = queue as usize;
            let is_fence = self.settings[queue].preemption == PreemptionPolicy::Fence;
            if is_fence || !self.bears(queue, max, demand) {
                return queue;
            }
        }
        path[0] as usize
    }

    /// Whether a maximum covers what a queue uses and will, and the ask.
    fn bears(&self, queue: usize, max: &[i64], demand: &[i64]) -> bool {
        (0..max.len()).all(|k| {
            let allocated = self.allocated.row(queue)[k];
            let later = self.used.row(queue)[k].saturating_add(self.nominated.row(queue)[k]);
            max[k] == UNSET || allocated.max(later).saturating_add(demand[k]) <= max[k]
        })
    }

    /// The remaining guarantee of a queue.
    pub(super) fn remaining(&self, queue: usize) -> Row {
        let mut remaining = Row::from_elem(UNSET, self.columns.len());
        for &on_path in &self.paths[queue] {
            let at = on_path as usize;
            if self.is_above_preemptor[at]
                && at != self.paths[queue][0] as usize
                && self.has_guarantee[at]
                && self.has_guarantee[self.preemptor]
            {
                remaining.fill(UNSET);
                continue;
            }
            let stands_alone = at == self.preemptor && self.has_guarantee[at];
            let (guaranteed, used) = (self.guaranteed.row(at), self.used.row(at));
            for (k, remaining) in remaining.iter_mut().enumerate() {
                if guaranteed[k] == UNSET {
                    continue;
                }
                // The nominations here count only where the preemptor's queue is judged.
                let nominated = if queue == self.preemptor { self.nominated.row(at)[k] } else { 0 };
                let own = guaranteed[k].saturating_sub(used[k]).saturating_sub(nominated);
                *remaining = if stands_alone { own } else { own.min(*remaining) };
            }
        }
        remaining
    }

    /// Whether what is asked for fits what remains of the guarantee of the asking queue.
    pub(super) fn fits_guarantee(&self, wanted: &[i64]) -> bool {
        let remaining = self.remaining(self.preemptor);
        remaining.iter().zip(wanted).all(|(left, wanted)| *wanted <= 0 || wanted <= left)
    }

    /// Whether there is a guarantee for the asking queue.
    pub(super) fn has_any_guarantee(&self) -> bool {
        self.remaining(self.preemptor).iter().any(|left| *left != UNSET)
    }

    /// Whether a leaf may lose anything at all: it is not within its guarantee in everything.
    pub(super) fn is_above_some_guarantee(&self, leaf: usize) -> bool {
        let remaining = self.remaining(leaf);
        remaining.iter().all(|left| *left == UNSET) || remaining.iter().any(|left| *left < 0)
    }

    /// Whether a leaf may lose allocations to a preemptor with this demand: it has no guarantee, or
    /// is above it in a demanded resource.
    pub(super) fn may_lose(&self, leaf: usize, demand: &[i64]) -> bool {
        let remaining = self.remaining(leaf);
        remaining.iter().all(|left| *left == UNSET)
            || remaining.iter().zip(demand).any(|(left, wanted)| *left < 0 && *wanted > 0)
    }

    /// Whether a leaf and the queues above it that are not above the preemptor as well have their
    /// guarantee, in everything that this amount has. Asked after the amount was taken.
    pub(super) fn keeps_guarantees(&self, leaf: usize, size: &[i64]) -> bool {
        self.paths[leaf][self.shared[leaf]..].iter().all(|queue| {
            let (guaranteed, used) =
                (self.guaranteed.row(*queue as usize), self.used.row(*queue as usize));
            (0..size.len())
                .all(|k| size[k] <= 0 || guaranteed[k] == UNSET || used[k] >= guaranteed[k])
        })
    }

    /// A queue loses this in thought, or for good.
    pub(super) fn take(&mut self, leaf: usize, size: &[i64]) {
        for queue in &self.paths[leaf] {
            subtract(self.used.row_mut(*queue as usize), size);
        }
    }

    /// Puts back what was removed.
    pub(super) fn give_back(&mut self, leaf: usize, size: &[i64]) {
        for queue in &self.paths[leaf] {
            add(self.used.row_mut(*queue as usize), size);
        }
    }

    /// The asking queue grows in thought by what was taken for it.
    pub(super) fn grow(&mut self, size: &[i64]) {
        self.give_back(self.preemptor, size);
        add(&mut self.grown, size);
    }

    /// Undoes that growth.
    pub(super) fn shrink(&mut self, size: &[i64]) {
        self.take(self.preemptor, size);
        subtract(&mut self.grown, size);
    }

    /// What ended at once is not allocated any more, either. It was [taken](Self::take) before.
    pub(super) fn end(&mut self, leaf: usize, size: &[i64]) {
        for queue in &self.paths[leaf] {
            subtract(self.allocated.row_mut(*queue as usize), size);
        }
    }

    /// Notes that the preemptor has this amount from now on.
    pub(super) fn place(&mut self, amount: &[i64]) {
        for queue in &self.paths[self.preemptor] {
            add(self.allocated.row_mut(*queue as usize), amount);
            add(self.used.row_mut(*queue as usize), amount);
        }
    }

    /// Adds an amount to the nominations of the preemptor.
    pub(super) fn nominate(&mut self, amount: &[i64]) {
        for queue in &self.paths[self.preemptor] {
            add(self.nominated.row_mut(*queue as usize), amount);
        }
    }

    /// Whether the maximum of a queue on the preemptor's path leaves too little for this demand,
    /// once all victims have left and every earlier nomination is kept. Only the demanded resources
    /// count.
    fn lacks(&self, queue: usize, k: usize, demand: &[i64]) -> bool {
        let max = self.max.row(queue)[k];
        if max == UNSET || demand[k] <= 0 {
            return false;
        }
        let used = self.used.row(queue)[k].saturating_sub(self.grown[k]);
        let later = used.saturating_add(self.nominated.row(queue)[k]);
        later.saturating_add(demand[k]) > max
    }

    /// Whether the maximum of every queue above the preemptor, and its own, bears the demand.
    pub(super) fn have_room(&self, demand: &[i64]) -> bool {
        let path = &self.paths[self.preemptor];
        path.iter().all(|queue| (0..demand.len()).all(|k| !self.lacks(*queue as usize, k, demand)))
    }

    /// Whether some queue above both lacks what a leaf would give up with this amount.
    pub(super) fn helps_room(&self, leaf: usize, size: &[i64], demand: &[i64]) -> bool {
        self.paths[leaf][..self.shared[leaf]].iter().any(|queue| {
            (0..size.len()).any(|k| size[k] > 0 && self.lacks(*queue as usize, k, demand))
        })
    }

    /// By how much the priority of an ask here is changed on the way up to the queue that it shares
    /// with the preemptor: what is added, or what it is replaced by.
    pub(super) fn priority_below_shared(&self, leaf: usize) -> SeenPriority {
        self.seen_priority(leaf, self.shared[leaf])
    }

    /// The same of the preemptor, on its way up to what it shares with `leaf`.
    pub(super) fn preemptor_priority_below_shared(&self, leaf: usize) -> SeenPriority {
        self.seen_priority(self.preemptor, self.shared[leaf])
    }

    fn seen_priority(&self, leaf: usize, shared: usize) -> SeenPriority {
        let mut seen = SeenPriority { is_replaced: false, offset: 0 };
        for queue in self.paths[leaf][shared..].iter().rev() {
            let settings = &self.settings[*queue as usize];
            let offset = i64::from(settings.priority_offset);
            seen = match settings.priority_policy {
                PriorityPolicy::Default => SeenPriority { offset: seen.offset + offset, ..seen },
                PriorityPolicy::Fence => SeenPriority { is_replaced: true, offset },
            };
        }
        seen
    }

    /// Whether two amounts have something in common.
    pub(super) fn is_of_use(size: &[i64], demand: &[i64]) -> bool {
        have_in_common(size, demand)
    }
}

/// A priority as a queue further up sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenPriority {
    is_replaced: bool,
    offset: i64,
}

impl SeenPriority {
    /// The priority as it is seen.
    pub(super) fn of(self, priority: i32) -> i64 {
        if self.is_replaced { self.offset } else { i64::from(priority) + self.offset }
    }
}

fn columns(queues: &[QueueFacts], demand: &[Resources]) -> Columns {
    let mut columns = Columns::default();
    for (name, _) in demand.iter().flat_map(Resources::entries) {
        columns.add(name);
    }
    for queue in queues {
        for (name, _) in queue.guaranteed.iter().flat_map(Resources::entries) {
            columns.add(name);
        }
        for (name, _) in queue.max.iter().chain(&queue.capacity).flat_map(Limits::entries) {
            columns.add(name);
        }
    }
    columns
}
