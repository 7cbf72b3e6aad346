//! A proposed configuration.

use monoceros_config::reload::QueueChange;
use tokio::time::Instant;

use crate::partition::input::PartitionDocument;

/// A configuration that was prepared and not yet concluded; the partition stands still meanwhile.
pub(in crate::partition) struct Proposal {
    pub(in crate::partition) wanted: Option<PartitionDocument>,
    pub(in crate::partition) changes: Vec<QueueChange>,
    /// Since when the partition has stood still.
    pub(in crate::partition) since: Instant,
}
