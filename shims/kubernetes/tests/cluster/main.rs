//! The shim with the real scheduler, in virtual time, over a cluster that is only a table.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

mod chaos;
mod gangs;
mod groups;
mod held_again;
mod jobs;
mod life;
mod preferring;
mod reasons;
mod refused;
mod rules;
mod side;
mod telling;
mod world;
