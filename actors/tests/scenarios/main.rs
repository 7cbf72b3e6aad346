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
mod quotas;
mod refused_applications;
mod refused_asks;
mod refused_nodes;
mod releases;
mod scheduling;
mod sessions;
mod sorting;
mod waiting;
