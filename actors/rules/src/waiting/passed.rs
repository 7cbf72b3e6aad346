//! The bound over asks that want more than the free capacity of all nodes together.
//!
//! Such an ask may reserve a node only after several consecutive growths ([`Growth`]: a node became
//! acceptable to some ask), each of a node that this ask may use, and each with too little left for
//! it. Each of these growths has *passed the ask by* ([`PassedBy`](crate::nodes::PassedBy)).

use serde::{Deserialize, Serialize};

use super::view::View;
use crate::values::epoch::Growth;
use crate::values::resources::Resources;

/// The bound over asks that are tried again when enough growths have passed them by, or when all
/// nodes together have enough free capacity for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// The component-wise least of their amounts.
    least: Resources,
    /// The component-wise largest of their amounts: capacity for this is capacity for each.
    most: Resources,
    /// The growth of the node index up to which all of them were tried; the oldest of the joined
    /// ones.
    at: Growth,
    /// The number of growths that have to pass them by; the smallest of the joined ones.
    times: u8,
}

impl Passed {
    /// Builds the bound of an ask that waits for `times` growths after `at`.
    pub(super) fn of(ask: &Resources, at: Growth, times: u8) -> Self {
        Self { least: ask.clone(), most: ask.clone(), at, times }
    }

    pub(super) fn may(&self, view: &View<'_>) -> bool {
        let Some(nodes) = view.nodes else { return false };
        view.headroom.allows(&self.least)
            && (nodes.is_free_in_all(&self.least)
                || nodes.may_be_passed_by(self.at, &self.least, &self.most, self.times))
    }

    fn join(&mut self, other: &Self) {
        self.least.lower_to(&other.least);
        self.most.raise_to(&other.most);
        self.at = self.at.min(other.at);
        self.times = self.times.min(other.times);
    }
}

/// Joins two of these bounds.
pub(super) fn join(mine: &mut Option<Box<Passed>>, other: Option<&Passed>) {
    match (mine, other) {
        (_, None) => {}
        (mine @ None, Some(theirs)) => *mine = Some(Box::new(theirs.clone())),
        (Some(mine), Some(theirs)) => mine.join(theirs),
    }
}
