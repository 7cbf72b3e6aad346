//! The share of the cluster's capacity that reservations may set aside.
//!
//! # Why a bound
//! The free capacity of a reserved node is idle until the ask that reserved it fits. If every large
//! ask could reserve a node of its own, a few of them would idle a whole cluster, without a gain:
//! they run no sooner than present allocations end. So the *capacity* of the nodes that are set
//! aside is at most a share of the capacity of all open nodes, for each resource that the reserving
//! ask requests.
//!
//! # Invariants
//! * [`NodeIndex::may_set_aside_any`](super::NodeIndex::may_set_aside_any) never returns `false` if
//!   a node could be set aside for an ask of at least `least`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::set_aside::SetAside;
use crate::values::resources::{Resources, Sum};

/// The share that reservations may set aside, in percent of the capacity of open nodes.
pub const RESERVATION_SHARE: u32 = 20;
/// The number of nodes that may always be set aside, whatever their share.
const ALWAYS: usize = 2;
/// The most different capacities of nodes that are listed.
const SIZES_MAX: usize = 64;

/// The capacity that is set aside, and the bound on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) percent: u32,
    /// The capacity of open nodes.
    pub(super) open: Sum,
    /// The capacity of the nodes that are set aside within the bound, and the number of these
    /// nodes.
    pub(super) aside: Sum,
    pub(super) n_aside: usize,
    /// The different capacities of nodes, each with the number of nodes. At most [`SIZES_MAX`] are
    /// listed; nodes of other capacities are counted together.
    pub(super) sizes: Vec<(Arc<Resources>, usize)>,
    pub(super) of_other_sizes: usize,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            percent: RESERVATION_SHARE,
            open: Sum::default(),
            aside: Sum::default(),
            n_aside: 0,
            sizes: Vec::new(),
            of_other_sizes: 0,
        }
    }
}

impl Share {
    /// Adds a node of this capacity.
    pub(super) fn enter(&mut self, total: &Arc<Resources>, open: bool, aside: SetAside) {
        match self.sizes.iter().position(|size| size.0 == *total) {
            Some(at) => self.sizes[at].1 += 1,
            None if self.sizes.len() < SIZES_MAX => self.sizes.push((Arc::clone(total), 1)),
            None => self.of_other_sizes += 1,
        }
        self.count(total, open, aside, 1);
    }

    /// Removes a node of this capacity.
    pub(super) fn leave(&mut self, total: &Arc<Resources>, open: bool, aside: SetAside) {
        match self.sizes.iter().position(|size| size.0 == *total) {
            Some(at) if self.sizes[at].1 == 1 => drop(self.sizes.swap_remove(at)),
            Some(at) => self.sizes[at].1 -= 1,
            None => self.of_other_sizes -= 1,
        }
        self.count(total, open, aside, -1);
    }

    /// Updates the sums after a node was opened or closed, or set aside or given back.
    pub(super) fn change(
        &mut self,
        total: &Resources,
        before: (bool, SetAside),
        after: (bool, SetAside),
    ) {
        self.count(total, before.0, before.1, -1);
        self.count(total, after.0, after.1, 1);
    }

    pub(super) fn count(&mut self, total: &Resources, open: bool, aside: SetAside, times: i8) {
        if open {
            self.open.add_times(total, i64::from(times));
            self.open.prune();
        }
        if matches!(aside, SetAside::Bounded(_)) {
            self.aside.add_times(total, i64::from(times));
            self.aside.prune();
            self.n_aside = self.n_aside.saturating_add_signed(isize::from(times));
        }
    }

    /// Whether this amount exceeds the capacity of each node. `false` if there is no node, or if
    /// too many capacities differ to tell.
    pub(super) fn exceeds_each(&self, wanted: &Resources) -> bool {
        self.of_other_sizes == 0
            && !self.sizes.is_empty()
            && !self.sizes.iter().any(|(total, _)| total.holds(wanted))
    }

    /// Whether a node of this capacity may be set aside for an ask of this amount, after a node
    /// with the capacity `instead` was given back.
    pub(super) fn allows(
        &self,
        total: &Resources,
        wanted: &Resources,
        instead: Option<&Resources>,
    ) -> bool {
        let n_aside = self.n_aside - usize::from(instead.is_some());
        n_aside < ALWAYS
            || wanted.entries().filter(|(_, wanted)| *wanted > 0).all(|(name, _)| {
                let less = instead.map_or(0, |instead| i128::from(instead.get(name)));
                let aside = self.aside.get(name) - less + i128::from(total.get(name));
                aside.saturating_mul(100) <= self.open.get(name) * i128::from(self.percent)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{NodeIndex, NodeOrder};
    use crate::values::ids::NodeSlot;

    fn of(vcore: i64, gpu: i64) -> Resources {
        Resources::of(&[("vcore", vcore), ("gpu", gpu)])
    }

    /// Builds an index of `n` nodes of this capacity.
    fn nodes_of(n: usize, total: &Resources) -> (NodeIndex, Vec<NodeSlot>) {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let insert = |at| nodes.insert(format!("n{at}").into(), total.clone(), total.clone(), true);
        let slots = (0..n).map(insert).collect::<Result<_, _>>().unwrap();
        (nodes, slots)
    }

    /// Sets nodes aside one after the other; returns the number of those that may be.
    fn set_aside_all(nodes: &mut NodeIndex, slots: &[NodeSlot], wanted: &Resources) -> usize {
        let mut n = 0;
        for slot in slots {
            assert!(!nodes.may_set_aside(*slot, wanted, None) || nodes.may_set_aside_any(wanted));
            if nodes.may_set_aside(*slot, wanted, None) {
                nodes.set_aside(*slot, SetAside::Bounded(0));
                n += 1;
            }
        }
        n
    }

    #[test]
    fn a_fifth_of_the_cluster_may_be_set_aside_and_two_nodes_in_any_case() {
        for (there, may) in [(1, 1), (2, 2), (4, 2), (10, 2), (14, 2), (15, 3), (20, 4), (100, 20)]
        {
            let (mut nodes, slots) = nodes_of(there, &of(8, 0));
            assert_eq!(set_aside_all(&mut nodes, &slots, &of(6, 0)), may, "of {there}");
            assert!(!nodes.may_set_aside_any(&of(6, 0)) || may == there);
        }
    }

    #[test]
    fn an_amount_may_exceed_each_node_while_their_capacities_are_listed() {
        let (mut nodes, slots) = nodes_of(3, &of(8, 0));
        let with_gpu = nodes.insert("g".into(), of(4, 1), of(0, 0), true).unwrap();
        let exceeds = |nodes: &NodeIndex, vcore, gpu| nodes.exceeds_each(&of(vcore, gpu));
        assert!(!exceeds(&nodes, 8, 0) && !exceeds(&nodes, 4, 1), "also on nodes that are full");
        assert!(exceeds(&nodes, 9, 0) && exceeds(&nodes, 8, 1));
        nodes.remove(with_gpu);
        assert!(exceeds(&nodes, 1, 1));
        for slot in slots {
            nodes.remove(slot);
        }
        assert!(!exceeds(&nodes, 9, 0), "there may be nodes later");
        for size in 0..100 {
            let total = of(size, 0);
            nodes.insert(format!("{size}").into(), total.clone(), total, true).unwrap();
        }
        assert!(!exceeds(&nodes, 1_000, 0), "not all of them are listed");
    }

    #[test]
    fn only_what_the_ask_wants_counts_and_only_open_nodes_make_the_whole() {
        let (mut nodes, mut slots) = nodes_of(10, &of(8, 0));
        let with_gpus = nodes.insert("g".into(), of(8, 8), of(8, 8), true).unwrap();
        assert_eq!(set_aside_all(&mut nodes, &slots, &of(6, 0)), 2);
        assert!(!nodes.may_set_aside(with_gpus, &of(1, 8), None), "all gpus, and two are there");
        assert!(!nodes.may_set_aside(with_gpus, &of(0, 8), None), "whatever else it wants");
        nodes.set_aside(slots[0], SetAside::No);
        assert!(nodes.may_set_aside(with_gpus, &of(0, 8), None), "one of two");

        (nodes, slots) = nodes_of(15, &of(8, 0));
        assert_eq!(set_aside_all(&mut nodes, &slots[..3], &of(6, 0)), 3);
        nodes.set_aside(slots[0], SetAside::No);
        nodes.set_open(slots[14], false);
        assert!(!nodes.may_set_aside(slots[0], &of(6, 0), None), "three of fourteen are more");
        assert!(nodes.may_set_aside(slots[0], &of(6, 0), Some(slots[1])), "one for the other");
    }

    #[test]
    fn what_is_kept_counts_for_no_bound_and_the_share_may_be_another() {
        let (mut nodes, slots) = nodes_of(10, &of(8, 0));
        for slot in &slots[..5] {
            nodes.set_aside(*slot, SetAside::Kept);
        }
        assert_eq!(set_aside_all(&mut nodes, &slots[5..], &of(6, 0)), 2);
        nodes.set_reservation_share(40);
        assert_eq!(set_aside_all(&mut nodes, &slots[7..], &of(6, 0)), 2);
        nodes.set_reservation_share(0);
        nodes.set_aside(slots[9], SetAside::No);
        assert!(!nodes.may_set_aside(slots[9], &of(6, 0), None));
    }

    #[test]
    fn nodes_of_very_many_sizes_are_never_passed_over() {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let mut slots = Vec::new();
        for size in 0..100 {
            let total = of(1_000 + size, 0);
            slots.push(nodes.insert(format!("{size}").into(), total.clone(), total, true).unwrap());
        }
        assert!(set_aside_all(&mut nodes, &slots, &of(1_000, 0)) >= 19);
        assert!(nodes.may_set_aside_any(&of(1_000, 0)), "it is not known");
        for slot in slots {
            nodes.remove(slot);
        }
        assert_eq!((nodes.share.of_other_sizes, nodes.share.sizes.len()), (0, 0));
    }
}
