//! State between two decisions, without any decision: placements that wait for an answer, reserved
//! nodes, the ages of asks that may reserve a node, nominations of preemptors, and recent
//! evictions.

pub mod aging;
pub mod history;
pub mod nominations;
pub mod reservations;
pub mod unsettled;
