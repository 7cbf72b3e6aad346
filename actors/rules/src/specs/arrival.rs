//! The arrival of a traced ask: the times that all its placements have in common. Each placement
//! adds its own ([`Course`](crate::allocations::course::Course)).

/// The first times of a trace, which all placements of an ask have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the request with the ask was read, ns since the epoch.
    pub received_ns: i64,
    /// When the partition took the ask in, ns since the epoch; the arrival until it has.
    pub entered_ns: i64,
}

impl Arrival {
    /// Builds the arrival of an ask that was received then, and goes to its partition.
    pub fn at(received_ns: i64) -> Self {
        Self { received_ns, entered_ns: received_ns }
    }
}
