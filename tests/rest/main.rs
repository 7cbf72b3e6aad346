//! What clients of other schedulers read over HTTP: every path with its body, as it was written for
//! them.
//!
//! Each test starts a service of its own, so that they can run side by side.
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod bodies;
mod decisions;
mod ended;
mod events;
mod lifecycles;
mod live_settings;
mod metrics;
mod paths;
mod scene;
mod streams;
