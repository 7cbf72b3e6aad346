//! The front: who is registered, each RM's requests in order, and all that it is told.
//!
//! # Why a room of its own
//! Everything here lives on one thread, beside no partition. What is slow or may panic (texts,
//! callbacks, the interface's messages) is done here, so that no decision waits for it.

mod answers;
pub mod fuzzing;
pub(crate) mod rm;
pub(crate) mod rm_proxy;
pub(crate) mod settings;
pub(crate) mod translate;
