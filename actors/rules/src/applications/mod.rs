//! Applications: their life, their gangs, and what is kept of those that are over.
//!
//! These are plain structs so that the actor of an application can be told what changed instead of
//! finding out: each change returns what others must be told.

pub mod application;
pub mod application_state;
pub mod backoff;
pub mod ended;
pub mod gang;
mod gang_domains;
pub mod native;
pub mod resource_seconds;
pub mod run_limit;
mod undecided_gang;
