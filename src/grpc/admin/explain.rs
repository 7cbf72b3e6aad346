//! Why requests are pending, as messages: the same explanation as in REST, and a short form for
//! each request of an application.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_actors::partition_name::rm_id;
use monoceros_actors::snapshot::{
    AllocationLogEntry, AskSnapshot, ChangeSnapshot, ExplanationSnapshot, NodeCounts,
    ObstacleSnapshot, RankSnapshot,
};
use monoceros_actors::{ExplainError, SchedulerHandle};
use monoceros_proto::v1;
use tonic::{Response, Status};
use v1::explanation::{Change, Nodes, Obstacle, Order};

use super::refusal::CallRefusal;
use super::target::Target;
use super::views::amount;
use crate::grpc::shared::{self, Reads};
use crate::identity::{Identity, Right};
use crate::reads::Kind;

/// Most applications of a page whose requests are explained: each costs a step of the partition.
const APPLICATIONS_MAX: usize = 50;

/// Explains all requests of an application, or one.
pub(super) async fn explain(
    handle: &SchedulerHandle,
    reads: &Reads,
    caller: &Identity,
    mut request: v1::ExplainApplicationRequest,
) -> Result<Response<v1::ExplainApplicationResponse>, Status> {
    let partition_name = std::mem::take(&mut request.partition_name);
    let rm = if partition_name.starts_with('[') { rm_id(&partition_name) } else { "" };
    let target = Target::find(handle, caller, Right::Read, rm, &partition_name).await?;
    let (handle, of, wanted) = (handle.clone(), target.partition.clone(), request.clone());
    let read = move || async move { of_target(&handle, &target, request).await };
    shared::read(reads, Kind::Explanation, &of, &wanted, read).await
}

async fn of_target(
    handle: &SchedulerHandle,
    target: &Target,
    request: v1::ExplainApplicationRequest,
) -> Result<v1::ExplainApplicationResponse, CallRefusal> {
    let v1::ExplainApplicationRequest { application_id, allocation_key, offset, .. } = request;
    let partition = &target.partition;
    let explained = if allocation_key.is_empty() {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        handle.explain(partition, &application_id, offset).await
    } else {
        handle.explain_ask(partition, &application_id, &allocation_key).await
    };
    let explained = explained.map_err(|error| match error {
        ExplainError::Unread(error) => CallRefusal::unread(error, &target.rm_id),
        error => CallRefusal::NotExplained(error),
    })?;
    let explanations = explained.into_iter().map(explanation).collect();
    Ok(v1::ExplainApplicationResponse { explanations })
}

/// The reasons for which the requests of some applications are pending.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    /// By application and allocation key.
    requests: BTreeMap<(String, String), Arc<ExplanationSnapshot>>,
    /// The first explanation of each application, by its id.
    first: BTreeMap<String, Arc<ExplanationSnapshot>>,
}

impl Reasons {
    /// Reads the reasons of the first applications named.
    pub(super) async fn read(
        handle: &SchedulerHandle,
        partition: &str,
        applications: &[String],
    ) -> Self {
        let mut reasons = Self::default();
        for id in applications.iter().take(APPLICATIONS_MAX) {
            // Empty for an application that was removed since it was listed.
            let explained = handle.explain_with_keys(partition, id).await.unwrap_or_default();
            for class in explained.into_iter().map(Arc::new) {
                for key in &class.allocation_keys {
                    reasons.requests.insert((id.clone(), key.clone()), Arc::clone(&class));
                }
                reasons.first.entry(id.clone()).or_insert(class);
            }
        }
        reasons
    }

    /// Why an application waits, and the cure. If it was not explained, the latest result of trying
    /// one of its requests, and no cure.
    pub(super) fn of_application(&self, id: &str, requests: &[AskSnapshot]) -> (String, String) {
        if let Some(first) = self.first.get(id) {
            return (first.message.clone(), first.cure.clone());
        }
        let found = requests.iter().find_map(|request| request.allocation_log.last());
        (found.map(|entry| entry.message.clone()).unwrap_or_default(), String::new())
    }

    /// The present obstacles of a request; if none are known, the results of earlier tries.
    pub(super) fn of(&self, request: &AskSnapshot) -> Vec<v1::WaitReason> {
        let key = (request.application_id.clone(), request.allocation_key.clone());
        match self.requests.get(&key) {
            Some(explained) if !explained.obstacles.is_empty() => {
                explained.obstacles.iter().map(in_the_way).collect()
            }
            _ => request.allocation_log.iter().map(found).collect(),
        }
    }
}

fn in_the_way(obstacle: &ObstacleSnapshot) -> v1::WaitReason {
    let (message, last_at_nano) = (obstacle.message.clone(), obstacle.since);
    v1::WaitReason { message, count: 1, last_at_nano }
}

fn found(entry: &AllocationLogEntry) -> v1::WaitReason {
    v1::WaitReason {
        message: entry.message.clone(),
        count: entry.count.max(0).unsigned_abs(),
        last_at_nano: entry.last_occurrence,
    }
}

fn explanation(snapshot: ExplanationSnapshot) -> v1::Explanation {
    v1::Explanation {
        allocation_keys: snapshot.allocation_keys,
        count: u64::try_from(snapshot.count).unwrap_or_default(),
        resource: amount(&snapshot.resource),
        cause: snapshot.cause,
        since: snapshot.since,
        object: snapshot.object,
        short: amount(&snapshot.short),
        message: snapshot.message,
        cure: snapshot.cure,
        task_group: snapshot.task_group,
        preemption: snapshot.preemption,
        gang: snapshot.gang,
        obstacles: snapshot.obstacles.into_iter().map(obstacle).collect(),
        order: snapshot.order.into_iter().map(order).collect(),
        nodes: Some(nodes(snapshot.nodes)),
        changes: snapshot.changes.into_iter().map(change).collect(),
    }
}

fn obstacle(snapshot: ObstacleSnapshot) -> Obstacle {
    Obstacle {
        cause: snapshot.cause,
        object: snapshot.object,
        short: amount(&snapshot.short),
        have: amount(&snapshot.have),
        want: amount(&snapshot.want),
        since: snapshot.since,
        message: snapshot.message,
    }
}

fn order(snapshot: RankSnapshot) -> Order {
    let RankSnapshot { level, within, rank, of, first } = snapshot;
    Order { level, r#in: within, rank, of, first }
}

fn nodes(counts: NodeCounts) -> Nodes {
    Nodes {
        total: counts.total,
        closed: counts.closed,
        too_small: counts.too_small,
        no_room: counts.no_room,
        reserved: counts.reserved,
        constraints: counts.constraints,
        topology: counts.topology,
        predicates: counts.predicates,
    }
}

fn change(snapshot: ChangeSnapshot) -> Change {
    Change {
        kind: snapshot.kind,
        object: snapshot.object,
        resource: amount(&snapshot.resource),
        count: snapshot.count,
        at: snapshot.at,
    }
}
