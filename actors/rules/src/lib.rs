//! What the scheduler decides, as plain functions over plain structs.
//!
//! Nothing in this crate knows an actor, a clock, a socket or a lock: time and chance come in as
//! arguments, and the same input gives the same answer on every machine. The actors of
//! `monoceros-actors` own the state and call these rules.
//!
//! Reading order: [`resources`] and [`shares`]; how things are ordered ([`ordered`], [`order`]); what
//! is held where ([`ledger`], [`nodes`], [`allocations`], [`unsettled`], [`books`]); what waits
//! ([`asks`], [`waits`], [`application`], [`application_state`]); who owns what ([`identity`], [`names`]) and
//! uses how much ([`limits`]); what the operator writes ([`config`]) and changes ([`reload`],
//! [`difference`], [`object_state`]).

pub mod allocations;
pub mod application;
pub mod application_state;
pub mod asks;
pub mod audit;
pub mod books;
pub mod config;
pub mod difference;
pub mod duration;
pub mod identity;
pub mod instant;
pub mod ledger;
pub mod limits;
pub mod names;
pub mod nodes;
pub mod object_state;
pub mod order;
pub mod ordered;
pub mod placement;
pub mod quantity;
pub mod quota_timer;
pub mod rejection;
pub mod reload;
pub mod resources;
pub mod scale_up;
pub mod shares;
pub mod unsettled;
pub mod utilization;
pub mod waits;
