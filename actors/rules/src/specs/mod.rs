//! Specifications, as plain data: asks, declarations of gangs, the owners of applications, and the
//! reasons to reject.
//!
//! Nothing here has the state of an ask: the asks of an application are in `asks`, and allocations
//! in [`allocations`](crate::allocations).

pub mod arrival;
pub mod ask;
pub mod constraint;
pub mod declaration;
pub mod hold_again;
pub mod identity;
pub mod quotas;
pub mod rejection;
mod rejection_cure;
pub mod release;
pub mod tags;
