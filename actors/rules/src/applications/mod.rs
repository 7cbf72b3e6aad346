//! Applications: their states, their gangs, and the records of ended ones.
//!
//! These are plain structs: each change returns the facts of which others must be notified, so that
//! the actor of an application need not find them.

pub mod application;
pub mod application_state;
pub mod backoff;
pub mod blocked;
pub mod ended;
pub mod gang;
mod gang_domains;
mod gang_starts;
pub mod native;
mod owed;
mod placeholders;
pub mod release;
pub mod removal;
pub mod reported;
pub mod resource_seconds;
pub mod run_limit;
mod sort_key;
mod undecided_gang;
mod written;
