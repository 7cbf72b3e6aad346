//! What an embedder sees: the handle of a scheduler, what an RM implements, what controls its
//! session, its questions and answers, and who is asked for groups.

pub mod callback;
pub mod control;
pub(crate) mod outcomes;
pub mod predicates;
pub mod scheduler;
pub mod users;
