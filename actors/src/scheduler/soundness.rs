//! Health checks of the accounting, and the utilization of nodes, read off all partitions.

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

/// The timeout for a partition that may hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of times that nodes are summed up before a difference to the sum of the partition counts: nodes may be added or
/// removed while they are read.
const SUMMED: usize = 3;

impl SchedulerHandle {
    /// Checks the accounting of the scheduler. All nodes and applications are visited in slices, between which
    /// decisions go on. Only facts that a partition reports within ten seconds are checked.
    pub async fn check_health(&self) -> HealthSnapshot {
        let mut found = Findings {
            errors: self.metrics.attempts.errors.get(),
            failed_nodes: self.metrics.nodes.failed.get(),
            ..Findings::default()
        };
        for entry in self.partition_entries() {
            let _ = timeout(PATIENCE, check(&entry, &mut found)).await;
        }
        health(&found)
    }

    /// The numbers of running applications and of allocations, including placeholders, in all partitions. Each
    /// partition has these numbers at hand.
    pub async fn running(&self) -> (i64, usize) {
        let mut allocations = 0;
        for entry in self.partition_entries() {
            let sums = ask(&entry, surveys::Sums::new).await;
            allocations += sums.map_or(0, |sums| sums.n_allocations);
        }
        (self.metrics.running_applications(), allocations)
    }

    /// The utilization of nodes of each partition, in the order of [`Self::partitions`].
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

/// Adds the findings in a partition. If the partition ends during the check, the earlier findings
/// are kept.
async fn check(entry: &PartitionEntry, found: &mut Findings) -> Result<(), ReadError> {
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

/// Whether the sum of the nodes differs from the capacity of the partition each time they are
/// summed up.
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
