//! State between two decisions, which decides nothing itself: placements that wait for an answer,
//! reserved nodes, nominations of preemptors, and recent evictions.

pub mod history;
pub mod promises;
pub mod reservations;
pub mod unsettled;
