//! Figures of each queue that all rules may read: its settings, its headroom below its maximum, and
//! the unused part of its guarantee.
//!
//! # Why beside the queues
//! The totals of a queue are its own: its actor counts them, and an offer carries the totals of the
//! queues on its path. Whether an ask may use the reservation of another ask depends on the queues
//! of both. So the figures for that decision are here as well: the queue updates them whenever its
//! totals change, and an offer updates them for its decisions before it rises.
//!
//! # Invariants
//! * The headroom here is that of the queue's ledger, less the decisions of the offer under way.
//! * A queue without a maximum has no headroom here, and a queue without a guarantee no unused
//!   part.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::QueueConfig;
use crate::values::resources::{Limits, Resources};

/// The figures of one queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueFigures {
    /// The slot of the queue above; `None` for root.
    parent: Option<u32>,
    config: Arc<QueueConfig>,
    /// The headroom below its maximum; negative if the usage is above it.
    left: Option<Limits>,
    guaranteed: Option<Limits>,
    /// The unused part of its guarantee; negative if the usage is above it.
    unused: Option<Limits>,
}

/// The figures of all queues of a partition, by their slots.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QueueTable {
    queues: Vec<Option<QueueFigures>>,
    /// The number of queues that change the priorities below them.
    n_changing: usize,
}

impl QueueTable {
    /// Enters a queue, which uses nothing yet.
    pub fn enter(&mut self, queue: u32, parent: Option<u32>, config: Arc<QueueConfig>) {
        let at = queue as usize;
        if self.queues.len() <= at {
            self.queues.resize(at + 1, None);
        }
        self.put(queue, Some(QueueFigures::new(parent, config)));
    }

    /// Removes a queue; its slot may be given to another.
    pub fn forget(&mut self, queue: u32) {
        self.put(queue, None);
    }

    /// Sets the configuration and the usage of a queue.
    pub fn configure(&mut self, queue: u32, config: &Arc<QueueConfig>, used: &Resources) {
        let Some(before) = self.find(queue) else { return };
        let mut figures = QueueFigures::new(before.parent, Arc::clone(config));
        figures.count(used);
        self.put(queue, Some(figures));
    }

    fn put(&mut self, queue: u32, figures: Option<QueueFigures>) {
        let changing = |of: &Option<QueueFigures>| {
            usize::from(of.as_ref().is_some_and(|of| of.config.settings.changes_priorities()))
        };
        let place = &mut self.queues[queue as usize];
        self.n_changing += changing(&figures);
        self.n_changing -= changing(place);
        *place = figures;
    }

    /// Sets the usage of a queue. Returns whether a guarantee of it is used up by that.
    pub fn count(&mut self, queue: u32, used: &Resources) -> bool {
        self.find_mut(queue).is_some_and(|figures| figures.count(used))
    }

    /// Charges an amount of an offer to a queue. Returns whether a guarantee of it is used up by
    /// that.
    pub fn charge(&mut self, queue: u32, amount: &Resources) -> bool {
        let Some(figures) = self.find_mut(queue) else { return false };
        if let Some(left) = &mut figures.left {
            left.take(amount);
        }
        let Some(unused) = &mut figures.unused else { return false };
        let before = unused.clone();
        unused.take(amount);
        has_used_up(&before, unused)
    }

    /// Subtracts an amount of an offer from the usage of a queue.
    pub fn give_back(&mut self, queue: u32, amount: &Resources) {
        let Some(figures) = self.find_mut(queue) else { return };
        for of in [&mut figures.left, &mut figures.unused].into_iter().flatten() {
            of.give(amount);
        }
    }

    /// Returns the queues from this one up to root, each with its slot.
    pub fn upward(&self, queue: u32) -> impl Iterator<Item = (u32, &QueueFigures)> {
        let at = |place: u32| Some((place, self.find(place)?));
        std::iter::successors(at(queue), move |(_, below)| at(below.parent?))
    }

    /// Whether any queue changes the priorities below it. If none does, asks compare by their own
    /// priorities.
    pub fn changes_priorities(&self) -> bool {
        self.n_changing > 0
    }

    /// Whether the whole amount fits into the unused guarantee of the leaf, or if the leaf has no
    /// guarantee, of the nearest queue above that has one. Only guaranteed resources are compared,
    /// and the amount must have at least one of them.
    pub fn fits_guarantee(&self, leaf: u32, amount: &Resources) -> bool {
        self.is_all_guaranteed(leaf, amount, |unused, wanted| wanted <= unused)
    }

    /// Whether the leaf has an unused guarantee, above zero, of each guaranteed resource in this
    /// amount. If the leaf has no guarantee, the nearest queue above that has one counts.
    pub fn is_below_guarantee(&self, leaf: u32, amount: &Resources) -> bool {
        self.is_all_guaranteed(leaf, amount, |unused, _| unused > 0)
    }

    /// Whether some resource of the amount is guaranteed, and `is` holds for each that is; `is`
    /// gets the unused and the requested amount.
    fn is_all_guaranteed(
        &self,
        leaf: u32,
        amount: &Resources,
        is: impl Fn(i64, i64) -> bool,
    ) -> bool {
        let Some((_, unused)) = self.guarantee(leaf) else { return false };
        let both = unused.entries().map(|(name, unused)| (unused, amount.get(name)));
        let mut both = both.filter(|(_, wanted)| *wanted > 0).peekable();
        both.peek().is_some() && both.all(|(unused, wanted)| is(unused, wanted))
    }

    /// Whether an amount of at least `least` may fit into the unused part of the queue's own
    /// guarantee. `true` may be wrong, `false` never is.
    pub fn may_fit_guarantee(&self, queue: u32, least: &Resources) -> bool {
        let unused = self.find(queue).and_then(|figures| figures.unused.as_ref());
        unused.is_some_and(|unused| {
            // The least of several amounts may lack a resource that each of them requests.
            unused.entries().all(|(name, unused)| least.get(name) <= unused.max(0))
                && unused.entries().any(|(_, unused)| unused > 0)
        })
    }

    /// The nearest queue that has a guarantee, from this one up.
    pub fn guaranteed_by(&self, leaf: u32) -> Option<u32> {
        self.guarantee(leaf).map(|(queue, _)| queue)
    }

    /// Returns the nearest queue that has a guarantee, from this one up, with the unused part.
    fn guarantee(&self, leaf: u32) -> Option<(u32, &Limits)> {
        self.upward(leaf).find_map(|(queue, figures)| Some((queue, figures.unused.as_ref()?)))
    }

    fn find(&self, queue: u32) -> Option<&QueueFigures> {
        self.queues.get(queue as usize)?.as_ref()
    }

    fn find_mut(&mut self, queue: u32) -> Option<&mut QueueFigures> {
        self.queues.get_mut(queue as usize)?.as_mut()
    }
}

impl QueueFigures {
    fn new(parent: Option<u32>, config: Arc<QueueConfig>) -> Self {
        let guaranteed = config.guaranteed.clone().map(Limits::from);
        Self { parent, left: config.max.clone(), unused: guaranteed.clone(), guaranteed, config }
    }

    fn count(&mut self, used: &Resources) -> bool {
        if let (Some(left), Some(max)) = (&mut self.left, &self.config.max) {
            left.clone_from(max);
            left.take(used);
        }
        let (Some(unused), Some(guaranteed)) = (&mut self.unused, &self.guaranteed) else {
            return false;
        };
        let before = std::mem::replace(unused, guaranteed.clone());
        unused.take(used);
        has_used_up(&before, unused)
    }

    /// The configuration.
    pub fn config(&self) -> &QueueConfig {
        &self.config
    }

    /// Returns the headroom below its maximum; `None` if it has no maximum.
    pub fn left(&self) -> Option<&Limits> {
        self.left.as_ref()
    }
}

/// Whether the guarantee of some resource had an unused part before, and has none now.
fn has_used_up(before: &Limits, after: &Limits) -> bool {
    let both = before.entries().zip(after.entries());
    both.into_iter().any(|((_, before), (_, after))| before > 0 && after <= 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::PriorityPolicy;

    fn vcores(quantity: i64) -> Resources {
        Resources::of(&[("vcore", quantity)])
    }

    fn config(guaranteed: Option<i64>, max: Option<i64>) -> QueueConfig {
        let mut config = QueueConfig::bare("root.q", true);
        config.guaranteed = guaranteed.map(vcores);
        config.max = max.map(|max| vcores(max).into());
        config
    }

    /// Returns root, a parent with a guarantee of 10, and below it a leaf with a guarantee of 4 and
    /// a leaf without one.
    fn table() -> QueueTable {
        let mut table = QueueTable::default();
        table.enter(0, None, Arc::new(config(None, None)));
        table.enter(1, Some(0), Arc::new(config(Some(10), Some(12))));
        table.enter(2, Some(1), Arc::new(config(Some(4), None)));
        table.enter(3, Some(1), Arc::new(config(None, None)));
        table
    }

    #[test]
    fn a_guarantee_is_that_of_the_nearest_queue_that_has_one() {
        let mut table = table();
        assert_eq!(
            [0, 1, 2, 3].map(|at| table.guaranteed_by(at)),
            [None, Some(1), Some(2), Some(1)]
        );
        table.count(1, &vcores(7));
        table.count(2, &vcores(1));
        let fits = |table: &QueueTable, leaf| {
            (1..=12).filter(|n| table.fits_guarantee(leaf, &vcores(*n))).count()
        };
        assert_eq!([0, 2, 3].map(|leaf| fits(&table, leaf)), [0, 3, 3]);
        assert!(!table.charge(2, &vcores(2)) && !table.charge(0, &vcores(2)));
        assert_eq!([2, 3].map(|leaf| fits(&table, leaf)), [1, 3]);
        assert!(table.charge(2, &vcores(1)), "it has all of it now");
        table.give_back(2, &vcores(4));
        assert_eq!(fits(&table, 2), 4);
    }

    #[test]
    fn what_is_not_guaranteed_does_not_count_and_something_has_to_be() {
        let mut table = table();
        let with_gpus = |vcore| Resources::of(&[("vcore", vcore), ("gpu", 9)]);
        assert!(table.fits_guarantee(2, &with_gpus(4)) && !table.fits_guarantee(2, &with_gpus(5)));
        assert!(!table.fits_guarantee(2, &Resources::of(&[("gpu", 1)])));
        assert!(table.is_below_guarantee(2, &with_gpus(5)), "it uses nothing yet");
        assert!(!table.is_below_guarantee(2, &Resources::of(&[("gpu", 1)])));
        table.count(2, &vcores(4));
        assert!(!table.is_below_guarantee(2, &vcores(1)), "all of it is used");
    }

    #[test]
    fn what_is_configured_anew_counts_what_is_used() {
        let mut table = table();
        table.count(1, &vcores(7));
        let left = |table: &QueueTable| table.upward(3).nth(1).unwrap().1.left().cloned();
        assert_eq!(left(&table), Some(vcores(5).into()));
        table.configure(1, &Arc::new(config(None, Some(9))), &vcores(7));
        assert_eq!(left(&table), Some(vcores(2).into()));
        assert_eq!(table.guaranteed_by(3), None);
        assert!(!table.changes_priorities());
        let mut fenced = config(None, None);
        fenced.settings.priority_policy = PriorityPolicy::Fence;
        table.configure(3, &Arc::new(fenced), &vcores(0));
        assert!(table.changes_priorities());
        table.forget(3);
        assert!(!table.changes_priorities() && table.upward(3).next().is_none());
    }
}
