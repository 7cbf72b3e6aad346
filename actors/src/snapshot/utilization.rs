//! How much of their nodes partitions have allocated, as `/ws/v1/scheduler/node-utilizations` shows
//! it.

use serde::Serialize;

use super::is_default;

/// The nodes of a partition by how much of each resource is allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUtilizationSnapshot {
    /// The RM that owns the partition.
    pub cluster_id: String,
    /// Name without the brackets of its RM.
    pub partition: String,
    /// One entry for each resource that some node has, by name. Sent when empty too: the web UI
    /// fails without it.
    pub utilizations: Vec<TypeUtilization>,
}

/// The nodes of a partition that have one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TypeUtilization {
    /// The name of the resource.
    #[serde(rename = "type")]
    pub kind: String,
    /// Ten classes, the least used first.
    pub utilization: Vec<UtilizationClass>,
}

/// Nodes of which about as much is allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UtilizationClass {
    /// `0-10%` and so on; the last one has nodes above 100 %, too.
    pub bucket_name: String,
    /// How many there are.
    #[serde(skip_serializing_if = "is_default")]
    pub num_of_nodes: i64,
    /// Their ids, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
}
