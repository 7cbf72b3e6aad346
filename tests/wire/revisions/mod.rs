//! Clients of every published revision of the Scheduler Interface against one running service.
//!
//! Nothing here uses the messages that the service is built from: each client is made of the
//! definitions of its own revision (`*.proto` beside this file), and speaks raw bytes. What each
//! revision calls what is in `docs/dialects.md`.

pub(crate) mod client;
mod golden;
mod story;
mod wire_legacy;
mod wire_split;
