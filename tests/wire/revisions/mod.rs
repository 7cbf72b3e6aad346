//! Clients of every published revision of the Scheduler Interface with one running service.
//!
//! These tests do not use the service's own message types: each client is built from the
//! definitions of its revision (`*.proto` next to this file) and sends raw bytes.
//! `docs/dialects.md` lists the names of each revision.

pub(crate) mod client;
mod golden;
mod story;
mod wire_legacy;
mod wire_split;
