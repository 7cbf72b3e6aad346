//! State between two decisions, which decides nothing itself: placements that wait for an answer,
//! reserved nodes and the ages of asks that may reserve one, nominations of preemptors, and recent
//! evictions.

pub mod aging;
pub mod history;
pub mod nominations;
pub mod reservations;
pub mod unsettled;
