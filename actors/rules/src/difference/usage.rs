//! What is in use, as far as somebody knows it.

use std::collections::BTreeMap;

use crate::resources::Resources;

/// By the name of the partition, without the brackets of its RM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What is in use in each.
    pub partitions: BTreeMap<String, PartitionUsage>,
}

/// What is in use in a partition. Whoever is not in here uses nothing, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionUsage {
    /// By path.
    pub queues: BTreeMap<String, Used>,
    /// By path, then by user.
    pub users: BTreeMap<String, BTreeMap<String, Used>>,
    /// By path, then by group.
    pub groups: BTreeMap<String, BTreeMap<String, Used>>,
}

/// What a queue, or somebody in a queue, uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// What allocations hold.
    pub allocated: Resources,
    /// Applications that run.
    pub running: u64,
}
