//! The Monoceros service: the edges around the scheduler of `monoceros-actors`.
//!
//! An edge translates requests and passes them on. It makes no scheduling decision, so that a
//! program which embeds the scheduler without any edge gets the same decisions.
//!
//! Reading order: [`cli`], [`input`], [`settings`], [`logging`], [`serve`], [`queues_file`], [`users`],
//! [`security`], [`files`], [`tls`], [`connections`], [`identity`], [`extra_config`], [`grpc`], [`cluster`],
//! [`reads`], [`logbook`], [`live_settings`], `state_dir`, [`run_times`], [`rest`], [`dump`], [`chance`],
//! [`demo`], `replay`, `simulate`, `whatif`, [`watchdog`], [`systemd`].
//!
//! Three features, on by default, can be left out: `cluster` (members of a cluster), `ldap` (groups from a
//! directory) and `simulator` (the commands `simulate` and `whatif`).

pub mod chance;
pub mod cli;
mod clock;
pub mod cluster;
pub mod connections;
pub mod demo;
pub mod dump;
pub mod extra_config;
pub mod files;
pub mod grpc;
pub mod identity;
pub mod in_force;
pub mod input;
pub mod live_settings;
mod locked;
pub mod logbook;
pub mod logging;
pub mod queues_file;
pub mod reads;
#[cfg(feature = "simulator")]
mod replay;
pub mod rest;
pub mod run_times;
pub mod secrets;
pub mod security;
pub mod serve;
pub mod settings;
#[cfg(feature = "simulator")]
pub mod simulate;
pub mod snapshot;
mod state_dir;
pub mod systemd;
pub mod tls;
pub mod traces;
pub mod usage;
pub mod users;
pub mod validate;
pub mod watchdog;
#[cfg(feature = "simulator")]
pub mod whatif;

/// The example of the page about gRPC, so that it keeps compiling.
#[cfg(doctest)]
#[doc = include_str!("../docs/grpc.md")]
struct GrpcPage;
