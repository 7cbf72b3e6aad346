//! Tools of an operator: command line, admin and metrics services, HTTP endpoints, configuration
//! files, users, and encryption.
//!
//! Each test starts its own service, so that tests can run in parallel.
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod admin;
mod attached;
mod cli;
mod command_line;
mod config_endpoints;
mod configuration;
mod crowds;
mod deregistration;
mod ended;
mod explain;
mod logs;
mod metrics_service;
mod paths;
mod reading;
mod reasons;
mod rights;
mod run_times;
#[cfg(feature = "simulator")]
mod simulate;
mod snapshots;
mod systemd;
mod tls;
mod traces;
mod usage;
mod users;
mod watchdog;
mod watching;
