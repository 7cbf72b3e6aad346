//! What others measure and what follows from it: `docs/admin.md#measured-use`. Reports go by the
//! way of requests, since a report about a node must not overtake the node.

use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use tokio::sync::oneshot;

use super::SchedulerHandle;
use super::slices::whole;
use crate::api::outcomes::{ReadError, UpdateError};
use crate::front::rm::Body;
use crate::front::translate::measured;
use crate::partition::{Reports, surveys};
use crate::snapshot::NodeRecommendation;

impl SchedulerHandle {
    /// Takes what was really used by nodes and allocations of an RM, measured at one time (ns since
    /// the epoch; 0: now). It is kept for 5 minutes, newer measurements win, and nothing is ever
    /// accounted by it. Ordered with what the RM sends: a report may follow the node that it is
    /// about at once. Returns how many reports were taken and how many name nothing that is known
    /// (or have an amount that is negative or cannot be read).
    pub async fn report_utilization(
        &self,
        rm_id: &str,
        reports: Vec<si::UtilizationReport>,
        timestamp_ns: i64,
    ) -> Result<(u64, u64), UpdateError> {
        let counts = &self.metrics.utilization;
        let (mut usages, mut refused) = (Vec::new(), 0);
        for report in reports {
            let id: Arc<str> = Arc::from(report.id);
            match measured(report.actual_used_resource.as_ref()) {
                Some(usage) => usages.push((id, usage)),
                None => refused += 1,
            }
        }
        counts.refused.inc_by(refused);
        let (reply, known) = oneshot::channel();
        let reports = Reports::new(usages, Some(timestamp_ns).filter(|at| *at > 0), reply);
        self.update(rm_id.to_owned(), Body::Utilization(reports)).await?;
        let (accepted, unknown) = known.await.map_err(|_| UpdateError::Stopped)?;
        counts.accepted.inc_by(accepted);
        counts.unknown.inc_by(unknown);
        Ok((accepted, unknown + refused))
    }

    /// What size nodes should have, and why: of these nodes, or of all if none is named, in one
    /// partition of an RM or in all of them; by node, at most one of each kind.
    pub async fn node_recommendations(
        &self,
        rm_id: &str,
        partition: Option<&str>,
        node_ids: &[String],
    ) -> Result<Vec<NodeRecommendation>, ReadError> {
        let mut all = Vec::new();
        let wanted: Arc<BTreeSet<String>> = Arc::new(node_ids.iter().cloned().collect());
        for partition in self.partitions_of(rm_id, partition)? {
            let list = surveys::Recommendations(Arc::clone(&wanted));
            let shown = |row: surveys::Recommended| row.recommendations();
            let read = whole(&partition, list, shown).await?;
            all.extend(read.rows.into_iter().flatten());
        }
        Ok(all)
    }
}
