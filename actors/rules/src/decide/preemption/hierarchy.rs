//! The queues as one preemptor sees them: the remaining guarantee of each queue, while candidates
//! are tentatively removed and put back.
//!
//! # Remaining guarantee
//! The *remaining guarantee* of a queue is its own guarantee less its usage, and at most the
//! remaining guarantee of the queues above it. It may be negative. A queue without a guarantee, own
//! or above, has no remaining guarantee. That is not the same as zero: all its allocations may be
//! preempted, and it cannot be the queue of a preemptor. There are two exceptions, both only if the
//! preemptor's leaf has a guarantee of its own:
//! * For this leaf, only its own guarantee counts.
//! * For every other queue, the guarantees of queues that it shares with the preemptor, below root,
//!   are ignored.
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

/// The facts of a queue. Queues are surveyed from root down: each after its parent.
#[derive(Clone, Debug)]
pub struct QueueFacts {
    /// The full path.
    pub path: Arc<str>,
    /// The index of the parent among the surveyed queues; `None` for root.
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
    /// The nominations of preemptors in this queue and below, without the amounts that are placed
    /// already ([`Nominations::nominated`]).
    pub nominated: Resources,
    /// The settings of the queue.
    pub settings: QueueSettings,
}

impl QueueFacts {
    /// Returns the facts of a queue with this ledger.
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

/// The queues with their fences and remaining guarantees.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    columns: Columns,
    /// The path of each queue, from root to the queue itself.
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
    /// For each queue, the number of queues of its path that are also on the preemptor's path.
    shared: Vec<usize>,
    /// The tentative growth of the preemptor: the amount of the candidates taken for it.
    grown: Row,
}

impl Hierarchy {
    /// The queues as `preemptor` sees them. `demand` is what it wants, which decides the resources
    /// that are compared.
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

    /// Whether `queue` is `above`, or below it.
    pub(super) fn is_within(&self, queue: usize, above: usize) -> bool {
        self.paths[queue].iter().any(|on_path| *on_path as usize == above)
    }

    /// Returns the queue below which allocations may be preempted for this demand: the nearest
    /// queue, from the preemptor's leaf up, that is root, is a fence, or has a maximum that cannot
    /// hold the demand. It may be the leaf itself. The capacity of all nodes counts as a maximum of
    /// every queue: if a queue would use more, only allocations below that queue can make room.
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

    /// Whether a maximum holds the present and future usage of the queue, and the demand.
    fn bears(&self, queue: usize, max: &[i64], demand: &[i64]) -> bool {
        (0..max.len()).all(|k| {
            let allocated = self.allocated.row(queue)[k];
            let later = self.used.row(queue)[k].saturating_add(self.nominated.row(queue)[k]);
            max[k] == UNSET || allocated.max(later).saturating_add(demand[k]) <= max[k]
        })
    }

    /// Returns the remaining guarantee of a queue.
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
                // The nominations count only when the preemptor's queue is judged.
                let nominated = if queue == self.preemptor { self.nominated.row(at)[k] } else { 0 };
                let own = guaranteed[k].saturating_sub(used[k]).saturating_sub(nominated);
                *remaining = if stands_alone { own } else { own.min(*remaining) };
            }
        }
        remaining
    }

    /// Whether an amount fits the remaining guarantee of the preemptor's leaf.
    pub(super) fn fits_guarantee(&self, wanted: &[i64]) -> bool {
        let remaining = self.remaining(self.preemptor);
        remaining.iter().zip(wanted).all(|(left, wanted)| *wanted <= 0 || wanted <= left)
    }

    /// Whether the preemptor's leaf has a guarantee, own or above.
    pub(super) fn has_any_guarantee(&self) -> bool {
        self.remaining(self.preemptor).iter().any(|left| *left != UNSET)
    }

    /// Whether a leaf may lose any allocation: it has no guarantee, or is above it in some
    /// resource.
    pub(super) fn is_above_some_guarantee(&self, leaf: usize) -> bool {
        let remaining = self.remaining(leaf);
        remaining.iter().all(|left| *left == UNSET) || remaining.iter().any(|left| *left < 0)
    }

    /// Whether a leaf may lose allocations to this demand: it has no guarantee, or is above it in a
    /// resource that is wanted.
    pub(super) fn may_lose(&self, leaf: usize, demand: &[i64]) -> bool {
        let remaining = self.remaining(leaf);
        remaining.iter().all(|left| *left == UNSET)
            || remaining.iter().zip(demand).any(|(left, wanted)| *left < 0 && *wanted > 0)
    }

    /// Whether a leaf, and the queues above it that are not also above the preemptor, still have
    /// their guarantees in all resources of this amount. It is called after the amount was taken.
    pub(super) fn keeps_guarantees(&self, leaf: usize, size: &[i64]) -> bool {
        self.paths[leaf][self.shared[leaf]..].iter().all(|queue| {
            let (guaranteed, used) =
                (self.guaranteed.row(*queue as usize), self.used.row(*queue as usize));
            (0..size.len())
                .all(|k| size[k] <= 0 || guaranteed[k] == UNSET || used[k] >= guaranteed[k])
        })
    }

    /// Takes an amount from the usage of a leaf and the queues above it, tentatively or for good.
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

    /// Adds an amount tentatively to the usage of the preemptor's queue.
    pub(super) fn grow(&mut self, size: &[i64]) {
        self.give_back(self.preemptor, size);
        add(&mut self.grown, size);
    }

    /// Undoes that growth.
    pub(super) fn shrink(&mut self, size: &[i64]) {
        self.take(self.preemptor, size);
        subtract(&mut self.grown, size);
    }

    /// Takes an amount that ended at once from the allocated amount, too. It was
    /// [taken](Self::take) before.
    pub(super) fn end(&mut self, leaf: usize, size: &[i64]) {
        for queue in &self.paths[leaf] {
            subtract(self.allocated.row_mut(*queue as usize), size);
        }
    }

    /// Adds an amount that is placed at once for the preemptor.
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

    /// Whether the maximum of a queue on the preemptor's path leaves too little of one resource for
    /// this demand, once all victims are released and every earlier nomination is placed.
    fn lacks(&self, queue: usize, k: usize, demand: &[i64]) -> bool {
        let max = self.max.row(queue)[k];
        if max == UNSET || demand[k] <= 0 {
            return false;
        }
        let used = self.used.row(queue)[k].saturating_sub(self.grown[k]);
        let later = used.saturating_add(self.nominated.row(queue)[k]);
        later.saturating_add(demand[k]) > max
    }

    /// Whether the maxima of the preemptor's queue and of the queues above it hold the demand.
    pub(super) fn have_room(&self, demand: &[i64]) -> bool {
        let path = &self.paths[self.preemptor];
        path.iter().all(|queue| (0..demand.len()).all(|k| !self.lacks(*queue as usize, k, demand)))
    }

    /// Whether a queue above both lacks a resource that this amount of a leaf would free.
    pub(super) fn helps_room(&self, leaf: usize, size: &[i64], demand: &[i64]) -> bool {
        self.paths[leaf][..self.shared[leaf]].iter().any(|queue| {
            (0..size.len()).any(|k| size[k] > 0 && self.lacks(*queue as usize, k, demand))
        })
    }

    /// Returns how the priority of an ask changes between this leaf and the queue that it shares
    /// with the preemptor: an offset is added to it, or replaces it.
    pub(super) fn priority_below_shared(&self, leaf: usize) -> SeenPriority {
        self.seen_priority(leaf, self.shared[leaf])
    }

    /// Returns the same for the preemptor, up to the queue that it shares with `leaf`.
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

    /// Whether two amounts have a resource in common.
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
    /// Returns the priority of an ask as seen there.
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
