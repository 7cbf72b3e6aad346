//! The REST interface of other schedulers' clients: every path with its body.
//!
//! Each test starts its own service, so that tests can run in parallel.
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod bodies;
mod decisions;
mod ended;
mod events;
mod history;
mod lifecycles;
mod live_settings;
mod metrics;
mod paths;
mod scene;
mod streams;
