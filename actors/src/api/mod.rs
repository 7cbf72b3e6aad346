//! The side of the embedding API that a resource manager implements or receives: its callback,
//! notifications, predicates, resolvers of groups, and the errors and results of calls.
//!
//! # Invariants
//! * Nothing here knows a step, the front or an actor: the engine reports by these types.
//! * No type of actix is public, so that an embedder need not know how the scheduler is built.

pub mod allocations;
pub mod callback;
pub mod listing;
pub mod mirror;
pub(crate) mod outcomes;
pub mod predicates;
pub mod scale_up;
pub mod traces;
pub mod users;
