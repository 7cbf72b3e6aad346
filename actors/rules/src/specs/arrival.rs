//! The arrival of a traced ask: the times that all its placements share. Each placement adds its
//! own times ([`Course`](crate::allocations::course::Course)).

use serde::{Deserialize, Serialize};

/// The first times of a trace, which all placements of an ask share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The time at which the request with the ask was read, ns since the epoch.
    pub received_ns: i64,
    /// The time at which the partition took the ask in, ns since the epoch. Until then, equal to
    /// `received_ns`.
    pub entered_ns: i64,
}

impl Arrival {
    /// Builds the arrival of an ask that was received at this time, and is not yet in its
    /// partition.
    pub fn at(received_ns: i64) -> Self {
        Self { received_ns, entered_ns: received_ns }
    }
}
