//! The shim with the real scheduler in virtual time, over a simulated cluster.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

mod applications;
mod chaos;
mod conditions;
mod forks;
mod gangs;
mod groups;
mod hold_again;
mod jobs;
mod life;
mod nodes;
mod preferences;
mod reasons;
mod refused;
mod rules;
mod side;
mod standby;
mod victims;
mod world;
