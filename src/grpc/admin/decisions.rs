//! The call `ListDecisions`: recent decisions, in pages.

use std::mem::take;

use monoceros_actors::snapshot::{DecisionLevel, DecisionSnapshot, PassedOverNodes};
use monoceros_actors::{DecisionFilter, DecisionKind, Page, SchedulerHandle};
use monoceros_proto::v1;

use super::refusal::CallRefusal;
use super::target::Target;
use super::{RpcResult, page};
use crate::grpc::shared::{self, Reads};
use crate::identity::{Identity, Right};
use crate::reads::Kind;

/// Lists the decisions of a partition that match the request, newest first.
pub(super) async fn list(
    handle: &SchedulerHandle,
    reads: &Reads,
    caller: &Identity,
    mut request: v1::ListDecisionsRequest,
) -> RpcResult<v1::ListDecisionsResponse> {
    let (rm_id, partition) = (take(&mut request.rm_id), take(&mut request.partition_name));
    let wanted = request.clone();
    let page = match request.id {
        0 => page::asked(request.page_size, request.page_token)?,
        id => Page {
            after: Some(id.saturating_add(1).to_string()),
            limit: Some(1),
            ..Page::default()
        },
    };
    let filter = DecisionFilter {
        kind: kind(&request.kind)?,
        application: named(request.application_id),
        key: named(request.allocation_key),
        queue: named(request.queue.to_lowercase()),
        node: named(request.node_id),
    };
    let target = Target::find(handle, caller, Right::Read, &rm_id, &partition).await?;
    let (handle, of) = (handle.clone(), target.partition.clone());
    let read = move || async move {
        let read = handle.list_decisions(&target.partition, filter, page).await;
        let read = read.map_err(|error| CallRefusal::unread(error, &target.rm_id))?;
        let kept = handle.decisions_kept(&target.partition).await;
        let kept = kept.map_err(|error| CallRefusal::unread(error, &target.rm_id))?;
        let is_meant = |it: &DecisionSnapshot| request.id == 0 || it.id == request.id;
        let next = read.next.filter(|_| request.id == 0);
        Ok(v1::ListDecisionsResponse {
            decisions: read.rows.into_iter().filter(is_meant).map(decision).collect(),
            next_page_token: next.unwrap_or_default(),
            kept: kept as u64,
        })
    };
    shared::read(reads, Kind::Decisions, &of, &wanted, read).await
}

/// The kind of this name. `None` matches all kinds.
fn kind(name: &str) -> Result<Option<DecisionKind>, CallRefusal> {
    if name.is_empty() {
        return Ok(None);
    }
    DecisionKind::named(name).map(Some).ok_or_else(|| {
        let reason =
            format!("`{name}` is none of {}", DecisionKind::ALL.map(DecisionKind::name).join(", "));
        CallRefusal::field("kind", reason)
    })
}

fn named(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn decision(read: DecisionSnapshot) -> v1::DecisionInfo {
    let nodes = read.nodes.unwrap_or_default();
    v1::DecisionInfo {
        id: read.id,
        time: read.time,
        decided_time: read.decided_time,
        kind: read.kind,
        ruled: read.ruled,
        application_id: read.application_id,
        allocation_key: read.allocation_key,
        queue_name: read.queue_name,
        node_id: read.node_id,
        levels: read.levels.into_iter().map(level).collect(),
        tried: nodes.tried,
        passed_over: nodes.passed_over.into_iter().map(passed_over).collect(),
        preempted_for: read.preempted_for,
        pod: read.pod,
    }
}

fn level(
    DecisionLevel { queue, order, chosen, runner_up, runner_up_pod, rule }: DecisionLevel,
) -> v1::DecisionLevel {
    v1::DecisionLevel { queue, order, chosen, runner_up, rule, runner_up_pod }
}

fn passed_over(PassedOverNodes { reason, count, example }: PassedOverNodes) -> v1::PassedOverNodes {
    v1::PassedOverNodes { reason, count, example }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_case_insensitive() {
        assert_eq!(kind("").unwrap(), None);
        assert_eq!(kind("Eviction").unwrap(), Some(DecisionKind::Eviction));
        assert_eq!(
            kind("x").unwrap_err().to_string(),
            "`kind`: `x` is none of allocation, reservation, eviction"
        );
    }
}
