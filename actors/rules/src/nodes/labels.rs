//! Labels: numbers in the order of node ids, so that no frequent comparison reads a string.
//!
//! A new id gets a number between those of its neighbours. If no number is left between them, the
//! labels around it are spread evenly. The spread covers the smallest neighbourhood that is sparse
//! enough; the larger a neighbourhood is, the sparser it has to be. So a neighbourhood that was
//! spread takes many more ids before it is spread again, in whatever order they arrive. Nodes that
//! register in alphabetical order before one that exists are common; without this rule every
//! fiftieth of them would relabel every node.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::values::ids::NodeSlot;

/// The distance that an id at either end keeps from its neighbour. With it, ids that arrive in
/// order fill the range evenly instead of halving it each time.
const STEP: u64 = 1 << 40;

/// The ids of all nodes in order, with their labels.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Labels {
    by_id: BTreeMap<Arc<str>, Labelled>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Labelled {
    slot: NodeSlot,
    /// The label; neither 0 nor `u64::MAX`, which are the ends of the range.
    label: u64,
}

/// The result of an insertion.
pub(super) struct Inserted {
    pub(super) label: u64,
    /// The nodes whose labels changed, each with its new label.
    pub(super) moved: Vec<(NodeSlot, u64)>,
}

impl Labels {
    /// Returns all nodes in order of their ids.
    pub(super) fn slots(&self) -> impl Iterator<Item = NodeSlot> {
        self.by_id.values().map(|there| there.slot)
    }

    /// Returns the nodes after this id, which need not exist, in order of their ids.
    pub(super) fn slots_behind(&self, id: &str) -> impl Iterator<Item = NodeSlot> {
        self.by_id.range::<str, _>((Excluded(id), Unbounded)).map(|(_, there)| there.slot)
    }

    /// Removes an id; all other labels stay.
    pub(super) fn remove(&mut self, id: &str) {
        self.by_id.remove(id);
    }

    /// Adds an id, which is new.
    pub(super) fn insert(&mut self, id: Arc<str>, slot: NodeSlot) -> Inserted {
        let below = self.by_id.range::<str, _>((Unbounded, Excluded(&*id))).next_back();
        let above = self.by_id.range::<str, _>((Excluded(&*id), Unbounded)).next();
        let label_of = |(_, there): (&Arc<str>, &Labelled)| there.label;
        if let Some(label) = between(below.map(label_of), above.map(label_of)) {
            self.by_id.insert(id, Labelled { slot, label });
            return Inserted { label, moved: Vec::new() };
        }
        self.by_id.insert(Arc::clone(&id), Labelled { slot, label: 0 });
        let mut moved = self.spread(&id);
        let own = moved.iter().position(|moved| moved.0 == slot).expect("it had no label");
        let (_, label) = moved.swap_remove(own);
        Inserted { label, moved }
    }

    /// Spreads the labels around `id`; returns the nodes whose labels changed.
    fn spread(&mut self, id: &str) -> Vec<(NodeSlot, u64)> {
        let mut reach = 16;
        let (first, last, low, gap) = loop {
            let below = self.by_id.range::<str, _>((Unbounded, Included(id))).rev();
            let above = self.by_id.range::<str, _>((Included(id), Unbounded));
            let (below, above) = (Side::new(below, reach), Side::new(above, reach));
            let n = below.n + above.n - 1;
            let low = below.beyond.unwrap_or(0);
            let gap = (above.beyond.unwrap_or(u64::MAX) - low) / (n + 1);
            let all = below.beyond.is_none() && above.beyond.is_none();
            if all || gap >> 8 >= n.saturating_mul(n) {
                break (below.end, above.end, low, gap);
            }
            reach *= 2;
        };
        let mut label = low;
        let mut moved = Vec::new();
        for (_, there) in self.by_id.range_mut::<str, _>((Included(&*first), Included(&*last))) {
            label += gap;
            if there.label != label {
                there.label = label;
                moved.push((there.slot, label));
            }
        }
        moved
    }
}

/// Returns a label strictly between two neighbours, or between one neighbour and the end.
fn between(below: Option<u64>, above: Option<u64>) -> Option<u64> {
    let (low, high) = (below.unwrap_or(0), above.unwrap_or(u64::MAX));
    let half = (high - low) / 2;
    match (below, above) {
        _ if half == 0 => None,
        (Some(low), None) => Some(low + half.min(STEP)),
        (None, Some(high)) => Some(high - half.min(STEP)),
        _ => Some(low + half),
    }
}

/// A new id and the ids on one side of it, up to a number of them.
struct Side {
    n: u64,
    end: Arc<str>,
    /// The label of the first id beyond these; `None` if there is none.
    beyond: Option<u64>,
}

impl Side {
    fn new<'a>(mut ids: impl Iterator<Item = (&'a Arc<str>, &'a Labelled)>, reach: usize) -> Self {
        let (mut n, mut end) = (0, None);
        for (id, _) in ids.by_ref().take(reach) {
            n += 1;
            end = Some(id);
        }
        let end = Arc::clone(end.expect("the new id is among them"));
        Self { n, end, beyond: ids.next().map(|(_, there)| there.label) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds ids in this order; returns the number of nodes that were relabelled for them.
    fn insert_all(ids: impl IntoIterator<Item = String>) -> (Labels, usize) {
        let mut labels = Labels::default();
        let mut n_moved = 0;
        for (at, id) in (0..).zip(ids) {
            n_moved += labels.insert(Arc::from(id), NodeSlot::at(at)).moved.len();
        }
        let in_order: Vec<u64> = labels.by_id.values().map(|there| there.label).collect();
        assert!(in_order.is_sorted_by(|a, b| a < b), "labels ascend as ids do");
        assert!(in_order.iter().all(|label| (1..u64::MAX).contains(label)));
        (labels, n_moved)
    }

    fn id(number: u32) -> String {
        format!("node-{number:06}")
    }

    #[test]
    fn ids_in_order_move_no_node() {
        assert_eq!(insert_all((0..5_000).map(id)).1, 0);
        assert_eq!(insert_all((0..5_000).rev().map(id)).1, 0);
    }

    #[test]
    fn ids_that_always_fall_into_the_narrowest_gap_move_few_nodes_each() {
        let n = 8_000;
        let in_front = std::iter::once("z".to_owned()).chain((0..n).map(id));
        let behind = std::iter::once("a".to_owned()).chain((0..n).rev().map(id));
        let two_runs = (0..n).map(|at| format!("{}-{at:06}", if at % 2 == 0 { 'a' } else { 'b' }));
        // 0, n, 1, n - 1, …: each between the last two.
        let inwards = (0..n).map(|at| id(if at % 2 == 0 { at } else { 2 * n - at }));
        let orders: [(&str, Vec<String>); 4] = [
            ("in front of one", in_front.collect()),
            ("behind one", behind.collect()),
            ("two runs", two_runs.collect()),
            ("inwards", inwards.collect()),
        ];
        for (name, ids) in orders {
            let (_, n_moved) = insert_all(ids);
            assert!(n_moved > 0, "{name}: a gap is used up");
            assert!(n_moved < 12 * n as usize, "{name}: {n_moved} moved for {n}");
        }
    }
}
