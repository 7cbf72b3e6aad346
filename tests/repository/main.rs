//! What comes with the service in this repository does as it says: the manual, the examples in Rust
//! and Python, the stubs that others make, and the body of the fuzz targets.
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod burst;
mod docs;
mod examples;
mod fuzzing;
mod python;
mod stubs;
