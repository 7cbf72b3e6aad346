//! Work at the API server, against a server whose answers the test chooses, in virtual time.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

mod bindings;
mod conditions;
mod log;
mod server;
mod victims;
mod volumes;
