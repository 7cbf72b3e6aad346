//! Measured use of nodes and allocations, and recommendations that follow from it:
//! `docs/admin.md#measured-use`. Measurements are sent by the way of requests, since one about a node must not
//! overtake the node.

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
    /// Takes measurements of the use of nodes and allocations of an RM, made at one time (ns since the epoch;
    /// 0: now). They are kept for 5 minutes, newer ones replace older ones, and they do not affect accounting.
    /// They keep their order among requests of the RM: a measurement may follow its node at once. Returns the
    /// number of accepted measurements, and of those that name an unknown object or have a negative or
    /// unreadable amount.
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

    /// Recommendations for the sizes of nodes: for these nodes, or for all if there are none, in one partition of
    /// an RM or in all. They are sorted by node; a node has at most one of each kind.
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
