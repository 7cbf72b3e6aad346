//! Who leads, and what the shim reads, with an API server that answers as a test wants it, in virtual time.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

mod groups;
mod histories;
mod label;
mod lease;
#[path = "../act/log.rs"]
mod log;
mod replicas;
mod stub;
