//! Scenarios in words, played against live actors in virtual time (see `script`).
#![allow(clippy::unwrap_used)]
// Expectations are written by `expect-test`, hashes and all.
#![allow(clippy::needless_raw_string_hashes)]

mod ear;
mod given;
mod histories;
mod judge;
mod script;
mod wire;
mod world;

mod applications;
mod ask_rows;
mod asks;
mod lifecycle;
mod releases;
mod validation;
mod waiting;
