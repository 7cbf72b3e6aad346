//! What is asked for, as plain data: asks and the declarations of gangs as their RM sent them, who
//! asks, and why something is refused.
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
