//! Reads of placement rules.

use super::SchedulerHandle;
use super::slices::ask;
use crate::api::outcomes::ReadError;
use crate::partition::surveys;
use crate::snapshot::ShownRule;

impl SchedulerHandle {
    /// The placement rules of a partition in the order they are asked; the internal one for
    /// applications that run already is last.
    pub async fn placement_rules(&self, partition: &str) -> Result<Vec<ShownRule>, ReadError> {
        let entry = self.find(partition)?;
        ask(&entry, surveys::PlacementRules::new).await
    }
}
