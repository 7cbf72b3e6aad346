//! The parts of a replay in virtual time, whatever is replayed: a trace, or a snapshot.
//!
//! A replay drives the scheduler that runs in production, on a clock that jumps from event to
//! event. Its state machine is its own: `simulate` plays the pods of a trace. It finds here the
//! clock, the order of its events, and what its report is made of.
//!
//! Resources are named as the scheduler names them, since a snapshot may have any.
//!
//! Reading order: `virtual_time` and `agenda` (the replay), `grounds`, `series` and `waits`
//! (measures), `numbers`, `page`, `charts` and `folder` (output), `compare` (two replays).

pub(crate) mod agenda;
pub(crate) mod charts;
pub(crate) mod compare;
pub(crate) mod folder;
pub(crate) mod grounds;
pub(crate) mod numbers;
pub(crate) mod page;
pub(crate) mod series;
pub(crate) mod virtual_time;
pub(crate) mod waits;
