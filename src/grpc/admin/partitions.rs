//! The calls `ListPartitions` and `SetPartitionState`.
//!
//! # Why the state is set here
//! No request of a resource manager changes the state of a partition; only an operator does, for
//! maintenance of a whole cluster. This call is the only way.

use monoceros_actors::snapshot::PartitionSnapshot;
use monoceros_actors::{ObjectState, PartitionStateError, SchedulerHandle};
use monoceros_proto::v1;
use tracing::info;

use super::RpcResult;
use super::refusal::CallRefusal;
use super::target::{Target, resource_manager};
use super::views::amount;
use crate::grpc::shared::{self, Reads};
use crate::identity::{Identity, Right};
use crate::logging::AUDIT;
use crate::reads::Kind;

/// Lists the partitions of the named resource manager. Without a name it lists all of them, or for
/// a caller who may not read of all those of the only resource manager.
pub(super) async fn list(
    handle: &SchedulerHandle,
    reads: &Reads,
    caller: &Identity,
    rm_id: &str,
) -> RpcResult<v1::ListPartitionsResponse> {
    let rm_id = if rm_id.is_empty() && caller.check_read_all().is_ok() {
        String::new()
    } else {
        resource_manager(handle, caller, Right::Read, rm_id).await?
    };
    let wanted = v1::ListPartitionsRequest { rm_id: rm_id.clone() };
    let handle = handle.clone();
    let read = move || async move {
        let all = handle.partitions().await.into_iter();
        let named = all.filter(|it| rm_id.is_empty() || it.cluster_id == rm_id);
        Ok(v1::ListPartitionsResponse { partitions: named.map(partition).collect() })
    };
    shared::read(reads, Kind::Partitions, "", &wanted, read).await
}

fn partition(snapshot: PartitionSnapshot) -> v1::PartitionInfo {
    let count = |n: i32| n.max(0).unsigned_abs();
    v1::PartitionInfo {
        rm_id: snapshot.cluster_id,
        name: snapshot.name,
        state: snapshot.state,
        since_nano: snapshot.last_state_transition_time,
        capacity: amount(&snapshot.capacity.capacity),
        allocated: amount(&snapshot.capacity.used_capacity),
        nodes: count(snapshot.total_nodes),
        allocations: count(snapshot.total_containers),
        applications: snapshot.applications.into_iter().map(|(it, n)| (it, count(n))).collect(),
        preemption_enabled: snapshot.preemption_enabled,
        node_sorting_policy: snapshot.node_sorting_policy.kind,
    }
}

/// The state in a request.
pub(super) fn state(wanted: v1::PartitionState) -> Result<ObjectState, CallRefusal> {
    match wanted {
        v1::PartitionState::PartitionActive => Ok(ObjectState::Active),
        v1::PartitionState::PartitionDraining => Ok(ObjectState::Draining),
        v1::PartitionState::PartitionStopped => Ok(ObjectState::Stopped),
        v1::PartitionState::Unspecified => {
            let all = "PARTITION_ACTIVE, PARTITION_DRAINING or PARTITION_STOPPED";
            Err(CallRefusal::field("state", format!("say which: {all}")))
        }
    }
}

/// Sets the state of a partition. Returns the previous one.
pub(super) async fn set_state(
    handle: &SchedulerHandle,
    caller: &Identity,
    target: &Target,
    to: ObjectState,
    reason: &str,
) -> Result<v1::PartitionState, CallRefusal> {
    let was = handle.set_partition_state(&target.rm_id, &target.partition, to).await;
    let was = was.map_err(|error| match error {
        PartitionStateError::Rm(error) => CallRefusal::from(error),
        PartitionStateError::PartitionNotFound(_) => CallRefusal::PartitionUnknown {
            rm_id: target.rm_id.clone(),
            partition: target.plain().to_owned(),
        },
        PartitionStateError::Refused(refused) => {
            CallRefusal::StateRefused { partition: target.plain().to_owned(), refused }
        }
    })?;
    info!(
        target: AUDIT,
        by = caller.name(),
        from = caller.from(),
        rm = target.rm_id,
        partition = target.plain(),
        %was,
        %to,
        reason,
        "partition state set by an administrator"
    );
    Ok(match was {
        ObjectState::Active => v1::PartitionState::PartitionActive,
        ObjectState::Draining => v1::PartitionState::PartitionDraining,
        ObjectState::Stopped => v1::PartitionState::PartitionStopped,
    })
}
