//! Whether the scheduler is sound, and how its nodes are used: both read off all partitions.

use std::time::Duration;

use monoceros_config as config;
use monoceros_rules::values::resources::Resources;
use tokio::time::timeout;

use super::SchedulerHandle;
use super::slices::{ask, whole};
use crate::api::outcomes::ReadError;
use crate::front::rosters::PartitionEntry;
use crate::partition::surveys;
use crate::snapshot::{HealthSnapshot, NodeUtilizationSnapshot};
use crate::views::health::{Findings, health};
use crate::views::utilization::utilizations;

/// How long a partition is waited for that may hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the nodes are summed up before a sum that is not that of the partition is believed: a
/// node may come or go while they are read.
const SUMMED: usize = 3;

impl SchedulerHandle {
    /// Looks whether what was counted and accounted is sound. All nodes and applications are
    /// visited, in slices, between which decisions go on. What is not told by a partition within ten
    /// seconds is not judged.
    pub async fn check_health(&self) -> HealthSnapshot {
        let mut found = Findings {
            errors: self.metrics.attempts.errors.get(),
            failed_nodes: self.metrics.nodes.failed.get(),
            ..Findings::default()
        };
        for entry in self.partition_entries() {
            let _ = timeout(PATIENCE, look_over(&entry, &mut found)).await;
        }
        health(&found)
    }

    /// How many applications run, and how many allocations there are, placeholders included, in all
    /// partitions. Each partition is asked for a number that it has at hand.
    pub async fn running(&self) -> (i64, usize) {
        let mut allocations = 0;
        for entry in self.partition_entries() {
            let sums = ask(&entry, surveys::Sums::new).await;
            allocations += sums.map_or(0, |sums| sums.n_allocations);
        }
        (self.metrics.running_applications(), allocations)
    }

    /// The nodes of each partition by how much of them is allocated, in the order of
    /// [`Self::partitions`].
    pub async fn node_utilizations(&self) -> Vec<NodeUtilizationSnapshot> {
        let mut all = Vec::new();
        for entry in self.partition_entries() {
            let Ok(read) = whole(&entry, surveys::NodeLoads, |load| load).await else {
                continue;
            };
            let nodes = read.rows.iter().map(|load| (&load.id, &load.total, &load.allocated));
            all.push(NodeUtilizationSnapshot {
                cluster_id: entry.rm_id.to_string(),
                partition: config::plain_name(&entry.name).to_owned(),
                utilizations: utilizations(nodes),
            });
        }
        all
    }
}

/// Adds what is found in a partition. Of one that goes meanwhile, what was found so far.
async fn look_over(entry: &PartitionEntry, found: &mut Findings) -> Result<(), ReadError> {
    let name = || entry.name.to_string();
    let sums = ask(entry, surveys::Sums::new).await?;
    for amount in [&sums.allocated, &sums.total] {
        if amount.has_negative() {
            found.negative_partitions.push(name());
        }
    }
    found.reserved.push(sums.n_reservations as f64 / sums.n_nodes as f64);
    let nodes = whole(entry, surveys::CheckedNodes, |node| node).await?.rows;
    let mut sum = Resources::new();
    for node in nodes {
        sum.add(&node.total);
        let times = std::iter::repeat_n(node.id.to_string(), node.n_negative);
        found.negative_nodes.extend(times);
        found.negative_used += usize::from(node.uses_negative);
        if !node.is_even {
            found.uneven_nodes.push(node.id.to_string());
        }
        found.orphans_on_nodes.extend(node.orphans);
    }
    if !sum.same_amount(&sums.total) && is_uneven(entry).await? {
        found.uneven_partitions.push(name());
    }
    let applications = whole(entry, surveys::CheckedApplications, |row| row.orphans).await?;
    found.orphans_of_applications.extend(applications.rows.into_iter().flatten());
    Ok(())
}

/// Whether the nodes have another sum than the partition, however often they are summed up.
async fn is_uneven(entry: &PartitionEntry) -> Result<bool, ReadError> {
    for _ in 0..SUMMED {
        let before = ask(entry, surveys::Sums::new).await?.total;
        let loads = whole(entry, surveys::NodeLoads, |load| load.total).await?.rows;
        let after = ask(entry, surveys::Sums::new).await?.total;
        let mut sum = Resources::new();
        for total in &loads {
            sum.add(total);
        }
        if !before.same_amount(&after) || sum.same_amount(&after) {
            return Ok(false);
        }
    }
    Ok(true)
}
