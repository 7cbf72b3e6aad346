//! Fairness over time: the share of their entitlement that leaf queues have.
//!
//! # Entitlement of a queue
//!
//! A queue is entitled to its guarantee, at most its maximum. For a resource without a guarantee,
//! each sibling without one is entitled to an equal part of the rest: the parent's entitlement
//! minus the guarantees of all its children. Root is entitled to the cluster.
//!
//! # How well a queue is served
//!
//! A queue *wants* the amounts that it holds and the amounts that are pending. Its *due* is all of
//! that. If that exceeds its entitlement to some resource, all amounts are scaled down equally
//! until they fit: a queue that may have half of the cores that it wants can use half of the
//! memory. The queue is served as well as its worst resource, as a share of its due: 1 if it holds
//! its whole due, or more.
//!
//! # Jain's index
//!
//! The index is `(Σx)² / (n Σx²)` for the shares `x` of the `n` queues that want something. It is 1
//! if all are served equally, and `1/n` if only one is served. It is averaged over the time in
//! which a pod was pending, weighted by duration: while no pod is pending, no queue is treated
//! unfairly.

use std::collections::BTreeMap;

use monoceros_actors::snapshot::QueueSnapshot;

use super::amount::{Amount, ResourceKind, ratio};
use super::history::LeafSample;

/// Returns the entitlement of each queue, by path.
pub(crate) fn entitlements(root: &QueueSnapshot, capacity: &Amount) -> BTreeMap<String, Amount> {
    let mut owed = BTreeMap::new();
    let mut unseen = vec![(root, *capacity)];
    while let Some((queue, of_queue)) = unseen.pop() {
        let guarantees = queue.children.iter();
        let guarantees: Vec<Amount> =
            guarantees.map(|it| Amount::of_named(it.guaranteed_resource.sorted())).collect();
        let parts = ResourceKind::ALL.map(|kind| {
            let rest =
                guarantees.iter().fold(of_queue[kind], |rest, it| rest.saturating_sub(it[kind]));
            let n_without = guarantees.iter().filter(|it| it[kind] == 0).count();
            rest.max(0) / i64::try_from(n_without.max(1)).unwrap_or(i64::MAX)
        });
        for (child, guarantee) in queue.children.iter().zip(&guarantees) {
            let max = child.max_resource.sorted();
            let most = |kind: ResourceKind| {
                let named = max.iter().find(|(name, _)| **name == *kind.name());
                named.map_or(i64::MAX, |(_, most)| *most)
            };
            let of_child = |kind: ResourceKind| {
                let part = parts[kind as usize];
                (if guarantee[kind] > 0 { guarantee[kind] } else { part }).min(most(kind))
            };
            unseen.push((child, Amount::of_kinds(of_child)));
        }
        owed.insert(queue.queue_name.clone(), of_queue);
    }
    owed
}

impl LeafSample {
    /// Makes the sample of a leaf with the entitlement `owed`.
    pub(crate) fn new(path: String, held: Amount, pending: Amount, owed: &Amount) -> Self {
        let kinds = || ResourceKind::ALL.into_iter().filter(|kind| owed[*kind] > 0);
        let wanted = |kind: ResourceKind| held[kind].saturating_add(pending[kind]);
        let wants = kinds().filter(|kind| wanted(*kind) > 0);
        let part = wants.clone().map(|kind| ratio(owed[kind], wanted(kind))).fold(1.0, f64::min);
        let served = wants.map(|kind| held[kind] as f64 / (part * wanted(kind) as f64));
        // Differences within the error of floating point do not count.
        let served = served.map(|served| if served > 1.0 - 1e-9 { 1.0 } else { served });
        Self {
            path,
            held,
            of_owed: kinds().map(|kind| ratio(held[kind], owed[kind])).reduce(f64::max),
            served: served.reduce(f64::min),
            waits: pending != Amount::default(),
        }
    }
}

/// Means over time, updated at every event.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    /// The leaves by path.
    leaves: BTreeMap<String, LeafFairness>,
    /// Jain's index now, and its sum in index × milliseconds. `None` while no pod is pending.
    jain: Option<f64>,
    jain_sum: f64,
    least: Option<f64>,
    /// The time in which a pod was pending, in milliseconds.
    waited: i64,
    passed: i64,
}

/// The service of a leaf.
#[derive(Debug, Default)]
pub(crate) struct LeafFairness {
    of_owed: Option<f64>,
    of_owed_sum: f64,
    served: Option<f64>,
    served_sum: f64,
    waits: bool,
    /// The time in which the leaf wanted something, and the time in which it had pending requests
    /// and less than its due, in milliseconds.
    wanted: i64,
    short: i64,
}

impl Fairness {
    /// Advances the time by `milliseconds` without a change.
    pub(crate) fn pass(&mut self, milliseconds: i64) {
        let time = milliseconds as f64;
        self.passed += milliseconds;
        if let Some(jain) = self.jain {
            self.jain_sum += jain * time;
            self.waited += milliseconds;
            if milliseconds > 0 {
                self.least = Some(self.least.map_or(jain, |least| least.min(jain)));
            }
        }
        for leaf in self.leaves.values_mut() {
            leaf.of_owed_sum += leaf.of_owed.unwrap_or(0.0) * time;
            let Some(served) = leaf.served else { continue };
            leaf.served_sum += served * time;
            leaf.wanted += milliseconds;
            if leaf.waits && served < 1.0 {
                leaf.short += milliseconds;
            }
        }
    }

    /// Sets the present values of the leaves, and whether a pod is pending.
    pub(crate) fn set(&mut self, leaves: &[LeafSample], somebody_waits: bool) {
        for leaf in self.leaves.values_mut() {
            (leaf.of_owed, leaf.served, leaf.waits) = (None, None, false);
        }
        for leaf in leaves {
            if !self.leaves.contains_key(&leaf.path) {
                self.leaves.insert(leaf.path.clone(), LeafFairness::default());
            }
            if let Some(mine) = self.leaves.get_mut(&leaf.path) {
                (mine.of_owed, mine.served, mine.waits) = (leaf.of_owed, leaf.served, leaf.waits);
            }
        }
        let served: Vec<f64> = leaves.iter().filter_map(|leaf| leaf.served).collect();
        self.jain = somebody_waits.then(|| jain(&served));
    }

    /// Returns the present value of Jain's index. `None` while no pod is pending.
    pub(crate) fn index(&self) -> Option<f64> {
        self.jain
    }

    /// Returns mean and minimum of Jain's index while a pod was pending. 1 if none was.
    pub(crate) fn mean_and_least(&self) -> (f64, f64) {
        (mean(self.jain_sum, self.waited, 1.0), self.least.unwrap_or(1.0))
    }

    /// Returns how long a pod was pending, in milliseconds.
    pub(crate) fn waited(&self) -> i64 {
        self.waited
    }

    /// Returns for each leaf: its path; its mean share of its entitlement; how well it was served
    /// on average while it wanted something (1 is fully; `None` if it never did); and for how many
    /// milliseconds it had pending requests and less than its due.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (&str, f64, Option<f64>, i64)> {
        self.leaves.iter().map(|(path, leaf)| {
            let served = (leaf.wanted > 0).then(|| mean(leaf.served_sum, leaf.wanted, 1.0));
            (path.as_str(), mean(leaf.of_owed_sum, self.passed, 0.0), served, leaf.short)
        })
    }
}

fn mean(sum: f64, time: i64, of_none: f64) -> f64 {
    if time == 0 { of_none } else { sum / time as f64 }
}

/// Computes Jain's index. 1 if there are no shares, or all are zero.
fn jain(parts: &[f64]) -> f64 {
    let (sum, squares) =
        parts.iter().fold((0.0, 0.0), |(sum, squares), part| (sum + part, squares + part * part));
    if squares > 0.0 { sum * sum / (parts.len() as f64 * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use monoceros_actors::Resources;

    use super::*;

    fn cores(cores: i64) -> Amount {
        Amount::new(0, 0, cores)
    }

    fn leaf(path: &str, held: i64, pending: i64, owed: i64) -> LeafSample {
        LeafSample::new(path.to_owned(), cores(held), cores(pending), &cores(owed))
    }

    #[test]
    fn what_is_not_guaranteed_is_shared_equally() {
        let queue = |name: &str, guaranteed: i64, children| QueueSnapshot {
            queue_name: name.to_owned(),
            guaranteed_resource: Resources::of(&[("vcore", guaranteed)]),
            children,
            ..QueueSnapshot::default()
        };
        let below = vec![queue("root.c.x", 0, vec![]), queue("root.c.y", 1, vec![])];
        let children =
            vec![queue("root.a", 4, vec![]), queue("root.b", 0, vec![]), queue("root.c", 0, below)];
        let owed = entitlements(&queue("root", 0, children), &cores(10));
        let shown: Vec<_> =
            owed.iter().map(|(path, owed)| (path.as_str(), owed[ResourceKind::Vcore])).collect();
        let expected = [
            ("root", 10),
            ("root.a", 4),
            ("root.b", 3),
            ("root.c", 3),
            ("root.c.x", 2),
            ("root.c.y", 1),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn served_is_the_share_of_the_due() {
        let served = |held, pending, owed| leaf("q", held, pending, owed).served;
        assert_eq!(served(2, 8, 4), Some(0.5));
        assert_eq!(served(6, 8, 4), Some(1.0), "it has more than it is owed");
        assert_eq!(served(1, 1, 4), Some(0.5), "it wants no more than two");
        assert_eq!(served(0, 0, 4), None, "it wants nothing");
        assert_eq!(served(0, 5, 0), None, "it is owed nothing");
        assert_eq!(leaf("q", 6, 0, 4).of_owed, Some(1.5));
        // The resource with the lowest share counts.
        let held = Amount::new(0, 0, 4);
        let both =
            LeafSample::new("q".to_owned(), held, Amount::new(0, 7, 0), &Amount::new(0, 7, 4));
        assert_eq!(both.served, Some(0.0));
        // With half of the cores that it wants, it is entitled to half of the memory.
        let (held, waits) = (Amount::new(1, 0, 2), Amount::new(1, 0, 2));
        let half = LeafSample::new("q".to_owned(), held, waits, &Amount::new(100, 0, 2));
        assert_eq!(half.served, Some(1.0));
    }

    #[test]
    fn the_index_is_one_for_equal_shares() {
        assert!((jain(&[0.5, 0.5, 0.5]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn means_are_weighted_by_time() {
        let mut fairness = Fairness::default();
        fairness.set(&[leaf("a", 4, 0, 4), leaf("b", 0, 4, 4)], true);
        fairness.pass(3000);
        fairness.set(&[leaf("a", 4, 0, 4), leaf("b", 4, 0, 4)], true);
        fairness.pass(1000);
        fairness.set(&[leaf("a", 4, 0, 4)], false);
        fairness.pass(6000);
        let (mean, least) = fairness.mean_and_least();
        assert!((mean - (0.5 * 3.0 + 1.0) / 4.0).abs() < 1e-12 && (least - 0.5).abs() < 1e-12);
        assert_eq!(fairness.waited(), 4000);
        let leaves: Vec<_> = fairness.leaves().collect();
        assert_eq!(leaves, [("a", 1.0, Some(1.0), 0), ("b", 0.1, Some(0.25), 3000)]);
    }
}
