//! The scale-up signal: pending requests that would run on more machines; the rule of
//! `docs/scheduling.md#the-scale-up-signal`.
//!
//! A request counts if it would run once there is a machine for it: it was tried, fits every quota
//! above it except root's (root grows with the machines) and every limit of its user and group, and
//! is still pending. Requests are counted in the order in which they would be placed. Each takes
//! its share of what quotas and limits leave, so that the signal asks for no more than they will
//! let run; a request that does not fit is passed over. A gang that is decided as a whole is
//! counted as a whole: if quotas leave too little for all of its members, none of them would run on
//! any number of machines.
//!
//! # Invariants
//! * The amount counted below a queue fits what that queue has left, and the amount counted for a
//!   user or a group, in all queues together, fits what their limits leave.
//! * No request that was passed over would fit in addition to the counted ones; a gang is passed
//!   over as a whole.
//!
//! ```
//! use monoceros_rules::values::resources::{Limits, Resources};
//! use monoceros_rules::decide::scale_up::times;
//! let left = Limits::of(&[("vcore", 7)]);
//! assert_eq!(times(&left, &Resources::of(&[("vcore", 2), ("memory", 99)])), 3);
//! ```

mod tried;

use std::collections::{BTreeMap, BTreeSet};
use std::vec;

pub use self::tried::Tried;
use crate::asks::Waiting;
use crate::limits::LimitId;
use crate::order::keys::{ApplicationKey, QueueKey};
use crate::values::ids::{ApplicationSlot, ClassId};
use crate::values::resources::{Limits, Resources};

/// The amount that a queue has left.
#[derive(Clone, Debug)]
pub struct QueueRoom {
    /// The index of its parent in the list of queues. `None` for root, whose `left` is ignored.
    pub parent: Option<usize>,
    /// The key of the queue among its siblings.
    pub key: QueueKey,
    /// The amount that its own maximum leaves beside the allocated amount.
    pub left: Limits,
}

/// The pending requests of an application.
#[derive(Clone, Debug)]
pub struct ApplicationWaiting {
    /// The application with pending requests.
    pub application: ApplicationSlot,
    /// The index of its leaf in the list of queues.
    pub leaf: usize,
    /// The key of the application in its leaf.
    pub key: ApplicationKey,
    /// The limits of its user and group.
    pub limits: Vec<LimitId>,
    /// Its waiting classes, in the order in which they are tried.
    pub classes: Vec<Waiting>,
    /// Whether the requests are members of a gang, which run together or not at all.
    pub together: bool,
}

impl ApplicationWaiting {
    /// The amount of all its requests together.
    fn total(&self) -> Resources {
        let mut total = Resources::new();
        for waiting in &self.classes {
            total.add(&waiting.resources.times(as_times(waiting.count)));
        }
        total
    }
}

/// The number of allocations of one class that would run on more machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The application that asks.
    pub application: ApplicationSlot,
    /// The class of its asks.
    pub class: ClassId,
    /// The amount of each allocation.
    pub resources: Resources,
    /// The number, at least one: the first asks of the class are meant.
    pub count: u64,
}

/// Waiting applications, leaf by leaf in the order in which they are scheduled there.
#[derive(Debug, Default)]
pub struct InOrder(BTreeMap<usize, BTreeMap<ApplicationKey, ApplicationWaiting>>);

impl InOrder {
    /// Adds an application.
    pub fn insert(&mut self, waiting: ApplicationWaiting) {
        let leaf = self.0.entry(waiting.leaf).or_default();
        leaf.insert(waiting.key.clone(), waiting);
    }
}

/// Counts how many allocations of each class more machines would let run. Returns, for each waiting
/// application in the order of scheduling, its classes of which any allocation would run. The count
/// may be interrupted between two applications.
#[derive(Debug)]
pub struct Counting {
    queues: Vec<QueueRoom>,
    /// The amounts that limits of users and groups leave.
    limits: BTreeMap<LimitId, Limits>,
    waiting: InOrder,
    /// The queues whose applications are still to be counted.
    order: vec::IntoIter<usize>,
    /// The applications of the present leaf that are still to be counted. `path` has that leaf and
    /// the queues above it.
    here: BTreeMap<ApplicationKey, ApplicationWaiting>,
    path: Vec<usize>,
}

impl Counting {
    /// `limits` has the amounts that limits of users and groups leave.
    pub fn new(
        queues: Vec<QueueRoom>,
        limits: BTreeMap<LimitId, Limits>,
        waiting: InOrder,
    ) -> Self {
        let order = in_order(&queues).into_iter();
        Self { queues, limits, waiting, order, here: BTreeMap::new(), path: Vec::new() }
    }

    /// Returns how many times an amount fits what the queues on the path and these limits leave.
    fn fit(&self, limits: &[LimitId], resources: &Resources) -> u64 {
        let by_queues = self.path.iter().map(|queue| &self.queues[*queue].left);
        let by_limits = limits.iter().filter_map(|limit| self.limits.get(limit));
        let room = by_queues.chain(by_limits).map(|left| times(left, resources));
        room.min().unwrap_or(u64::MAX)
    }

    fn take(&mut self, limits: &[LimitId], taken: &Resources) {
        for queue in &self.path {
            self.queues[*queue].left.take(taken);
        }
        for limit in limits {
            if let Some(left) = self.limits.get_mut(limit) {
                left.take(taken);
            }
        }
    }

    fn count(&mut self, application: ApplicationWaiting) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let limits = &application.limits;
        if application.together && self.fit(limits, &application.total()) == 0 {
            return wanted;
        }
        for Waiting { class, resources, count } in application.classes {
            let count = self.fit(limits, &resources).min(count);
            if count > 0 {
                self.take(limits, &resources.times(as_times(count)));
                let application = application.application;
                wanted.push(Wanted { application, class, resources, count });
            }
        }
        wanted
    }
}

impl Iterator for Counting {
    type Item = Vec<Wanted>;

    fn next(&mut self) -> Option<Vec<Wanted>> {
        loop {
            if let Some((_, application)) = self.here.pop_first() {
                return Some(self.count(application));
            }
            let leaf = self.order.next()?;
            if let Some(here) = self.waiting.0.remove(&leaf) {
                (self.here, self.path) = (here, path(&self.queues, leaf));
            }
        }
    }
}

/// Counts all applications at once; see [`Counting`].
pub fn wanted(
    queues: Vec<QueueRoom>,
    limits: BTreeMap<LimitId, Limits>,
    applications: Vec<ApplicationWaiting>,
) -> Vec<Wanted> {
    let mut waiting = InOrder::default();
    for application in applications {
        waiting.insert(application);
    }
    Counting::new(queues, limits, waiting).flatten().collect()
}

fn as_times(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// For each queue, returns whether all its waiting applications have to be counted to know how many
/// requests in `leaves` the signal has. That is so if the queue and one of the leaves are below the
/// same queue with a maximum.
///
/// `leaves` are the leaves of requests to be reported, and of all applications with limits: the
/// amount that limits of users and groups leave is shared by all their applications, and how much
/// of it another application takes depends on the maxima that it shares. Most pending requests were
/// reported already. If they share no maximum with these leaves, they need not be visited to report
/// another request.
pub fn shares_room(queues: &[QueueRoom], leaves: &BTreeSet<usize>) -> Vec<bool> {
    let shared: BTreeSet<usize> = leaves
        .iter()
        .flat_map(|leaf| path(queues, *leaf))
        .filter(|queue| !queues[*queue].left.is_unlimited())
        .collect();
    let is_below = |leaf| path(queues, leaf).iter().any(|queue| shared.contains(queue));
    (0..queues.len()).map(|leaf| !shared.is_empty() && is_below(leaf)).collect()
}

/// Returns how many times an amount fits.
pub fn times(left: &Limits, resources: &Resources) -> u64 {
    let wanted = resources.entries().filter(|(_, quantity)| *quantity > 0);
    let fit = wanted.filter_map(|(name, quantity)| Some(left.find(name)?.max(0) / quantity));
    fit.min().map_or(u64::MAX, i64::unsigned_abs)
}

/// Returns the queues from root on: each before the queues below it, siblings in their order.
fn in_order(queues: &[QueueRoom]) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); queues.len()];
    let mut to_visit = Vec::new();
    for (at, queue) in queues.iter().enumerate() {
        match queue.parent {
            Some(parent) => children[parent].push(at),
            None => to_visit.push(at),
        }
    }
    let mut order = Vec::with_capacity(queues.len());
    while let Some(queue) = to_visit.pop() {
        order.push(queue);
        let below = &mut children[queue];
        below.sort_by(|a, b| queues[*b].key.cmp(&queues[*a].key));
        to_visit.append(below);
    }
    order
}

/// Returns a queue and those above it, without root.
fn path(queues: &[QueueRoom], leaf: usize) -> Vec<usize> {
    let mut path = Vec::new();
    let mut at = leaf;
    while let Some(parent) = queues[at].parent {
        path.push(at);
        at = parent;
    }
    path
}

#[cfg(test)]
mod tests;
