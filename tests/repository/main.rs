//! Everything else in this repository: the manual, the examples in Rust and Python, generated
//! stubs, packages and monitoring, the bodies of the fuzz targets, and the dependencies.
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod burst;
mod commands;
mod dependencies;
mod docs;
mod examples;
mod fuzzing;
mod logs;
mod packages;
mod python;
mod rooms;
mod stubs;
