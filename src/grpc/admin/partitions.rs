//! The call `SetPartitionState`.
//!
//! # Why here
//! No request of a resource manager changes the state of a partition; only an operator does, for
//! maintenance of a whole cluster. This call is the only way.

use monoceros_actors::{ObjectState, PartitionStateError, SchedulerHandle};
use monoceros_proto::v1;
use tracing::info;

use super::refusal::CallRefusal;
use super::target::Target;
use crate::identity::Identity;
use crate::logging::AUDIT;

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
