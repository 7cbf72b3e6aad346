//! Applications, what they ask for and what they hold, and why any of it is refused.
//!
//! These are plain structs so that the actor of an application can be told what changed instead of
//! finding out: each change returns what others must be told.

pub mod allocations;
pub mod application;
pub mod application_state;
pub mod asks;
pub mod backoff;
pub mod constraint;
pub mod declaration;
pub mod ended;
pub mod gang;
pub mod hold_again;
pub mod identity;
pub mod journey;
pub mod native;
pub mod quotas;
pub mod rejection;
pub mod resource_seconds;
pub mod run_limit;
pub mod starts;
pub mod tags;
