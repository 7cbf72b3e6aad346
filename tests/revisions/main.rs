//! Clients of every published revision of the Scheduler Interface against one running service.
//!
//! Nothing here uses the messages that the service is built from: each client is made of the
//! definitions of its own revision (`*.proto` beside this file), and speaks raw bytes. Cases are
//! those of the scheduler-interface chapter, 1.13 (W…) and 6.4 (R1).
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod client;
mod golden;
mod story;
mod wire_legacy;
mod wire_split;
