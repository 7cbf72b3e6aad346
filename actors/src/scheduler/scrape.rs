//! Gauges that are read off the partitions for a scrape of the metrics.

use std::time::Duration;

use monoceros_rules::values::resources::Resources;
use tokio::time::timeout;

use super::SchedulerHandle;
use super::lists::tree;
use super::slices::{ask, whole};
use crate::partition::surveys;

/// The timeout of a scrape for one partition.
const SCRAPE_PATIENCE: Duration = Duration::from_secs(3);

impl SchedulerHandle {
    /// Updates the gauges that are read off partitions, for a scrape. A partition that does not answer within
    /// three seconds is left out; other metrics show that it hangs.
    pub async fn refresh_metrics(&self) {
        let (mut trees, mut nodes) = (Vec::new(), Vec::new());
        let (mut by_nodes, mut by_allocations) = (Resources::new(), Resources::new());
        let mut n_classes = 0;
        for entry in self.partition_entries() {
            let reads = async {
                if let Ok(read) = whole(&entry, surveys::Queues::default(), |row| row).await {
                    trees.extend(tree(&entry, read.rows));
                }
                let load = |load: surveys::NodeLoad| (load.total, load.allocated);
                if let Ok(read) = whole(&entry, surveys::NodeLoads, load).await {
                    nodes.extend(read.rows);
                }
                for (kind, sum) in [
                    (surveys::ObservedKind::Nodes, &mut by_nodes),
                    (surveys::ObservedKind::Allocations, &mut by_allocations),
                ] {
                    let used = |row: surveys::ObservedSum| row.used;
                    if let Ok(read) = whole(&entry, surveys::ObservedSums(kind), used).await {
                        read.rows.iter().for_each(|used| sum.add(used));
                    }
                }
                if let Ok(Some(counts)) = ask(&entry, surveys::RunsCounted::new).await {
                    n_classes += counts.classes;
                }
            };
            // Values that were read before a timeout are kept.
            let _ = timeout(SCRAPE_PATIENCE, reads).await;
        }
        self.metrics.set_observed(&by_nodes, &by_allocations);
        self.metrics.run_times.classes.set(i64::try_from(n_classes).unwrap_or(i64::MAX));
        self.metrics.set_queues(&trees);
        self.metrics.set_node_load(nodes.iter().map(|(total, allocated)| (total, allocated)));
    }
}
