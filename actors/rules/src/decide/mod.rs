//! What is to be done next, or why nothing is.

pub mod predicates;
pub mod quota_timer;
pub mod scale_up;
