//! Reads of lists and single objects. Snapshots are made of the rows here, on the caller's thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::limits::{GroupUsage, UserUsage};

use super::SchedulerHandle;
use super::slices::{ask, by_name, slices, whole};
use crate::api::listing::{ApplicationFilter, ApplicationList, Listed, Page, Steps};
use crate::api::outcomes::ReadError;
use crate::front::rosters::PartitionEntry;
use crate::partition::surveys::{self, NodeLoad};
use crate::snapshot::{
    ApplicationSnapshot, GroupSnapshot, NodeSnapshot, QueueSnapshot, UserSnapshot,
};
use crate::views;
use crate::views::rows::{ApplicationRow, EndedRow, QueueRow};

impl SchedulerHandle {
    /// The number of the last step of a partition that may have changed anything, once the
    /// partition has handled all that it had received; both as the first and as the last step.
    pub async fn steps(&self, partition: &str) -> Result<Steps, ReadError> {
        let entry = self.find(partition)?;
        let (partition, step) = ask(&entry, surveys::StepNow::new).await?;
        Ok(Steps { partition, first: step, last: step })
    }

    /// The whole queue tree of a partition, named plainly (the first of that name) or with its RM
    /// (`[rm]name`).
    pub async fn queues(&self, partition: &str) -> Result<QueueSnapshot, ReadError> {
        let (tree, _) = self.queue_tree(partition, None).await?;
        tree.ok_or_else(|| ReadError::PartitionNotFound(partition.to_owned()))
    }

    /// The queues of a partition from root on, and the steps of the read: all queues, or one with its ancestors
    /// and descendants. `None`: there is no such queue. A tree of up to 512 queues shows one moment; in a
    /// larger one, each queue does.
    pub async fn queue_tree(
        &self,
        partition: &str,
        around: Option<&str>,
    ) -> Result<(Option<QueueSnapshot>, Steps), ReadError> {
        let entry = self.find(partition)?;
        let list = surveys::Queues { around: around.map(Arc::from) };
        let read = whole(&entry, list, |row| row).await?;
        Ok((tree(&entry, read.rows), read.steps))
    }

    /// Every node of a partition, by id.
    pub async fn nodes(&self, partition: &str) -> Result<Vec<NodeSnapshot>, ReadError> {
        Ok(self.list_nodes(partition, &BTreeSet::new(), Page::default()).await?.rows)
    }

    /// Nodes of a partition by id: those with these ids, or all if there are none.
    pub async fn list_nodes(
        &self,
        partition: &str,
        named: &BTreeSet<String>,
        page: Page,
    ) -> Result<Listed<NodeSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let list = surveys::Nodes::new(named.clone(), page.brief);
        Ok(by_name(&entry, list, page, views::node).await?.unwrap_or_default())
    }

    /// The node with this id.
    pub async fn node(&self, partition: &str, id: &str) -> Result<Option<NodeSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let list = surveys::Nodes::new([id.to_owned()].into(), false);
        Ok(whole(&entry, list, views::node).await?.rows.pop())
    }

    /// The capacity of every node of a partition, and the part of it that is allocated, by id.
    pub async fn node_loads(&self, partition: &str) -> Result<Vec<NodeLoad>, ReadError> {
        let entry = self.find(partition)?;
        Ok(whole(&entry, surveys::NodeLoads, |load| load).await?.rows)
    }

    /// The applications of a leaf, by id; none for a parent.
    pub async fn applications(
        &self,
        partition: &str,
        queue: &str,
    ) -> Result<Vec<ApplicationSnapshot>, ReadError> {
        let list = ApplicationList::Live(ApplicationFilter::in_queue(queue));
        Ok(self.list_applications(partition, list, Page::default()).await?.rows)
    }

    /// The applications of all leaves of a partition, by id.
    pub async fn all_applications(
        &self,
        partition: &str,
    ) -> Result<Vec<ApplicationSnapshot>, ReadError> {
        let list = ApplicationList::Live(ApplicationFilter::default());
        Ok(self.list_applications(partition, list, Page::default()).await?.rows)
    }

    /// The kept applications of a partition that have ended
    /// (`docs/applications.md#what-is-kept-of-an-application-that-is-over`), oldest end first. An id may occur
    /// more than once.
    pub async fn completed_applications(
        &self,
        partition: &str,
    ) -> Result<Vec<ApplicationSnapshot>, ReadError> {
        let list = ApplicationList::Completed(ApplicationFilter::default());
        Ok(self.list_applications(partition, list, Page::default()).await?.rows)
    }

    /// The kept applications that a partition rejected, oldest rejection first.
    pub async fn rejected_applications(
        &self,
        partition: &str,
    ) -> Result<Vec<ApplicationSnapshot>, ReadError> {
        let list = ApplicationList::Rejected(ApplicationFilter::default());
        Ok(self.list_applications(partition, list, Page::default()).await?.rows)
    }

    /// A page of one of the lists of applications.
    ///
    /// # Errors
    /// [`ReadError::QueueNotFound`] for an unknown queue in the filter, and
    /// [`ReadError::NotAPlace`] if the page of a numbered list is to begin after a text that is no
    /// number.
    pub async fn list_applications(
        &self,
        partition: &str,
        list: ApplicationList,
        page: Page,
    ) -> Result<Listed<ApplicationSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let (over, filter) = match list {
            ApplicationList::Live(filter) => {
                let queue = filter.queue.clone().unwrap_or_default();
                let list = surveys::Applications::new(filter, page.brief);
                let shown = |row: ApplicationRow| views::application(&row);
                let read = by_name(&entry, list, page, shown).await?;
                return read.ok_or(ReadError::QueueNotFound(queue));
            }
            ApplicationList::Completed(filter) => (surveys::Over::Terminated, filter),
            ApplicationList::Ended(filter) => (surveys::Over::Any, filter),
            ApplicationList::Rejected(filter) => (surveys::Over::Rejected, filter),
        };
        let number = |text: String| text.parse().map_err(|_| ReadError::NotAPlace(text));
        let after = page.after.map(number).transpose()?;
        let list = surveys::EndedApplications::new(over, filter, page.newest_first);
        let shown = |row: EndedRow| views::ended(&row);
        let read = slices(&entry, list, after, page.limit, shown).await?;
        let (rows, next, steps) = read.unwrap_or_default();
        Ok(Listed { rows, next: next.map(|number| number.to_string()), steps })
    }

    /// The live application with this id; `None` if it does not exist or has ended.
    pub async fn application(
        &self,
        partition: &str,
        id: &str,
    ) -> Result<Option<ApplicationSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let ids = [id.to_owned()].into();
        let filter = ApplicationFilter { ids, ..Default::default() };
        let list = surveys::Applications::new(filter, false);
        let shown = |row: ApplicationRow| views::application(&row);
        Ok(whole(&entry, list, shown).await?.rows.pop())
    }

    /// The usage of every tracked user of a partition, by name.
    pub async fn users(&self, partition: &str) -> Result<Vec<UserSnapshot>, ReadError> {
        Ok(self.list_users(partition, Page::default()).await?.rows)
    }

    /// A page of the usage of tracked users of a partition, by name.
    pub async fn list_users(
        &self,
        partition: &str,
        page: Page,
    ) -> Result<Listed<UserSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let shown = |usage: UserUsage| views::usage::user(usage);
        Ok(by_name(&entry, surveys::Users, page, shown).await?.unwrap_or_default())
    }

    /// The usage of a tracked user in a partition.
    pub async fn user(
        &self,
        partition: &str,
        name: &str,
    ) -> Result<Option<UserSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let found = ask(&entry, |reply| surveys::OneUser::new(name.to_owned(), reply)).await?;
        Ok(found.map(views::usage::user))
    }

    /// The usage of every tracked group of a partition, by name.
    pub async fn groups(&self, partition: &str) -> Result<Vec<GroupSnapshot>, ReadError> {
        Ok(self.list_groups(partition, Page::default()).await?.rows)
    }

    /// A page of the usage of tracked groups of a partition, by name.
    pub async fn list_groups(
        &self,
        partition: &str,
        page: Page,
    ) -> Result<Listed<GroupSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let shown = |usage: GroupUsage| views::usage::group(usage);
        Ok(by_name(&entry, surveys::Groups, page, shown).await?.unwrap_or_default())
    }

    /// The usage of a tracked group in a partition.
    pub async fn group(
        &self,
        partition: &str,
        name: &str,
    ) -> Result<Option<GroupSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let found = ask(&entry, |reply| surveys::OneGroup::new(name.to_owned(), reply)).await?;
        Ok(found.map(views::usage::group))
    }
}

/// Returns the tree of the queues in these rows; `None` without root.
pub(super) fn tree(entry: &PartitionEntry, rows: Vec<QueueRow>) -> Option<QueueSnapshot> {
    views::tree(rows, &entry.name)
}
