//! What comes with the service in this repository does as it says: the manual, the examples in Rust
//! and Python, the stubs that others make, what it is installed and watched with, the body of the fuzz
//! targets; and what all of it is built from is what may be used.
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
mod stubs;
