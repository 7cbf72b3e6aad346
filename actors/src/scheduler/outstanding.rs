//! Reads of the requests that more machines would help.

use std::sync::Arc;

use monoceros_config as config;

use super::SchedulerHandle;
use super::slices::{first, next, whole};
use crate::api::outcomes::ReadError;
use crate::front::rosters::PartitionEntry;
use crate::partition::surveys::{Left, Outstanding, Rooms, ScaleUpList, WaitingFor};
use crate::snapshot::OutstandingRequest;

impl SchedulerHandle {
    /// The requests of an RM that more machines would help, in the order in which they would be placed, at most
    /// `limit`: in one partition, or in all. None in a partition that decides nothing at present. A request
    /// that is read here does not count as reported to the RM. Requests are read in slices, like a list, so
    /// two applications may show two moments.
    pub async fn outstanding_requests(
        &self,
        rm_id: &str,
        partition: Option<&str>,
        limit: usize,
    ) -> Result<Vec<OutstandingRequest>, ReadError> {
        let mut outstanding = Vec::new();
        for entry in self.partitions_of(rm_id, partition)? {
            let most = limit.saturating_sub(outstanding.len());
            outstanding.extend(of_partition(&entry, most).await?);
        }
        Ok(outstanding)
    }
}

async fn of_partition(
    entry: &PartitionEntry,
    most: usize,
) -> Result<Vec<OutstandingRequest>, ReadError> {
    let left = Arc::new(Left::of(whole(entry, Rooms, |row| row).await?.rows));
    let waiting = whole(entry, WaitingFor(Arc::clone(&left)), |row| row).await?.rows;
    let mut list = Outstanding::new(ScaleUpList::decide(&left, waiting));
    let mut slice = first(entry, list.clone(), None, usize::MAX).await?;
    let mut found = Vec::new();
    while let Some(sliced) = slice.take() {
        found.extend(sliced.rows.into_iter().flat_map(|row| row.requests));
        let Some(behind) = sliced.behind.filter(|_| found.len() < most) else { break };
        list = list.behind(behind.clone());
        slice = next(entry, list.clone(), behind, usize::MAX).await?;
    }
    found.truncate(most);
    let name = config::plain_name(&entry.name);
    for request in &mut found {
        name.clone_into(&mut request.partition);
    }
    Ok(found)
}
