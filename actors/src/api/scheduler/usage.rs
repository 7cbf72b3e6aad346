//! Reads of placement rules, and of what users and groups use.

use super::{SchedulerHandle, ask};
use crate::api::outcomes::ReadError;
use crate::partition::surveys;
use crate::snapshot::{GroupSnapshot, ShownRule, UserSnapshot};

impl SchedulerHandle {
    /// The placement rules of a partition in the order they are asked; the internal one for
    /// applications that run already is last.
    pub async fn placement_rules(&self, partition: &str) -> Result<Vec<ShownRule>, ReadError> {
        let entry = self.find(partition)?;
        ask(&entry, surveys::PlacementRules::new).await
    }

    /// What every user who is tracked uses of a partition, by name.
    pub async fn users(&self, partition: &str) -> Result<Vec<UserSnapshot>, ReadError> {
        self.read_users(partition, None).await
    }

    /// What one user uses of a partition, if tracked.
    pub async fn user(
        &self,
        partition: &str,
        name: &str,
    ) -> Result<Option<UserSnapshot>, ReadError> {
        Ok(self.read_users(partition, Some(name)).await?.pop())
    }

    async fn read_users(
        &self,
        partition: &str,
        only: Option<&str>,
    ) -> Result<Vec<UserSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        ask(&entry, |reply| surveys::Users::new(only.map(str::to_owned), reply)).await
    }

    /// What every group that is tracked uses of a partition, by name.
    pub async fn groups(&self, partition: &str) -> Result<Vec<GroupSnapshot>, ReadError> {
        self.read_groups(partition, None).await
    }

    /// What one group uses of a partition, if tracked.
    pub async fn group(
        &self,
        partition: &str,
        name: &str,
    ) -> Result<Option<GroupSnapshot>, ReadError> {
        Ok(self.read_groups(partition, Some(name)).await?.pop())
    }

    async fn read_groups(
        &self,
        partition: &str,
        only: Option<&str>,
    ) -> Result<Vec<GroupSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        ask(&entry, |reply| surveys::Groups::new(only.map(str::to_owned), reply)).await
    }
}
