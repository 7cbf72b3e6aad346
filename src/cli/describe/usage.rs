//! The descriptions of users, groups and partitions.

use monoceros_actors::partition_name::qualified_name;
use monoceros_proto::v1;

use super::sheet::Sheet;
use crate::cli::cluster::Cluster;
use crate::cli::get::limited;

/// Returns the row of a user or group in the table of a queue.
pub(super) fn row(name: &str, queues: &[v1::QueueUsage]) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend(queues.first().map(limited).unwrap_or_default());
    row
}

pub(super) async fn user(cluster: &mut Cluster, name: &str) -> anyhow::Result<Option<Sheet>> {
    let Some(found) = cluster.users("", &[name.to_owned()], 1).await?.pop() else {
        return Ok(None);
    };
    let mut sheet = Sheet::default();
    sheet.line("User", &found.name);
    queues(&mut sheet, &found.queues);
    let mut groups: Vec<_> = found.groups.into_iter().map(|(of, group)| vec![of, group]).collect();
    groups.sort_unstable();
    sheet.table("Groups", ["APPLICATION", "GROUP"], groups);
    Ok(Some(sheet))
}

pub(super) async fn group(cluster: &mut Cluster, name: &str) -> anyhow::Result<Option<Sheet>> {
    let found = cluster.groups("", &[name.to_owned()], 1).await?.pop();
    let Some(found) = found else { return Ok(None) };
    let mut sheet = Sheet::default();
    sheet.line("Group", &found.name);
    queues(&mut sheet, &found.queues);
    let counted = found.applications.into_iter().map(|id| vec![id]);
    sheet.table("Counted", ["APPLICATION"], counted);
    Ok(Some(sheet))
}

/// Adds the usage of each queue.
fn queues(sheet: &mut Sheet, queues: &[v1::QueueUsage]) {
    let rows = queues.iter().map(|it| row(&it.queue, std::slice::from_ref(it)));
    sheet.table("Queues", ["QUEUE", "APPS", "CORES", "MEMORY", "OTHERS"], rows);
}

/// Describes the partition with this name, plain or as `[rm]name`. Fails if several resource
/// managers have a partition with the plain name.
pub(super) async fn partition(cluster: &mut Cluster, name: &str) -> anyhow::Result<Option<Sheet>> {
    let qualified = |it: &v1::PartitionInfo| qualified_name(&it.name, &it.rm_id).ok();
    let is_it = |it: &v1::PartitionInfo| it.name == name || qualified(it).as_deref() == Some(name);
    let mut found: Vec<_> = cluster.partitions().await?.into_iter().filter(is_it).collect();
    if found.len() > 1 {
        let names: Vec<_> = found.iter().filter_map(qualified).collect();
        anyhow::bail!("several partitions have this name: {}", names.join(", "));
    }
    let Some(found) = found.pop() else { return Ok(None) };
    let mut sheet = Sheet::default();
    sheet.line("Partition", &found.name);
    sheet.line("RM", &found.rm_id);
    sheet.line("State", &found.state);
    sheet.time("Since", found.since_nano);
    sheet.line("Nodes", found.nodes.to_string());
    sheet.line("Node order", &found.node_sorting_policy);
    sheet.line("Allocations", found.allocations.to_string());
    sheet.line("Preemption", if found.preemption_enabled { "yes" } else { "no" });
    sheet.by_type(["TYPE", "CAPACITY", "ALLOCATED"], [&found.capacity, &found.allocated]);
    let mut states: Vec<_> = found.applications.into_iter().collect();
    states.sort_unstable();
    let states = states.into_iter().map(|(state, count)| vec![state, count.to_string()]);
    sheet.table("Applications", ["STATE", "COUNT"], states);
    Ok(Some(sheet))
}
