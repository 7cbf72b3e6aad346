//! gRPC from the resource manager's side: sessions and streams, valid and invalid requests, every
//! published revision of the Scheduler Interface, and the callback stream of a shim.
//!
//! Each test starts its own service, so tests can run in parallel.
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../../fuzz/src/raw.rs"]
mod raw;

mod abuse;
mod attach;
mod bursts;
mod declared_gangs;
mod decoding;
mod foreign;
mod gangs;
mod numbered;
mod quotas;
mod redelivery;
mod rejections;
mod revisions;
mod scheduling;
mod sessions;
mod streams;
mod validation;
