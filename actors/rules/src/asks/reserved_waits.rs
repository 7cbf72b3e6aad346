//! The bound of a class whose ask has a node reserved.

use serde::{Deserialize, Serialize};

use crate::order::tree::Bound;
use crate::waiting::WaitSet;

/// The bound of a class whose ask has a node reserved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ReservedWaits {
    /// Whether its node has not been tried since the node or the ask changed.
    pub(super) own: bool,
    /// The bound on all other nodes.
    pub(super) elsewhere: WaitSet,
}

impl ReservedWaits {
    pub(super) fn of(waits: WaitSet) -> Self {
        Self { own: waits == WaitSet::Due, elsewhere: waits }
    }

    pub(super) fn elsewhere(&self) -> &WaitSet {
        &self.elsewhere
    }
}

impl Bound for ReservedWaits {
    fn join(&mut self, other: &Self) {
        self.own |= other.own;
        self.elsewhere.join(&other.elsewhere);
    }
}
