//! Leader election and watches, against a server whose answers the test chooses, in virtual time.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

mod groups;
mod histories;
mod label;
mod lease;
#[path = "../act/log.rs"]
mod log;
mod replicas;
#[allow(dead_code)] // Some of it is for the benchmark alone.
#[path = "../../benches/cluster/stub.rs"]
mod server;
mod standby;
mod stub;
