//! Images: the state of a resource manager as data, from which another scheduler goes on.
//!
//! An image is taken from a running scheduler ([`SchedulerHandle::image`](crate::SchedulerHandle::image))
//! and given to a new one ([`SchedulerHandle::restore`](crate::SchedulerHandle::restore)), in this
//! process or, written and read, in another. Whoever goes on from it decides what the running one
//! would have decided: nothing is tried on a scheduler that runs.

mod constraints;
mod kept_tags;
mod parts;
mod report;
mod work;

pub use self::kept_tags::KeptTags;
pub use self::parts::{ImagePart, ImageReader};
pub use self::report::Report;
pub use self::work::{
    ImagedApplication, ImagedNode, ImagedRequest, PendingRequest, RunningAllocation,
};
pub use crate::partition::PartitionImage;

use crate::api::mirror::Mirror;
use crate::api::outcomes::ConfigurationSnapshot;
use crate::run_times::RunTimesOf;

/// The state of a resource manager.
#[derive(Clone)]
pub struct ResourceManagerImage {
    /// The configuration in force. The extra part is as the resource manager sent it, with whatever
    /// secrets are in it.
    pub configuration: ConfigurationSnapshot,
    /// The partitions, in the order of their names. Each is of one step.
    pub partitions: Vec<PartitionImage>,
    /// How long allocations ran, for each partition in which any has ended.
    pub run_times: Vec<RunTimesOf>,
    /// What the predicates of the resource manager read, at the step of its default partition. `None` if it
    /// has no predicates in this process.
    pub mirror: Option<Mirror>,
}

impl ResourceManagerImage {
    /// The time of the latest step of its partitions, ns since the epoch. 0 without partitions.
    pub fn at_ns(&self) -> i64 {
        self.partitions.iter().map(|partition| partition.at_ns).max().unwrap_or(0)
    }
}

impl PartitionImage {
    /// The name, with the prefix of its resource manager.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time of its step, ns since the epoch.
    pub fn at_ns(&self) -> i64 {
        self.at_ns
    }

    /// The number of its step.
    pub fn step(&self) -> u64 {
        self.step
    }
}
