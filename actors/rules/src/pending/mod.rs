//! What is pending between two decisions, as state without decisions: placements that wait for an
//! answer, nodes that asks have reserved, what preemptors were promised, and who lost what lately.

pub mod history;
pub mod promises;
pub mod reservations;
pub mod unsettled;
