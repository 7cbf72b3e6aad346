//! Messages between a partition and the session of its resource manager.
//!
//! A partition collects [`Notice`]s on its baton, hands them to its [`Outlet`] when a step is
//! complete, and the outlet sends them to the session by the [`SessionLink`]. A [`Barrier`] passes
//! through all partitions of a session and shows that everything before it was delivered.
//!
//! # Why a module of its own
//! Partitions send these messages and the front receives them. They stand below both, so that no
//! partition depends on the front.

mod barrier;
mod link;
mod notice;
mod outlet;

pub(crate) use barrier::{Barrier, BarrierPassed};
pub(crate) use link::{Delivery, HeldNow, PartitionClosed, PartitionLost, Prepared, SessionLink};
pub(crate) use notice::{Notice, gather};
pub(crate) use outlet::{BATCH, Outlet};
