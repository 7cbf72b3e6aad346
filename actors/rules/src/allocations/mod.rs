//! The allocations of a partition, and placements that are still to become allocations.
//!
//! They are below the node index, which counts them for placement constraints, and below the asks
//! that they are made of.

mod allocation;
pub mod course;
mod grounds;
mod table;

pub use allocation::{Allocation, Circumstances, Elsewhere, Leaving, Pairing};
pub use grounds::Grounds;
pub use table::AllocationTable;
