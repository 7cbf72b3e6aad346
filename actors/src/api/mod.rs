//! What an embedder sees: the handle of a scheduler, what an RM implements, what controls its
//! session, its questions and answers, and the resolvers of groups. No type of actix is among it,
//! so that an embedder does not have to know how the scheduler is built.

pub mod callback;
pub mod control;
pub mod journeys;
pub mod listing;
pub(crate) mod outcomes;
pub mod predicates;
pub mod scheduler;
pub mod told;
pub mod users;
pub mod wanting;
