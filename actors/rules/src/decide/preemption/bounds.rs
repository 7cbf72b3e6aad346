//! Bounds on what the remaining candidates can free, so that the search for the best set of victims
//! drops sets that cannot beat the best one so far.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::rows::{Row, add, is_nothing, subtract};
use super::score::Weight;

/// An item of the search: a candidate, or all candidates of an application whose allocations are
/// preempted together.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) members: SmallVec<[u32; 2]>,
    /// The amount that it frees on the node.
    pub(super) cover: Row,
    /// Whether the search sees no difference from the item before it.
    pub(super) is_twin: bool,
    pub(super) weight: Weight,
}

/// The amounts that some items can free together.
#[derive(Clone, Default)]
pub(super) struct Rest {
    /// The sum.
    sum: Row,
    /// The amount of the largest victim, by resource.
    largest: Row,
    /// The amount of held places.
    held: Row,
    /// The amounts of the other victims by priority, the lowest first.
    by_priority: BTreeMap<i64, Row>,
}

/// Returns, for each item, the amounts that it and the items behind it can free. A last entry has
/// nothing.
pub(super) fn rest(items: &[Item], width: usize) -> Vec<Rest> {
    let nothing = Row::from_elem(0, width);
    let last =
        Rest { sum: nothing.clone(), largest: nothing.clone(), held: nothing, ..Rest::default() };
    let mut rest = vec![last; items.len() + 1];
    for (at, item) in items.iter().enumerate().rev() {
        let mut own = rest[at + 1].clone();
        add(&mut own.sum, &item.cover);
        if item.weight.victims == 0 {
            add(&mut own.held, &item.cover);
        } else {
            // An item of several victims counts as several victims of equal size.
            let each = i64::from(item.weight.victims);
            for (largest, cover) in own.largest.iter_mut().zip(&item.cover) {
                *largest = (*largest).max((*cover).saturating_add(each - 1) / each);
            }
            let alike = own.by_priority.entry(item.weight.priority);
            let alike = alike.or_insert_with(|| Row::from_elem(0, width));
            add(alike, &item.cover);
        }
        rest[at] = own;
    }
    rest
}

impl Rest {
    /// Returns the least possible priority of the most important victim among items that free
    /// `left`; `i64::MIN` if held places free it. `None` if all items together do not free it.
    pub(super) fn least_priority(&self, left: &Row) -> Option<i64> {
        let mut left = left.clone();
        if left.iter().zip(&self.sum).any(|(left, sum)| left > sum) {
            return None;
        }
        subtract(&mut left, &self.held);
        let mut least = i64::MIN;
        for (priority, free) in &self.by_priority {
            if is_nothing(&left) {
                break;
            }
            subtract(&mut left, free);
            least = *priority;
        }
        Some(least)
    }

    /// Returns the least number of victims that free `left`.
    pub(super) fn least_victims(&self, left: &Row) -> u32 {
        let mut least = 0;
        for (k, left) in left.iter().enumerate() {
            let left = left.saturating_sub(self.held[k]);
            if left > 0 {
                let largest = self.largest[k];
                least = least.max((left.saturating_add(largest - 1)) / largest.max(1));
            }
        }
        u32::try_from(least).unwrap_or(u32::MAX)
    }
}
