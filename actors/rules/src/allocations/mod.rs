//! The allocations of a partition, and placements that are still to become allocations.
//!
//! This module is below the node index, which counts allocations for placement constraints, and
//! below the asks from which allocations are made.

mod allocation;
pub mod course;
mod grounds;
mod table;

pub use allocation::{Allocation, Circumstances, Elsewhere, Leaving, Pairing};
pub use grounds::Grounds;
pub use table::AllocationTable;
