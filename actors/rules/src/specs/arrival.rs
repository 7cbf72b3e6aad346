//! When an ask arrived, of an ask whose placements are followed: the part of the way that all of them
//! have in common. The rest is noted by each placement
//! ([`Course`](crate::allocations::journey::Course)).

/// The first part of the way, which all placements of an ask have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the request with the ask was read, ns since the epoch.
    pub received_ns: i64,
    /// When the partition took the ask in, ns since the epoch; the arrival until it has.
    pub entered_ns: i64,
}

impl Arrival {
    /// An ask that was received then, and goes to its partition.
    pub fn at(received_ns: i64) -> Self {
        Self { received_ns, entered_ns: received_ns }
    }
}
