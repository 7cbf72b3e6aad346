//! Measured utilization, as reported by others, and recommended node sizes.
//!
//! A scheduler knows requested amounts, which often exceed the amounts used. The measurements come
//! from outside (metrics of the nodes), are stored with the nodes, and do not affect placement.

use monoceros_actors::SchedulerHandle;
use monoceros_actors::snapshot::{NodeRecommendation, RecommendationKind};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::{Code, Response, Status};

use crate::grpc::admin::refusal::CallRefusal;
use crate::grpc::admin::target;
use crate::grpc::admin::views::amount;
use crate::grpc::end::StreamEnd;
use crate::grpc::incoming::{Messages, OneRm};
use crate::grpc::shared::{self, Reads};
use crate::identity::{Identity, Right};
use crate::reads::Kind;

/// Receives reports until the client ends the stream. A message that names no resource manager
/// continues with the resource manager of the previous message. With `one_rm` all messages belong
/// to one.
pub(super) async fn take(
    handle: &SchedulerHandle,
    caller: &Identity,
    mut messages: Messages,
    mut one_rm: Option<OneRm>,
    max_bytes: usize,
) -> Result<v1::UtilizationSummary, Status> {
    let mut summary = v1::UtilizationSummary::default();
    let mut rm_id = String::new();
    while let Some(message) = messages.message().await.map_err(StreamEnd::from)? {
        if message.len() > max_bytes {
            let bytes = message.len();
            let message =
                format!("a message of {bytes} bytes is refused: send at most {max_bytes}");
            return Err(StreamEnd::Unreadable { code: Code::OutOfRange, message }.into());
        }
        let decoded = message.decode_unbound::<v1::UtilizationReports>().await?;
        let message = decoded.message;
        if let Some(one_rm) = &mut one_rm {
            check_same(one_rm, &message.rm_id)?;
        }
        if rm_id.is_empty() || !message.rm_id.is_empty() {
            rm_id = target::resource_manager(handle, caller, Right::Act, &message.rm_id).await?;
        }
        let reports = handle.report_utilization(&rm_id, message.reports, message.timestamp_nano);
        let (accepted, unknown) = reports.await.map_err(CallRefusal::from)?;
        summary.accepted += accepted;
        summary.unknown += unknown;
    }
    Ok(summary)
}

/// Refuses a message that names another resource manager than the one before.
fn check_same(OneRm(bound): &mut OneRm, named: &str) -> Result<(), CallRefusal> {
    if bound.is_empty() {
        named.clone_into(bound);
    } else if !named.is_empty() && bound.as_str() != named {
        return Err(CallRefusal::OtherRm { bound: bound.clone(), named: named.to_owned() });
    }
    Ok(())
}

/// Answers `ListNodeRecommendations`.
pub(super) async fn recommendations(
    handle: &SchedulerHandle,
    reads: &Reads,
    caller: &Identity,
    mut request: v1::NodeRecommendationParameters,
) -> Result<Response<v1::NodeRecommendations>, Status> {
    let (named, partition) = (&request.rm_id, &request.partition_name);
    let (rm_id, partition) =
        target::one_or_all_partitions(handle, caller, named, partition).await?;
    request.rm_id.clear();
    request.partition_name = partition.clone().unwrap_or_default();
    let (handle, of, wanted) = (handle.clone(), rm_id.clone(), request.clone());
    let read = move || async move {
        let ids = &request.node_ids;
        let found = handle.node_recommendations(&rm_id, partition.as_deref(), ids).await;
        Ok(message(found.map_err(|error| CallRefusal::unread(error, &rm_id))?))
    };
    shared::read(reads, Kind::Recommendations, &of, &wanted, read).await
}

fn message(found: Vec<NodeRecommendation>) -> v1::NodeRecommendations {
    let items = found.into_iter().map(|found| {
        let kind = found.kind.text();
        let why = match found.kind {
            RecommendationKind::Overcommitted => "more is allocated and occupied than it has",
            RecommendationKind::Drained => "it is drained and empty, and can go",
            RecommendationKind::ObservedOverload => "more is used on it than it has",
        };
        let recommendation = si::NodeRecommendation {
            recommended_schedulable_resource: amount(&found.recommended),
            message: format!("node={} kind={kind}; {why}", found.node),
        };
        v1::NodeRecommendationItem {
            node_id: found.node,
            recommendation: Some(recommendation),
            kind: kind.to_owned(),
            timestamp_nano: found.at_ns,
        }
    });
    v1::NodeRecommendations { items: items.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_cluster_a_stream_reports_for_one_rm() {
        let mut one_rm = OneRm(String::new());
        for named in ["", "rm-1", "", "rm-1"] {
            assert_eq!(check_same(&mut one_rm, named), Ok(()), "{named}");
        }
        let refusal = check_same(&mut one_rm, "rm-2").unwrap_err();
        let status = Status::from(refusal);
        assert_eq!(status.code(), Code::InvalidArgument);
        let text = "the stream belongs to `rm-1`, the message names `rm-2`: in a cluster send the ";
        assert!(status.message().starts_with(text), "{status:?}");
    }
}
