//! A proposed configuration.

use monoceros_config::reload::QueueChange;
use tokio::time::Instant;

use crate::partition::input::PartitionDocument;

/// A configuration that was prepared and not yet concluded. The partition halts until then.
pub(in crate::partition) struct Proposal {
    pub(in crate::partition) wanted: Option<PartitionDocument>,
    pub(in crate::partition) changes: Vec<QueueChange>,
    /// The time since when the partition has halted.
    pub(in crate::partition) since: Instant,
}
