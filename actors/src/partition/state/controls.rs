//! Settings of the RM's control messages: whether decisions are on hold, and how predicates are
//! asked.

use crate::api::predicates::Predicates;
use serde::{Deserialize, Serialize};

/// The settings of the RM's control messages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::partition) struct Controls {
    /// Decisions are on hold.
    pub(in crate::partition) on_hold: bool,
    /// When the present hold began, ns since the epoch; stale while there is none.
    pub(in crate::partition) held_since_ns: i64,
    pub(in crate::partition) predicates: Predicates,
}

impl Controls {
    /// Whether decisions must wait until a hold is lifted.
    pub(in crate::partition) fn is_on_hold(&self) -> bool {
        self.on_hold || self.predicates == Predicates::Hold
    }

    /// Whether the RM is asked for predicates by questions, and not in the middle of a placement.
    pub(in crate::partition) fn asks_later(&self) -> bool {
        self.predicates != Predicates::Local
    }

    /// Whether the RM is also sent questions about places that are to be held for members of gangs.
    pub(in crate::partition) fn asks_about_holds(&self) -> bool {
        matches!(self.predicates, Predicates::Remote { holds: true, .. })
    }
}
