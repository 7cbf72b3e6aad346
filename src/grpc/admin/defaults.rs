//! Queues before the first registration: those of resource managers that will bring none.
//!
//! # Why
//! An operator who starts a service with a queue file wants to see the queues that were read before
//! any resource manager comes. Such a read concerns all of them, so it needs the right to read of
//! all.

use monoceros_actors::SchedulerHandle;
use monoceros_actors::partition_name::DEFAULT_PARTITION;
use monoceros_proto::v1;

use super::refusal::CallRefusal;
use super::{queue_path, views};
use crate::identity::Identity;

/// Whether a call that names this resource manager concerns none, since none is registered. Fails
/// if the caller may not read of all.
pub(super) fn concern_none(
    handle: &SchedulerHandle,
    caller: &Identity,
    rm_id: &str,
) -> Result<bool, CallRefusal> {
    if !rm_id.is_empty() || !handle.resource_managers().is_empty() {
        return Ok(false);
    }
    caller.check_read_all()?;
    Ok(true)
}

/// Answers `GetQueues`.
pub(super) async fn queues(
    handle: &SchedulerHandle,
    request: v1::GetQueuesRequest,
) -> Result<v1::GetQueuesResponse, CallRefusal> {
    let v1::GetQueuesRequest { partition_name, queue, depth, .. } = request;
    let partition =
        if partition_name.is_empty() { DEFAULT_PARTITION } else { partition_name.as_str() };
    let tree = handle.default_queue_tree(partition).await?;
    let tree = tree.ok_or_else(|| CallRefusal::DefaultPartitionUnknown(partition.to_owned()))?;
    let found = tree.descendant(&queue_path(&queue)).ok_or(CallRefusal::QueueUnknown(queue))?;
    Ok(v1::GetQueuesResponse { root: Some(views::queue(found, depth)), is_default: true })
}

/// Answers `GetConfig`.
pub(super) async fn configuration(
    handle: &SchedulerHandle,
) -> Result<v1::GetConfigResponse, CallRefusal> {
    let present = handle.default_configuration().await?;
    Ok(v1::GetConfigResponse {
        config: present.config,
        checksum: present.checksum,
        is_default: true,
        ..v1::GetConfigResponse::default()
    })
}
