//! The call `DrainNodes`.
//!
//! The scheduler receives the same request as from the resource manager itself, so a node drained
//! here is drained like any other: allocations stay, asks that require the node are still placed,
//! and the latest request wins. A resource manager may reopen the node: a Kubernetes shim does when
//! the node is uncordoned or the shim restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monoceros_actors::snapshot::NodeSnapshot;
use monoceros_actors::{Page, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tokio::time::timeout;
use tracing::info;

use super::refusal::CallRefusal;
use super::target::Target;
use crate::identity::{Identity, Right};
use crate::logging::AUDIT;

/// Most nodes of one call.
const NODES_MAX: usize = 200_000;

/// How long the reply may wait for earlier requests of the resource manager.
const PATIENCE: Duration = Duration::from_secs(2);

const NODE_PARTITION: &str = "si/node-partition";

/// Drains nodes, or reopens them.
pub(super) async fn drain(
    handle: &SchedulerHandle,
    caller: &Identity,
    request: v1::DrainNodesRequest,
) -> Result<v1::DrainNodesResponse, CallRefusal> {
    let v1::DrainNodesRequest { rm_id, partition_name, node_ids, drain, reason } = request;
    if node_ids.is_empty() {
        return Err(CallRefusal::field("node_ids", "name at least one node"));
    }
    if node_ids.len() > NODES_MAX {
        let reason = format!("{} are more than {NODES_MAX}", node_ids.len());
        return Err(CallRefusal::field("node_ids", reason));
    }
    let named: BTreeSet<String> = node_ids.into_iter().collect();
    let target = Target::find(handle, caller, Right::Act, &rm_id, &partition_name).await?;
    let before = read(handle, &target, &named).await?;
    let nodes: Vec<&str> = named.iter().map(String::as_str).collect();
    info!(
        target: AUDIT,
        by = caller.name(),
        from = caller.from(),
        rm = target.rm_id,
        partition = target.plain(),
        nodes = nodes.join(","),
        drain,
        reason,
        "nodes drained or opened by an administrator"
    );
    if !before.is_empty() {
        handle.update_node(orders(&target, before.keys(), drain)).await?;
    }
    let mut after = read(handle, &target, &named).await?;
    if after.values().any(|node| node.schedulable == drain) {
        // Either earlier requests are still being processed, or the node is not ready.
        let _ = timeout(PATIENCE, handle.settle_resource_manager(&target.rm_id)).await;
        after = read(handle, &target, &named).await?;
    }
    Ok(outcome(named, &before, &after))
}

async fn read(
    handle: &SchedulerHandle,
    target: &Target,
    named: &BTreeSet<String>,
) -> Result<BTreeMap<String, NodeSnapshot>, CallRefusal> {
    let nodes = handle.list_nodes(&target.partition, named, Page::default()).await;
    let nodes = nodes.map_err(|error| CallRefusal::unread(error, &target.rm_id))?;
    Ok(nodes.rows.into_iter().map(|node| (node.node_id.clone(), node)).collect())
}

fn orders<'n>(
    target: &Target,
    ids: impl Iterator<Item = &'n String>,
    drain: bool,
) -> si::NodeRequest {
    use si::node_info::ActionFromRm as Action;
    let action = if drain { Action::DrainNode } else { Action::DrainToSchedulable };
    let order = |id: &String| si::NodeInfo {
        node_id: id.clone(),
        action: action.into(),
        attributes: [(NODE_PARTITION.to_owned(), target.partition.clone())].into(),
        ..si::NodeInfo::default()
    };
    si::NodeRequest {
        nodes: ids.map(order).collect(),
        rm_id: target.rm_id.clone(),
        ..Default::default()
    }
}

fn outcome(
    named: BTreeSet<String>,
    before: &BTreeMap<String, NodeSnapshot>,
    after: &BTreeMap<String, NodeSnapshot>,
) -> v1::DrainNodesResponse {
    let was = |id: &String| before.get(id).map(|node| node.schedulable);
    let changed = after.iter().filter(|(id, node)| was(id) == Some(!node.schedulable)).count();
    let remaining: usize = after.values().map(|node| node.allocations.len()).sum();
    let unknown = named.into_iter().filter(|id| !before.contains_key(id));
    v1::DrainNodesResponse {
        changed: u32::try_from(changed).unwrap_or(u32::MAX),
        unknown_node_ids: unknown.collect(),
        remaining_allocations: u32::try_from(remaining).unwrap_or(u32::MAX),
    }
}
