//! The workers with an API server that answers as a test wants it, in virtual time.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

mod bindings;
mod log;
mod server;
mod telling;
mod victims;
mod volumes;
