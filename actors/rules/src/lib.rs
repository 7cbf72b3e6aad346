//! What the scheduler decides, as plain functions over plain structs.
//!
//! Nothing in this crate knows an actor, a clock, a socket or a lock: time and chance come in as
//! arguments, and the same input gives the same answer on every machine. The actors of
//! `monoceros-actors` own the state and call these rules.
//!
//! Reading order: [`resources`], [`quantity`], [`duration`], [`config`].

pub mod resources;

pub mod quantity;

pub mod duration;

pub mod config;
