//! Reads of placement rules.

use super::SchedulerHandle;
use super::slices::ask;
use crate::api::outcomes::ReadError;
use crate::partition::surveys;
use crate::snapshot::ShownRule;

impl SchedulerHandle {
    /// The placement rules of a partition, in the order in which they are tried. The last one is internal, for
    /// applications that are already running.
    pub async fn placement_rules(&self, partition: &str) -> Result<Vec<ShownRule>, ReadError> {
        let entry = self.find(partition)?;
        ask(&entry, surveys::PlacementRules::new).await
    }
}
