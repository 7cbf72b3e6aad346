//! Pending asks that may reserve a node once growths have passed them by: asks for more than all
//! nodes have left together ([`PassedBy`](crate::nodes::PassedBy)).

use super::view::View;
use crate::values::epoch::Growth;
use crate::values::resources::Resources;

/// The bound over asks that are tried again when growths have passed them by, or when all nodes
/// together have enough left for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// The component-wise least of their amounts.
    least: Resources,
    /// The component-wise most of them: capacity for this is capacity for each.
    most: Resources,
    /// The growth of the node index up to which all of them were tried; the oldest of what was
    /// joined.
    at: Growth,
    /// The number of growths that have to leave no room; the fewest of what was joined.
    times: u8,
}

impl Passed {
    /// Builds the bound of an ask that waits for this many growths after this one.
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

/// Joins two bounds of such asks.
pub(super) fn join(mine: &mut Option<Box<Passed>>, other: Option<&Passed>) {
    match (mine, other) {
        (_, None) => {}
        (mine @ None, Some(theirs)) => *mine = Some(Box::new(theirs.clone())),
        (Some(mine), Some(theirs)) => mine.join(theirs),
    }
}
