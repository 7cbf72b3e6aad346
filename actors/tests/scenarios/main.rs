//! Scenarios in words, played against live actors in virtual time (see `script`).
#![allow(clippy::unwrap_used)]

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
