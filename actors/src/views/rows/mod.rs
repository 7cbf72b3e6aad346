//! Rows of the lists of a partition: data read from actors, from which the snapshots for clients
//! are made.
//!
//! # Why not snapshots at once
//! A snapshot is text: a hundred small heap allocations for a node with ten allocations. Making one
//! on the thread of the partition would delay decisions. A row shares the specifications and names
//! that the scheduler shares itself, so reading one is cheap; the reader's thread makes the snapshot.
//!
//! # Invariants
//! * A row does not change after it was read. It shows one moment; a row that is so long that it is
//!   read in parts shows one moment in each part.
//! * An object that exists the whole time while a row is read in parts is in exactly one part. Asks
//!   come first, and the list of allocations is made after the last ask: so an ask that is placed
//!   during the reading is not lost, and if it was read as pending, it does not count as pending
//!   any more.

mod allocations;
mod applications;
mod ended;
mod nodes;
mod parts;
mod queues;

pub(crate) use allocations::AllocationRow;
pub(crate) use applications::{ApplicationProgress, ApplicationRow, AskRow};
pub(crate) use ended::EndedRow;
pub(crate) use nodes::{NodeProgress, NodeRow};
pub(crate) use parts::{parts_of_group, parts_of_user};
pub(crate) use queues::QueueRow;
