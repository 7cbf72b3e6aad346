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
mod asks;
mod failures;
mod nodes;
mod priorities;
mod queues;
mod releases;
mod scheduling;
mod sessions;
mod validation;
mod waiting;
