//! What is asked for, as plain data: asks, declarations of gangs, the owners of applications, and
//! the reasons to reject.
//!
//! Nothing here knows what became of an ask. What an application has of it is in
//! `asks`, what was allocated for it in [`allocations`](crate::allocations).

pub mod arrival;
pub mod ask;
pub mod constraint;
pub mod declaration;
pub mod hold_again;
pub mod identity;
pub mod quotas;
pub mod rejection;
pub mod tags;
